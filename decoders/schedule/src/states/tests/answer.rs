//! The state machine's output for a timeline, as lines of text.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use super::timeline::utid;
use crate::chunk::Output;

/// (thread, switch-in, ready, wait, waker).
pub(crate) type Entry = (i64, i64, Option<i64>, Option<i64>, Option<i64>);

/// What the machine produced from a timeline.
pub(crate) struct Answer {
    pub(crate) outputs: Vec<Output>,
}

fn number(batch: &RecordBatch, column: &str, row: usize) -> Option<i64> {
    let array = batch.column_by_name(column).expect(column);
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int32 => i64::from(array.as_primitive::<Int32Type>().value(row)),
        DataType::Boolean => i64::from(array.as_boolean().value(row)),
        _ => array.as_primitive::<Int64Type>().value(row),
    })
}

fn word(batch: &RecordBatch, column: &str, row: usize) -> Option<String> {
    let array = batch.column_by_name(column).expect(column);
    if array.is_null(row) {
        return None;
    }
    if let Some(texts) = array.as_string_opt::<i32>() {
        return Some(texts.value(row).to_owned());
    }
    let words = array.as_dictionary::<UInt8Type>();
    let key = words.keys().value(row);
    Some(words.values().as_string::<i32>().value(usize::from(key)).to_owned())
}

/// Begin and end of a row.
fn period(batch: &RecordBatch, row: usize) -> (i64, i64) {
    let ts = number(batch, "ts", row).expect("ts");
    (ts, ts.saturating_add(number(batch, "dur", row).expect("dur")))
}

impl Answer {
    fn rows<T>(&self, table: &str, line: impl Fn(&RecordBatch, usize) -> T) -> Vec<T> {
        self.outputs
            .iter()
            .filter(|output| output.table == table)
            .flat_map(|output| (0..output.batch.num_rows()).map(|row| line(&output.batch, row)))
            .collect()
    }

    /// `THREAD STATE BEGIN..END`, then the known details: cpu, reason, waker, `<` and `>` if
    /// censored. As the view `thread_state` has them: from the slices, and the other states.
    pub(crate) fn states(&self) -> Vec<String> {
        let thread = |batch: &RecordBatch, row| number(batch, "utid", row).expect("utid") - utid(0);
        let ended = |batch: &RecordBatch, row, mut line: String| {
            for (column, sign) in [("left_censored", " <"), ("right_censored", " >")] {
                if number(batch, column, row) == Some(1) {
                    line += sign;
                }
            }
            line
        };
        let by = |batch: &RecordBatch, row| {
            number(batch, "waker_utid", row)
                .map_or_else(String::new, |waker| format!(" by{}", waker - utid(0)))
        };
        let mut lines = self.rows("thread_state_other", |batch, row| {
            let (ts, end) = period(batch, row);
            let (thread, state) = (thread(batch, row), word(batch, "state", row).expect("state"));
            let reason = word(batch, "reason", row);
            let reason = reason.map_or_else(String::new, |reason| format!(" {reason}"));
            let line = format!("{thread} {state} {ts}..{end}{reason}{}", by(batch, row));
            (thread, ts, end, ended(batch, row, line))
        });
        let of_slices = self.rows("sched_slice", |batch, row| {
            if number(batch, "is_idle", row) == Some(1) {
                return Vec::new();
            }
            let ((ts, end), thread) = (period(batch, row), thread(batch, row));
            let cpu = number(batch, "cpu", row).expect("cpu");
            let line = ended(batch, row, format!("{thread} running {ts}..{end} cpu{cpu}"));
            let mut states = vec![(thread, ts, end, line)];
            if let Some(ready) = number(batch, "ready_ns", row).filter(|&ready| ready > 0) {
                let line = format!("{thread} ready {}..{ts}{}", ts - ready, by(batch, row));
                states.push((thread, ts - ready, ts, line));
            }
            states
        });
        lines.extend(of_slices.into_iter().flatten());
        lines.sort();
        lines.into_iter().map(|(.., line)| line).collect()
    }

    /// States of one thread.
    pub(crate) fn states_of(&self, thread: i64) -> Vec<String> {
        let start = format!("{thread} ");
        self.states()
            .into_iter()
            .filter_map(|line| line.strip_prefix(&start).map(str::to_owned))
            .collect()
    }

    /// `THREAD cpuN BEGIN..END REASON`, then the known details: ready, wait, waker, prev, `<`, `>`.
    pub(crate) fn slices(&self) -> Vec<String> {
        let mut lines = self.rows("sched_slice", |batch, row| {
            let get = |column| number(batch, column, row);
            let (thread, ts) = (get("utid").expect("utid") - utid(0), get("ts").expect("ts"));
            let (cpu, dur) = (get("cpu").expect("cpu"), get("dur").expect("dur"));
            let reason = word(batch, "end_reason", row).unwrap_or_else(|| "-".to_owned());
            let mut line = format!("{thread} cpu{cpu} {ts}..{} {reason}", ts.saturating_add(dur));
            for (column, name) in [("ready_ns", "ready"), ("wait_ns", "wait"), ("prev_cpu", "prev")]
            {
                if let Some(value) = get(column) {
                    line += &format!(" {name}={value}");
                }
            }
            if let Some(waker) = get("waker_utid") {
                line += &format!(" by{}", waker - utid(0));
            }
            for (column, sign) in [("left_censored", " <"), ("right_censored", " >")] {
                if get(column) == Some(1) {
                    line += sign;
                }
            }
            (ts, ts.saturating_add(dur), cpu, line)
        });
        lines.sort();
        lines.into_iter().map(|(.., line)| line).collect()
    }

    /// Slices of one thread.
    pub(crate) fn slices_of(&self, thread: i64) -> Vec<String> {
        let start = format!("{thread} ");
        self.slices()
            .into_iter()
            .filter_map(|line| line.strip_prefix(&start).map(str::to_owned))
            .collect()
    }

    /// Priorities of the slices of a thread, by time.
    pub(crate) fn priorities_of(&self, thread: i64) -> Vec<Option<i64>> {
        let mut rows = self.rows("sched_slice", |batch, row| {
            let get = |column| number(batch, column, row);
            (get("utid"), get("ts"), get("priority"))
        });
        rows.retain(|row| row.0 == Some(utid(thread)));
        rows.sort();
        rows.into_iter().map(|(.., priority)| priority).collect()
    }

    /// `STATE BEGIN..END THREAD` of one CPU, as the view `cpu_state` has them.
    pub(crate) fn cpu(&self, cpu: i64) -> Vec<String> {
        let mut lines = self.tiles();
        lines.retain(|line| line.0 == cpu);
        lines.sort();
        lines.into_iter().map(|(.., line)| line).collect()
    }

    /// All CPUs with a state.
    pub(crate) fn cpus(&self) -> Vec<i64> {
        let mut cpus: Vec<i64> = self.tiles().into_iter().map(|(cpu, ..)| cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The states of the CPUs: CPU, begin, and line.
    fn tiles(&self) -> Vec<(i64, i64, String)> {
        let cpu = |batch: &RecordBatch, row| number(batch, "cpu", row).expect("cpu");
        let mut tiles = self.rows("cpu_state_other", |batch, row| {
            let (ts, end) = period(batch, row);
            let state = word(batch, "state", row).expect("state");
            (cpu(batch, row), ts, format!("{state} {ts}..{end}"))
        });
        let of_slices = self.rows("sched_slice", |batch, row| {
            let (ts, end) = period(batch, row);
            let thread = number(batch, "utid", row).expect("utid") - utid(0);
            let runs = number(batch, "is_idle", row) == Some(0) && ts < end;
            runs.then(|| (cpu(batch, row), ts, format!("thread {ts}..{end} {thread}")))
        });
        tiles.extend(of_slices.into_iter().flatten());
        tiles
    }

    /// By (time, seq): whether the wakeup was effective, and its target CPU, with all corrections
    /// applied.
    pub(crate) fn wakings(&self) -> Vec<(i64, bool, Option<i64>)> {
        let corrections = self.rows("wakeup_mend", |batch, row| {
            let get = |column| number(batch, column, row);
            (get("cpu"), get("seq"), get("effective"), get("target_cpu"))
        });
        let mut rows = self.rows("wakeup", |batch, row| {
            let get = |column| number(batch, column, row);
            let correction = corrections
                .iter()
                .find(|correction| (correction.0, correction.1) == (get("cpu"), get("seq")));
            let (effective, target) = correction
                .map_or((get("effective"), get("target_cpu")), |correction| {
                    (correction.2, correction.3)
                });
            (get("ts").expect("ts"), get("seq"), effective.expect("decided") == 1, target)
        });
        rows.sort();
        rows.into_iter().map(|(ts, _, effective, target)| (ts, effective, target)).collect()
    }

    /// seq of the wakeups that were effective.
    pub(crate) fn effective(&self) -> Vec<i64> {
        let mut rows = self.rows("wakeup", |batch, row| {
            (number(batch, "seq", row).expect("seq"), number(batch, "effective", row))
        });
        rows.retain(|row| row.1 == Some(1));
        let mut seqs: Vec<i64> = rows.into_iter().map(|row| row.0).collect();
        seqs.sort_unstable();
        seqs
    }

    /// (thread, switch-in, ready, wait, waker) of every switch-in that was seen.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut rows = self.rows("sched_slice", |batch, row| {
            let get = |column| number(batch, column, row);
            let seen = get("is_idle") == Some(0) && get("left_censored") == Some(0);
            seen.then(|| {
                (
                    get("utid").expect("utid") - utid(0),
                    get("ts").expect("ts"),
                    get("ready_ns"),
                    get("wait_ns"),
                    get("waker_utid").map(|waker| waker - utid(0)),
                )
            })
        });
        rows.retain(Option::is_some);
        let mut rows: Vec<Entry> = rows.into_iter().flatten().collect();
        rows.sort();
        rows
    }

    /// Number of corrections to wakeups already written.
    pub(crate) fn corrections(&self) -> usize {
        self.rows("wakeup_mend", |_, _| ()).len()
    }

    /// `cpuN BEGIN..END SIGNAL` of `loss`.
    pub(crate) fn losses(&self) -> Vec<String> {
        let mut lines = self.rows("loss", |batch, row| {
            let show = |column: &str| {
                number(batch, column, row).map_or_else(|| "?".to_owned(), |n| n.to_string())
            };
            format!(
                "cpu{} {}..{} {}",
                show("cpu"),
                show("start_ns"),
                show("end_ns"),
                word(batch, "signalled_by", row).expect("signalled_by")
            )
        });
        lines.sort();
        lines
    }

    /// `COUNT WHAT` of `problem`.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.rows("problem", |batch, row| {
            format!(
                "{} {}",
                number(batch, "count", row).expect("count"),
                word(batch, "what", row).expect("what")
            )
        })
    }

    /// `TIME: PREV>NEXT SOURCE` of `context_switch`, with all corrections applied.
    pub(crate) fn switches(&self) -> Vec<String> {
        let corrections = self.rows("context_switch_mend", |batch, row| {
            let get = |column| number(batch, column, row);
            (get("cpu"), get("seq"), get("next_utid"))
        });
        self.rows("context_switch", |batch, row| {
            let get = |column| number(batch, column, row);
            let correction = corrections.iter().find(|m| (m.0, m.1) == (get("cpu"), get("seq")));
            let (next, priority) =
                correction.map_or((get("next_utid"), get("next_priority")), |m| (m.2, None));
            let show = |utid_found: Option<i64>| {
                utid_found.map_or_else(|| "?".to_owned(), |n| (n - utid(0)).to_string())
            };
            format!(
                "{}: {}>{} {}{}",
                get("ts").expect("ts"),
                show(get("prev_utid")),
                show(next),
                word(batch, "source", row).expect("source"),
                priority.map_or_else(String::new, |p| format!(" p{p}")),
            )
        })
    }

    /// `THREAD cpuN BEGIN..END DELTA` of `counter_delta`.
    pub(crate) fn deltas(&self) -> Vec<String> {
        self.rows("counter_delta", |batch, row| {
            let get = |column| number(batch, column, row).expect(column);
            let ts = get("ts");
            format!(
                "{} cpu{} {ts}..{} {}",
                get("utid") - utid(0),
                get("cpu"),
                ts + get("dur"),
                get("delta")
            )
        })
    }
}

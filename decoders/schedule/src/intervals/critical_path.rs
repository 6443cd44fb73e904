//! The critical path of a frame: from its end back through what each thread waited for.
//!
//! At the frame's end the path is on the thread that presents. Where the thread on the path became
//! ready because another thread woke it, the path continues with the waker at that moment. Where an
//! interrupt or an unknown waker woke it, the path continues on the waiting thread. The pieces of a
//! frame tile it.

use super::input::{Batches, IntervalError, PathFrame, PathState, read_all};
use super::tables::{Table, Value};
use super::threads::ByThread;
use crate::chunk::Output;

/// After this many hops, the rest of the frame is charged to the current thread.
const MOST_HOPS: usize = 10_000;

/// State codes of [`PathState`].
const READY: i8 = 1;
const WAITING: i8 = 2;

/// What is known about a recording's threads, each in time order.
struct Threads {
    rows: Vec<PathState>,
    /// Range in `rows` of each thread.
    of: ByThread<(usize, usize)>,
}

impl Threads {
    fn new(mut rows: Vec<PathState>) -> Self {
        rows.retain(|row| row.dur > 0 || row.waker_utid.is_some());
        rows.sort_by_key(|row| (row.utid, row.ts, row.dur));
        let mut of = ByThread::default();
        let mut from = 0;
        for chunk in rows.chunk_by(|a, b| a.utid == b.utid) {
            of.insert(chunk[0].utid, (from, from + chunk.len()));
            from += chunk.len();
        }
        Self { rows, of }
    }

    /// The thread's last row that starts before a time.
    fn before(&self, utid: i64, ts: i64) -> Option<usize> {
        let (from, to) = *self.of.get(&utid)?;
        let found = from + self.rows[from..to].partition_point(|row| row.ts < ts);
        (found > from).then(|| found - 1)
    }

    /// Who woke the thread at a time, according to the ready row that starts there.
    fn woken_by(&self, utid: i64, ts: i64) -> Option<i64> {
        let (from, to) = *self.of.get(&utid)?;
        let rows = &self.rows[from..to];
        let first = rows.partition_point(|row| row.ts < ts);
        let here = rows[first..].iter().take_while(|row| row.ts == ts);
        here.filter(|row| row.state == READY).find_map(|row| row.waker_utid)
    }
}

/// Rows of `frame_path` for the given frames.
///
/// `frames` contains frame keys with their presenting thread: upid, frame, utid, start_ns, end_ns;
/// `states` contains the states of all threads that may be on a path: utid, ts, dur, state
/// (0 running, 1 ready, 2 waiting, 3 anything else), waker_utid (NULL for an idle thread: an
/// interrupt).
///
/// # Errors
/// A stream fails or lacks a column.
pub fn critical_path(
    trace_id: i64,
    frames: Batches,
    states: Batches,
) -> Result<Option<Output>, IntervalError> {
    let frames: Vec<PathFrame> = read_all(frames)?;
    let threads = Threads::new(read_all(states)?);
    let mut table = Table::whole("frame_path")?;
    for frame in &frames {
        walk(trace_id, frame, &threads, &mut table);
    }
    Ok(table.last()?)
}

fn walk(trace_id: i64, frame: &PathFrame, threads: &Threads, table: &mut Table) {
    let mut utid = frame.utid;
    // End of the part not yet walked, and end of the current piece.
    let (mut at, mut piece_end) = (frame.end_ns, frame.end_ns);
    let mut hop = 0;
    let mut write = |utid: i64, from: i64, to: i64, hop: i32| {
        if to > from {
            table.push(&[
                Value::Long(trace_id),
                Value::Long(frame.upid),
                Value::Long(frame.frame),
                Value::Int(hop),
                Value::Long(utid),
                Value::Long(from),
                Value::Long(to - from),
            ]);
        }
    };
    // Threads visited at this moment: the path never returns to one of them at the same time.
    let mut here = vec![utid];
    while at > frame.start_ns && (hop as usize) < MOST_HOPS {
        let Some(found) = threads.before(utid, at) else { break };
        let row = &threads.rows[found];
        let waits = row.state == WAITING && row.ts.saturating_add(row.dur) >= at;
        let waker = if waits { threads.woken_by(utid, at) } else { None };
        match waker.filter(|waker| !here.contains(waker) && threads.before(*waker, at).is_some()) {
            Some(waker) => {
                write(utid, at, piece_end, hop);
                hop += 1;
                utid = waker;
                piece_end = at;
                here.push(waker);
            }
            None => {
                at = row.ts.max(frame.start_ns);
                here.clear();
                here.push(utid);
            }
        }
    }
    write(utid, frame.start_ns, piece_end, hop);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int32Type, Int64Type};
    use arrow_array::{ArrayRef, Int8Array, Int64Array, RecordBatch};

    use super::*;

    fn stream(columns: Vec<(&str, ArrayRef)>) -> Batches {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        );
        Box::new(std::iter::once(batch))
    }

    fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(values))
    }

    /// (utid, ts, dur, state, waker).
    type State = (i64, i64, i64, i8, Option<i64>);

    fn path(frames: &[(i64, i64, i64)], states: &[State]) -> Vec<(i64, i32, i64, i64, i64)> {
        let frames = stream(vec![
            ("upid", longs(frames.iter().map(|_| 7))),
            ("frame", longs((1..).take(frames.len()))),
            ("utid", longs(frames.iter().map(|f| f.0))),
            ("start_ns", longs(frames.iter().map(|f| f.1))),
            ("end_ns", longs(frames.iter().map(|f| f.2))),
        ]);
        let states = stream(vec![
            ("utid", longs(states.iter().map(|s| s.0))),
            ("ts", longs(states.iter().map(|s| s.1))),
            ("dur", longs(states.iter().map(|s| s.2))),
            ("state", Arc::new(Int8Array::from_iter_values(states.iter().map(|s| s.3)))),
            ("waker_utid", Arc::new(states.iter().map(|s| s.4).collect::<Int64Array>())),
        ]);
        let Some(output) = critical_path(1, frames, states).expect("walked") else {
            return Vec::new();
        };
        let long = |at: usize| output.batch.column(at).as_primitive::<Int64Type>().clone();
        let hops = output.batch.column(3).as_primitive::<Int32Type>().clone();
        let (frame, utid, ts, dur) = (long(2), long(4), long(5), long(6));
        (0..output.batch.num_rows())
            .map(|at| {
                (frame.value(at), hops.value(at), utid.value(at), ts.value(at), dur.value(at))
            })
            .collect()
    }

    /// ```text
    /// time      0    10   20   30   40   50
    /// render(1) |run |wait          |r|run |
    /// worker(2) |wait     |run      |wait
    /// main(3)   |run      |wait (3 wakes 2 at 20, 2 wakes 1 at 40)
    /// ```
    #[test]
    fn the_path_goes_through_the_wakers() {
        let found = path(
            &[(1, 0, 50)],
            &[
                (1, 0, 10, 0, None),
                (1, 10, 30, 2, None),
                (1, 40, 2, 1, Some(2)),
                (1, 42, 8, 0, None),
                (2, 0, 20, 2, None),
                (2, 20, 0, 1, Some(3)),
                (2, 20, 20, 0, None),
                (3, 0, 20, 0, None),
            ],
        );
        assert_eq!(found, [(1, 0, 1, 40, 10), (1, 1, 2, 20, 20), (1, 2, 3, 0, 20)]);
    }

    #[test]
    fn wait_ended_by_an_interrupt_continues_on_the_thread() {
        let found =
            path(&[(1, 5, 50)], &[(1, 0, 10, 0, None), (1, 10, 30, 2, None), (1, 40, 10, 1, None)]);
        assert_eq!(found, [(1, 0, 1, 5, 45)]);
    }

    #[test]
    fn threads_waking_each_other_at_one_time_end_the_walk() {
        let both = |utid: i64, other: i64| {
            [(utid, 0, 10, 2, None), (utid, 10, 5, 1, Some(other)), (utid, 15, 5, 0, None)]
        };
        let states: Vec<State> = both(1, 2).into_iter().chain(both(2, 1)).collect();
        let found = path(&[(1, 0, 20)], &states);
        assert_eq!(found, [(1, 0, 1, 10, 10), (1, 1, 2, 0, 10)]);
    }

    #[test]
    fn unknown_thread_keeps_its_frame() {
        assert_eq!(path(&[(9, 3, 8)], &[]), [(1, 0, 9, 3, 5)]);
        assert_eq!(path(&[], &[(1, 0, 5, 0, None)]), []);
    }
}

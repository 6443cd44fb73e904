//! Random schedules, deterministic for each seed.

use std::collections::HashSet;

use super::timeline::{Row, Timeline, Value, utid};
use super::{R, R_PLUS, S, X};

/// A small random number generator (xorshift).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to `sides` - 1.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.roll(list.len() as u64) as usize]
    }
}

/// Where each thread of a schedule is.
struct Places {
    on_cpu: Vec<i64>,
    off_cpu: Vec<i64>,
}

/// A schedule without missing records: chains are consistent, and no thread is on two CPUs. Wakeups
/// occur at any time, needed or not; many records share their time.
pub(crate) fn lossless(seed: u64, steps: usize) -> Timeline {
    let mut dice = Dice::new(seed);
    let cpus = 1 + dice.roll(4) as i64;
    let threads: Vec<i64> = (10..12 + cpus + dice.roll(6) as i64).collect();
    let mut timeline = Timeline::linux(cpus as i32, 0);
    for &thread in &threads {
        timeline = timeline.thread(thread);
    }
    let mut places = Places { on_cpu: (0..cpus).collect(), off_cpu: threads.clone() };
    for cpu in 0..cpus as usize {
        if dice.roll(2) == 0 {
            let thread = places.off_cpu.swap_remove(0);
            places.on_cpu[cpu] = thread;
        }
    }
    let mut ts = dice.roll(5) as i64;
    let mut next_thread = 100;
    for _ in 0..steps {
        ts += dice.pick(&[0, 0, 0, 1, 1, 2, 7, 40]);
        let cpu = dice.roll(cpus as u64) as i64;
        let on = places.on_cpu[cpu as usize];
        match dice.roll(12) {
            0..=4 => timeline = switch(timeline, &mut dice, &mut places, ts, cpu),
            5..=7 => {
                let kind = dice.pick(&["waking", "waking", "waking", "wakeup"]);
                timeline = timeline.wake(ts, cpu, kind, dice.pick(&threads), on);
            }
            8 => {
                timeline =
                    timeline.migrate(ts, cpu, dice.pick(&threads), dice.roll(cpus as u64) as i64)
            }
            9 => timeline = timeline.interrupt(ts, cpu, 1 + dice.roll(6) as i64),
            10 if on >= 10 => timeline = timeline.yields(ts, cpu, on),
            11 if dice.roll(8) == 0 => {
                timeline = timeline.life(next_thread, Some(ts), None);
                if dice.roll(3) > 0 {
                    timeline = timeline.wake(ts + 1, cpu, "wakeup_new", next_thread, on);
                }
                ts += 2;
                places.off_cpu.push(next_thread);
                next_thread += 1;
            }
            _ => {}
        }
    }
    timeline.last = ts + dice.roll(20) as i64;
    wake_once(&mut timeline);
    timeline
}

/// Of a thread without a switch only the first wakeup remains: a second one would show that it ran.
fn wake_once(timeline: &mut Timeline) {
    let of = |row: &Row, name: &str| {
        row.iter().find_map(|(column, value)| match value {
            Value::Long(utid) if *column == name => Some(*utid),
            _ => None,
        })
    };
    let mut seen: HashSet<_> = timeline
        .tables
        .iter()
        .filter(|(table, _)| *table == "context_switch")
        .flat_map(|(_, row)| [of(row, "prev_utid"), of(row, "next_utid")])
        .collect();
    let switched = seen.clone();
    timeline.tables.retain(|(table, row)| {
        let thread = of(row, "utid");
        *table != "wakeup" || switched.contains(&thread) || seen.insert(thread)
    });
}

fn switch(
    mut timeline: Timeline,
    dice: &mut Dice,
    places: &mut Places,
    ts: i64,
    cpu: i64,
) -> Timeline {
    let on = places.on_cpu[cpu as usize];
    let next = if on >= 10 && (dice.roll(3) == 0 || places.off_cpu.is_empty()) {
        cpu
    } else if places.off_cpu.is_empty() {
        return timeline;
    } else {
        let place = dice.roll(places.off_cpu.len() as u64) as usize;
        places.off_cpu.swap_remove(place)
    };
    let state = if on < 10 { R } else { dice.pick(&[R, R_PLUS, S, S, S, 2, 0x40, X]) };
    timeline = timeline.switch(ts, cpu, on, next, state);
    places.on_cpu[cpu as usize] = next;
    if on >= 10 && state != X {
        places.off_cpu.push(on);
    }
    timeline
}

/// The same with missing records, reported and unreported gaps, pairs of switch records, and
/// threads with an exit record.
pub(crate) fn lossy(seed: u64, steps: usize) -> Timeline {
    let mut timeline = lossless(seed, steps);
    let mut dice = Dice::new(seed ^ 0x5eed);
    let (last, cpus) = (timeline.last.max(1) as u64, timeline.cpus.len() as u64);
    for _ in 0..dice.roll(4) {
        let (start, cpu) = (dice.roll(last) as i64, dice.roll(cpus) as i64);
        let end = start + dice.roll(60) as i64;
        let hit = |table: &str, row: &[(&str, Value)]| {
            table != "loss"
                && row.contains(&("cpu", Value::Long(cpu)))
                && row.iter().any(|(name, value)| {
                    *name == "ts" && matches!(value, Value::Long(ts) if (start..end).contains(ts))
                })
        };
        timeline.tables.retain(|(table, row)| !hit(table, row));
        if dice.roll(3) > 0 {
            let begin = (dice.roll(3) > 0).then_some(start);
            if end <= timeline.last {
                timeline = timeline.lost(cpu, begin, Some(end));
            }
        }
    }
    let mut kept = Vec::new();
    for (table, row) in std::mem::take(&mut timeline.tables) {
        if table == "context_switch" && dice.roll(3) == 0 {
            let mut pair = row.clone();
            pair.retain(|(name, _)| !["prev_state", "source", "next_priority"].contains(name));
            pair.push(("source", Value::Text("switch_event")));
            if dice.roll(4) > 0 {
                kept.push((table, row));
            }
            if let Some((_, Value::Long(seq))) = pair.iter_mut().find(|(name, _)| *name == "seq") {
                *seq += 1_000_000;
            }
            kept.push((table, pair));
        } else if dice.roll(40) > 0 {
            kept.push((table, row));
        }
    }
    timeline.tables = kept;
    for thread in &mut timeline.threads {
        if thread.contains(&("is_idle", Value::Bool(false))) && dice.roll(6) == 0 {
            thread.push(("end_ns", Value::Long(dice.roll(last) as i64)));
        }
    }
    timeline
}

/// Any numbers in any column.
pub(crate) fn hostile(seed: u64, rows: usize) -> Timeline {
    let mut dice = Dice::new(seed);
    let mut timeline = lossy(seed, rows);
    let extremes = [i64::MIN, i64::MAX, -1, 0, 1, i64::from(i32::MAX), 1 << 40, utid(-3)];
    for (_, row) in &mut timeline.tables {
        for (name, value) in row.iter_mut() {
            let Value::Long(number) = value else { continue };
            if dice.roll(25) == 0 {
                *number = match *name {
                    "cpu" => dice.pick(&[-1, 0, 1, 3, 65_535, 65_536, i64::from(i32::MIN)]),
                    "ts" | "end_ns" | "start_ns" | "dur" if dice.roll(3) > 0 => {
                        dice.roll(400) as i64 - 100
                    }
                    "ts" => dice.pick(&[-1, 0, 1 << 40, i64::MIN, i64::MIN + 1]),
                    "prev_utid" | "next_utid" | "utid" | "waker_utid" if dice.roll(2) == 0 => {
                        utid(dice.roll(30) as i64)
                    }
                    _ => dice.pick(&extremes),
                };
            }
        }
    }
    for thread in &mut timeline.threads {
        if dice.roll(5) == 0 {
            thread.push(("start_ns", Value::Long(dice.pick(&extremes))));
        }
        if dice.roll(5) == 0 {
            thread.push(("end_ns", Value::Long(dice.pick(&extremes))));
        }
    }
    timeline
}

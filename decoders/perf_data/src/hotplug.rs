//! CPUs that go offline and return during the recording.
//!
//! The kernel closes the events of a CPU that goes offline and does not reopen them, so perf has no
//! record of that CPU afterwards. The other CPUs' records show when it left and returned: the
//! `cpuhp` tracepoints, or else the wakeups of the threads `cpuhp/N` and `migration/N`.

use std::collections::{HashMap, HashSet};

use schedlens_input::bytes::{text, u32_at};
use schedlens_input::files::Segment;
use schedlens_tracepoints::events::{Event, Family, WAKING};

use crate::ids::Events;
use crate::index::Index;
use crate::loss::LostRecords;
use crate::record;
use crate::streams::{self, place, trailer_ids};

/// Name prefix of the threads that take CPUs offline and online.
const NAME: &str = "cpuhp/";
/// Name prefix of the stopper threads. A CPU's stopper takes it offline in the end.
const STOPPER: &str = "migration/";
/// The takedown follows a wakeup of `cpuhp/N` within this time.
const TAKEDOWN_NS: u64 = 1_000_000_000;
/// `CPUHP_OFFLINE`: the target state of a CPU that goes offline.
const OFFLINE: i64 = 0;
/// The value of `loss.signalled_by`.
const SIGNAL: &str = "cpu_offline";
/// An idle CPU's records may end this long before the recording; taking a CPU offline takes longer.
const SILENT_NS: u64 = 20_000_000;
/// The same if the last switch is to `cpuhp/N`, which soon waits again unless it takes its CPU
/// offline.
const TAKEN_NS: u64 = 1_000_000;

/// A period in which a CPU is offline; raw times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Logical CPU.
    pub cpu: i32,
    /// When it goes offline.
    pub from: u64,
    /// `None`: to the end of the recording.
    pub until: Option<u64>,
}

/// Size of the range at the end of a CPU's records that is searched for its last switch.
const LAST_BYTES: u64 = 1 << 20;

/// The records to examine.
#[derive(Clone, Copy)]
pub(crate) struct Records<'a> {
    pub(crate) segments: &'a [Segment],
    pub(crate) events: &'a Events,
    pub(crate) named: &'a [Event],
    pub(crate) index: &'a Index,
}

/// A hint with its time and the CPU that wrote it.
type Written = (u64, i32, Hint);
/// Ids of the threads of the last switch, by CPU.
type LastSwitch = HashMap<i32, [i32; 2]>;

/// What a CPU recorded about another one.
#[derive(Clone, Copy, Debug)]
enum Hint {
    /// `cpuhp_enter`: a step of taking a CPU offline or online, towards a target state.
    Step { cpu: i32, target: i64, step: i64 },
    /// A thread was woken.
    Woken { tid: i32 },
}

/// When CPUs were offline, and which data is missing as a result.
#[derive(Debug, Default)]
pub struct Hotplug {
    pub offline: Vec<Span>,
    pub gaps: Vec<LostRecords>,
    /// CPUs of the threads `cpuhp/N` and `migration/N` by thread id.
    threads: HashMap<i32, i32>,
    stoppers: HashMap<i32, i32>,
    /// When another CPU last woke `cpuhp/N`, by CPU.
    woken: HashMap<i32, u64>,
    /// CPUs whose takedown has begun.
    falling: HashSet<i32>,
    /// Place in `offline` of the last one of each CPU.
    last: HashMap<i32, usize>,
    /// Time of the last record of each CPU.
    ends: HashMap<i32, u64>,
}

impl Hotplug {
    /// Examines the records if a CPU's records stop before the end, or if the `cpuhp` tracepoints
    /// fired.
    pub(crate) fn of(records: Records<'_>) -> Self {
        let index = records.index;
        let Some(end) = index.last else { return Self::default() };
        let mut found = Self::default();
        let samples = || records.named.iter().zip(&index.samples);
        let has_steps = samples()
            .any(|(event, hit)| matches!(event.family, Family::Hotplug { .. }) && *hit > 0);
        for cpu in index.cpus() {
            found.ends.extend(index.last_of(cpu).map(|last| (cpu, last)));
        }
        let silent = found.ends.values().any(|last| last.saturating_add(SILENT_NS) < end);
        if has_steps || silent {
            found.name_threads(records);
        }
        found.name_last_threads(records, end);
        if !has_steps && found.threads.is_empty() {
            return found;
        }
        let (mut hints, last_switch) = found.hints(records);
        hints.sort_by_key(|(ts, ..)| *ts);
        for (ts, writer, hint) in hints {
            match hint {
                Hint::Step { cpu, target, step } if cpu != writer => {
                    found.step(cpu, (target, step), ts);
                }
                Hint::Woken { tid } if !has_steps => found.wake(tid, writer, ts),
                _ => {}
            }
        }
        found.lose_ended_streams(&last_switch, end);
        found
    }

    /// Finds the threads by the names that existed when the recording began.
    fn name_threads(&mut self, records: Records<'_>) {
        for span in &records.index.early {
            let all = streams::records(records.segments, span);
            for comm in all.filter(|record| record.kind == record::COMM) {
                let name = text(comm.bytes.get(16..).unwrap_or_default());
                let Some(tid) = u32_at(comm.bytes, 12).map(u32::cast_signed) else { continue };
                let number = |front: &str| name.strip_prefix(front)?.parse::<i32>().ok();
                if let Some(cpu) = number(NAME) {
                    self.threads.insert(tid, cpu);
                } else if let Some(cpu) = number(STOPPER) {
                    self.stoppers.insert(tid, cpu);
                }
            }
        }
    }

    /// Finds them in the last switches of CPUs whose records stop.
    fn name_last_threads(&mut self, records: Records<'_>, end: u64) {
        let index = records.index;
        for lane in index.lanes.iter().filter(|lane| lane.last.saturating_add(TAKEN_NS) < end) {
            if let Some(span) = lane.run.filter(|span| span.end - span.start <= LAST_BYTES) {
                let all = streams::records(records.segments, &span);
                let next = all.filter(|record| record.kind == record::SAMPLE).filter_map(|found| {
                    let number = usize::from(place(records.events, &found)?.event);
                    let attr = records.events.attrs.get(number)?;
                    let Family::Switch { fields, .. } = &records.named.get(number)?.family else {
                        return None;
                    };
                    let raw = attr.parts(found.bytes)?.raw;
                    Some((fields.next_pid.id(raw)?, text(fields.next_comm.bytes(raw)?)))
                });
                let Some((tid, name)) = next.last() else { continue };
                let number = name.strip_prefix(NAME).and_then(|number| number.parse().ok());
                if number == Some(lane.cpu) {
                    self.threads.insert(tid, lane.cpu);
                }
            }
        }
    }

    /// What CPUs recorded about others.
    fn hints(&self, records: Records<'_>) -> (Vec<Written>, LastSwitch) {
        let (mut hints, mut last_switch) = (Vec::new(), HashMap::new());
        let events = records.events;
        for lane in &records.index.lanes {
            for span in &lane.spans {
                for found in streams::records(records.segments, span) {
                    if matches!(found.kind, record::SWITCH | record::SWITCH_CPU_WIDE) {
                        let own = trailer_ids(events, found.bytes).map_or(-1, |(_, tid)| tid);
                        let other = u32_at(found.bytes, 12).map_or(-1, u32::cast_signed);
                        last_switch.insert(lane.cpu, [own, other]);
                    }
                    if found.kind != record::SAMPLE {
                        continue;
                    }
                    let Some(placed) = place(events, &found) else { continue };
                    let number = usize::from(placed.event);
                    let (Some(attr), Some(event)) =
                        (events.attrs.get(number), records.named.get(number))
                    else {
                        continue;
                    };
                    let raw = || attr.parts(found.bytes).map(|parts| parts.raw);
                    let hint = match &event.family {
                        Family::Wakeup { kind: WAKING, fields, .. } => {
                            let tid = raw().and_then(|raw| fields.pid.id(raw));
                            let known = |tid: &i32| {
                                self.threads.contains_key(tid) || self.stoppers.contains_key(tid)
                            };
                            tid.filter(known).map(|tid| Hint::Woken { tid })
                        }
                        Family::Hotplug { cpu, target, step } => raw().and_then(|raw| {
                            let (target, step) = (target.read(raw)?, step.read(raw)?);
                            Some(Hint::Step { cpu: cpu.id(raw)?, target, step })
                        }),
                        Family::Switch { fields, .. } => {
                            let ids = raw().and_then(|raw| {
                                Some([fields.prev_pid.id(raw)?, fields.next_pid.id(raw)?])
                            });
                            if let Some(ids) = ids {
                                last_switch.insert(lane.cpu, ids);
                            }
                            None
                        }
                        _ => None,
                    };
                    hints.extend(hint.map(|hint| (placed.ts, lane.cpu, hint)));
                }
            }
        }
        (hints, last_switch)
    }

    fn is_offline(&self, cpu: i32) -> bool {
        self.last.get(&cpu).is_some_and(|last| self.offline[*last].until.is_none())
    }

    /// Whether a CPU has no record after that time.
    fn is_silent(&self, cpu: i32, ts: u64) -> bool {
        self.ends.get(&cpu).is_some_and(|last| *last <= ts)
    }

    fn step(&mut self, cpu: i32, (target, step): (i64, i64), ts: u64) {
        if target >= step {
            self.falling.remove(&cpu);
            self.comes_online(cpu, ts);
        } else if target == OFFLINE
            && !self.is_offline(cpu)
            // The first such step is the takedown; at the second one the CPU is offline.
            && !self.falling.insert(cpu)
        {
            self.goes_offline(cpu, ts);
        }
    }

    fn wake(&mut self, tid: i32, writer: i32, ts: u64) {
        if let Some(cpu) = self.threads.get(&tid).copied().filter(|cpu| *cpu != writer) {
            self.woken.insert(cpu, ts);
            self.comes_online(cpu, ts);
        } else if let Some(cpu) = self.stoppers.get(&tid).copied().filter(|cpu| *cpu != writer)
            && self.woken.get(&cpu).is_some_and(|woken| ts - woken <= TAKEDOWN_NS)
            && !self.is_offline(cpu)
            && self.is_silent(cpu, ts)
        {
            // `takedown_cpu` parks `cpuhp/N`, and the stopper takes the CPU offline.
            self.goes_offline(cpu, ts);
        }
    }

    fn gap(&mut self, cpu: i32, before: Option<u64>, until: Option<u64>) {
        let gap = LostRecords { cpu, before, until, events: None, signalled_by: SIGNAL };
        self.gaps.push(gap);
    }

    fn goes_offline(&mut self, cpu: i32, ts: u64) {
        self.falling.remove(&cpu);
        let silent = self.is_silent(cpu, ts);
        let open = self.gaps.iter_mut().rev().find(|gap| gap.cpu == cpu && gap.until.is_none());
        if let Some(gap) = open {
            gap.until = Some(ts);
        } else if silent {
            self.gap(cpu, self.ends.get(&cpu).copied(), Some(ts));
        }
        self.last.insert(cpu, self.offline.len());
        self.offline.push(Span { cpu, from: ts, until: None });
    }

    fn comes_online(&mut self, cpu: i32, ts: u64) {
        if !self.is_offline(cpu) {
            return;
        }
        if let Some(last) = self.last.get(&cpu) {
            self.offline[*last].until = Some(ts);
        }
        if self.is_silent(cpu, ts) {
            self.gap(cpu, Some(ts), None);
        }
    }

    /// CPUs whose last switch involves `cpuhp/N`, if no other CPU shows when they went offline:
    /// they are unknown from there on.
    fn lose_ended_streams(&mut self, last_switch: &LastSwitch, end: u64) {
        let mut threads: Vec<_> = self.threads.iter().map(|(tid, cpu)| (*cpu, *tid)).collect();
        threads.sort_unstable();
        for (cpu, tid) in threads {
            let takes_down = last_switch.get(&cpu).is_some_and(|ids| ids.contains(&tid));
            let Some(last) = self.ends.get(&cpu).copied() else { continue };
            if takes_down && !self.last.contains_key(&cpu) && last.saturating_add(TAKEN_NS) < end {
                self.gap(cpu, Some(last), None);
            }
        }
    }
}

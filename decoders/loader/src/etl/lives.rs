//! Lifetimes of threads and processes: ids are reused, and names arrive late.

use std::collections::HashMap;

use super::processes::Processes;

/// Thread ids up to here are looked up in a table. A fuzzer would clear 16 MiB for each input, and
/// hardly ever use an id beyond.
const DENSE_TIDS: u32 = if cfg!(feature = "fuzzing") { 1 << 10 } else { 1 << 22 };
/// In a table of ids: no thread has this id.
const NOBODY: u32 = u32::MAX;
/// In a table of ids: the thread with this id has exited; the next one with it is another thread.
const GONE: u32 = 1 << 31;
/// The idle threads' process.
const IDLE: &str = "Idle";

/// The source of an affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AffinitySource {
    /// A rundown: the current value of an existing thread.
    Rundown,
    /// The thread's start, or a change.
    Event,
}

/// CPUs allowed from a time on: a mask in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) from_ns: Option<i64>,
    pub(super) mask: u64,
    /// `None` if the record does not contain it.
    pub(super) group: Option<u16>,
    pub(super) source: AffinitySource,
}

/// What the records contain about a thread.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) tid: u32,
    pub(super) process: Option<u32>,
    pub(super) start_ns: Option<i64>,
    pub(super) end_ns: Option<i64>,
    /// Time of its first record.
    pub(super) first_ns: i64,
    /// Whether a rundown at the start lists it.
    pub(super) is_listed: bool,
    /// Names with the time from which each applies.
    pub(super) names: Vec<(Option<i64>, String)>,
    pub(super) base_priority: Option<u8>,
    pub(super) allowed: Vec<Allowed>,
    pub(super) idle: bool,
}

/// What a thread's last switch recorded. Stored separately from [`Life`] because every switch reads
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(u32);

impl Seen {
    const IDEAL_KNOWN: u32 = 1 << 8;
    const QOS_SHIFT: u32 = 16;
    const QOS_KNOWN: u32 = 1 << 24;
    const QOS: u32 = Self::QOS_KNOWN | 0xff << Self::QOS_SHIFT;

    #[inline(always)]
    fn of(ideal: Option<u8>, qos: Option<u8>) -> Self {
        let ideal = ideal.map_or(0, |ideal| Self::IDEAL_KNOWN | u32::from(ideal));
        let qos = qos.map_or(0, |qos| Self::QOS_KNOWN | u32::from(qos) << Self::QOS_SHIFT);
        Self(ideal | qos)
    }

    /// Ideal processor.
    pub(super) fn ideal(self) -> Option<u8> {
        (self.0 & Self::IDEAL_KNOWN != 0).then_some(self.0 as u8)
    }

    /// Class of service.
    pub(super) fn qos(self) -> Option<u8> {
        (self.0 & Self::QOS_KNOWN != 0).then_some((self.0 >> Self::QOS_SHIFT) as u8)
    }
}

/// A record of the life of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Hook 0501.
    Start,
    /// Hook 0502.
    End,
    /// Hook 0503.
    RundownAtBegin,
    /// Hook 0504.
    RundownAtEnd,
}

/// The contents of such a record.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadFacts {
    pub(super) tid: u32,
    pub(super) pid: u32,
    pub(super) name: Option<String>,
    pub(super) base_priority: Option<u8>,
    pub(super) affinity: Option<u64>,
}

/// All thread lifetimes of a recording, numbered by first appearance.
#[derive(Debug)]
pub(super) struct Lives {
    base: i64,
    pub(super) all: Vec<Life>,
    seen: Vec<Seen>,
    dense: Vec<u32>,
    sparse: HashMap<u32, u32>,
    idle: Vec<u32>,
    pub(super) processes: Processes,
    /// The lifetimes of each tid with their start times.
    history: HashMap<u32, Vec<(i64, u32)>>,
    /// Group of an affinity mask, if the machine has only one.
    only_group: Option<u16>,
    /// Whether a rundown at the start lists threads.
    lists_threads: bool,
}

impl Lives {
    /// Starts empty; `trace_id` is the upper half of the numbers.
    pub(super) fn new(trace_id: i64, only_group: Option<u16>) -> Self {
        Self {
            base: trace_id.wrapping_shl(32),
            all: Vec::new(),
            seen: Vec::new(),
            dense: Vec::new(),
            sparse: HashMap::new(),
            idle: Vec::new(),
            processes: Processes::default(),
            history: HashMap::new(),
            only_group,
            lists_threads: false,
        }
    }

    /// From when the first name and affinity of a lifetime apply; `None`: since before the
    /// recording. If a rundown at the start lists other threads but not this one, it began some
    /// time before its first record.
    pub(super) fn valid_from(&self, life: &Life, from: Option<i64>) -> Option<i64> {
        let is_unlisted = self.lists_threads && !life.is_listed && !life.idle;
        from.or(is_unlisted.then_some(life.first_ns))
    }

    /// The database id of a thread or process lifetime.
    #[inline(always)]
    pub(super) fn utid(&self, number: u32) -> i64 {
        self.base | i64::from(number)
    }

    /// Which thread has an id, and whether it has exited.
    fn look_up(&self, tid: u32) -> Option<(u32, bool)> {
        let found = if tid < DENSE_TIDS {
            self.dense.get(tid as usize).copied().unwrap_or(NOBODY)
        } else {
            self.sparse.get(&tid).copied().unwrap_or(NOBODY)
        };
        (found != NOBODY).then_some((found & !GONE, found & GONE != 0))
    }

    fn put(&mut self, tid: u32, life: u32) {
        if tid < DENSE_TIDS {
            let at = tid as usize;
            if self.dense.len() <= at {
                self.dense.resize((at + 1).next_power_of_two(), NOBODY);
            }
            self.dense[at] = life;
        } else {
            self.sparse.insert(tid, life);
        }
    }

    fn create(&mut self, tid: u32, start_ns: Option<i64>, first_ns: i64) -> u32 {
        let life = self.all.len() as u32;
        self.all.push(Life { tid, start_ns, first_ns, ..Life::default() });
        self.seen.push(Seen::default());
        life
    }

    fn begin(&mut self, tid: u32, start_ns: Option<i64>, first_ns: i64) -> u32 {
        let life = self.create(tid, start_ns, first_ns);
        self.put(tid, life);
        self.history.entry(tid).or_default().push((start_ns.unwrap_or(i64::MIN), life));
        life
    }

    /// The thread with an id when a record on a CPU names it; id 0 is that CPU's idle thread.
    #[inline(always)]
    pub(super) fn now(&mut self, tid: u32, cpu: i32, ts: i64) -> u32 {
        let known = match tid {
            0 => self.idle.get(cpu as usize),
            _ => self.dense.get(tid as usize),
        };
        match known {
            Some(life) if *life < GONE => *life,
            _ => self.now_anew(tid, cpu, ts),
        }
    }

    #[inline(never)]
    fn now_anew(&mut self, tid: u32, cpu: i32, ts: i64) -> u32 {
        match self.look_up(tid) {
            _ if tid == 0 => self.idle(cpu),
            Some((life, false)) => life,
            // Its start was not recorded, but it is not older than the end of the one before.
            Some((_, true)) => self.begin(tid, Some(ts), ts),
            None => self.begin(tid, None, ts),
        }
    }

    /// The thread that has or last had an id; id 0 is the idle thread of a CPU. `None` if none is
    /// known.
    pub(super) fn holder(&self, tid: u32, cpu: i32) -> Option<u32> {
        if tid == 0 {
            return self.idle.get(cpu as usize).copied().filter(|life| *life != NOBODY);
        }
        self.look_up(tid).map(|(life, _)| life)
    }

    /// The thread with that id exits.
    #[inline(never)]
    pub(super) fn leaves_for_good(&mut self, tid: u32) {
        if let Some((life, _)) = self.look_up(tid) {
            self.put(tid, life | GONE);
        }
    }

    /// Notes the recorded ideal processor and QoS class of a thread that is switched out; returns
    /// the previous values if they differ.
    #[inline(always)]
    pub(super) fn saw_leave(
        &mut self,
        life: u32,
        ideal: Option<u8>,
        qos: Option<u8>,
    ) -> Option<Seen> {
        let seen = &mut self.seen[life as usize];
        let before = *seen;
        let mut now = Seen::of(ideal, qos);
        if qos.is_none() {
            now.0 |= before.0 & Seen::QOS;
        }
        if before == now {
            return None;
        }
        *seen = now;
        Some(before)
    }

    /// The same for a thread that is switched in: its QoS class.
    #[inline(always)]
    pub(super) fn saw_enter(&mut self, life: u32, qos: u8) -> Option<Seen> {
        let seen = &mut self.seen[life as usize];
        let before = *seen;
        let now = Seen::of(None, Some(qos)).0;
        if (before.0 ^ now) & Seen::QOS == 0 {
            return None;
        }
        seen.0 = before.0 & !Seen::QOS | now;
        Some(before)
    }

    /// The idle thread of a CPU.
    pub(super) fn idle(&mut self, cpu: i32) -> u32 {
        let at = cpu.max(0) as usize;
        if let Some(life) = self.idle.get(at).copied().filter(|life| *life != NOBODY) {
            return life;
        }
        if self.idle.len() <= at {
            self.idle.resize(at + 1, NOBODY);
        }
        let life = self.create(0, None, i64::MIN);
        self.idle[at] = life;
        let process = self.processes.with_pid(0);
        self.processes.name_if_none(process, IDLE);
        let idle = &mut self.all[life as usize];
        idle.idle = true;
        idle.process = Some(process);
        idle.names.push((None, format!("{IDLE}/{at}")));
        life
    }

    /// A record's header names the process of an already known thread.
    pub(super) fn belongs(&mut self, tid: u32, pid: u32) {
        if tid == 0 || pid == 0 {
            return;
        }
        if let Some((life, false)) = self.look_up(tid)
            && self.all[life as usize].process.is_none()
        {
            self.all[life as usize].process = Some(self.processes.with_pid(pid));
        }
    }

    /// Processes a lifetime record of a thread.
    pub(super) fn record(&mut self, event: Event, facts: ThreadFacts, ts: i64) {
        if facts.tid == 0 {
            return;
        }
        let current = self.look_up(facts.tid);
        let ended = |life: &Life| life.end_ns.is_some();
        let life = match (event, current) {
            (Event::Start, _) => self.begin(facts.tid, Some(ts), ts),
            (_, None) => self.begin(facts.tid, None, ts),
            // The end may be recorded after the thread has exited.
            (Event::End, Some((life, _))) if !ended(&self.all[life as usize]) => life,
            (Event::RundownAtBegin | Event::RundownAtEnd, Some((life, false)))
                if !ended(&self.all[life as usize]) =>
            {
                life
            }
            (_, Some(_)) => self.begin(facts.tid, Some(ts), ts),
        };
        let process = self.processes.with_pid(facts.pid);
        let only_group = self.only_group;
        let thread = &mut self.all[life as usize];
        thread.process = Some(process);
        if event == Event::RundownAtBegin {
            thread.is_listed = true;
            self.lists_threads = true;
        }
        if event == Event::End {
            // Ignore its base priority: it belongs to an exiting thread, not to one that runs
            // normally.
            thread.end_ns = Some(ts);
        } else {
            thread.base_priority = facts.base_priority.or(thread.base_priority);
        }
        // Values from a rundown apply since before the recording, unless an earlier event set them.
        let existed = thread.start_ns.is_none();
        if let Some(name) = facts.name.filter(|name| !name.is_empty())
            && thread.names.last().is_none_or(|(_, known)| *known != name)
        {
            let from = if existed && thread.names.is_empty() { None } else { Some(ts) };
            thread.names.push((from, name));
        }
        if let Some(mask) = facts.affinity.filter(|mask| *mask != 0 && event != Event::End) {
            let same = |known: &Allowed| known.mask == mask;
            if !thread.allowed.last().is_some_and(same) {
                let first = thread.allowed.is_empty();
                let from_ns = if existed && first { None } else { Some(ts) };
                let source = if event == Event::Start {
                    AffinitySource::Event
                } else {
                    AffinitySource::Rundown
                };
                thread.allowed.push(Allowed { from_ns, mask, group: only_group, source });
            }
        }
    }

    /// A thread gets a name.
    pub(super) fn named(&mut self, (tid, pid): (u32, u32), ts: i64, name: String) {
        if tid == 0 || name.is_empty() {
            return;
        }
        let life = self.now(tid, 0, ts);
        let thread = &mut self.all[life as usize];
        thread.names.push((Some(ts), name));
        if thread.process.is_none() {
            thread.process = Some(self.processes.with_pid(pid));
        }
    }

    /// The allowed CPUs of a thread change; returns its number.
    pub(super) fn confined(&mut self, tid: u32, ts: i64, (group, mask): (u16, u64)) -> u32 {
        let life = self.now(tid, 0, ts);
        let allowed =
            Allowed { from_ns: Some(ts), mask, group: Some(group), source: AffinitySource::Event };
        self.all[life as usize].allowed.push(allowed);
        life
    }

    /// The thread that had this id at that time; without a time: at the start, else the last.
    pub(super) fn at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        let lives = self.history.get(&u32::try_from(tid).ok()?)?;
        let found = match ts {
            Some(ts) => lives.iter().rev().find(|(from, _)| *from <= ts)?,
            None => lives.first().filter(|(from, _)| *from == i64::MIN).or(lives.last())?,
        };
        Some(self.utid(found.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(tid: u32, pid: u32) -> ThreadFacts {
        ThreadFacts { tid, pid, ..ThreadFacts::default() }
    }

    fn lives() -> Lives {
        Lives::new(1, Some(0))
    }

    #[test]
    fn an_id_that_is_reused_is_another_thread() {
        let mut lives = lives();
        lives.record(Event::RundownAtBegin, facts(8, 4), 0);
        let first = lives.now(8, 0, 10);
        lives.record(Event::End, facts(8, 4), 20);
        assert_eq!(lives.now(8, 0, 21), first, "it still leaves its CPU");
        lives.leaves_for_good(8);
        lives.record(Event::Start, facts(8, 12), 30);
        let second = lives.now(8, 0, 31);
        assert_ne!(first, second);
        assert_eq!((lives.all[0].end_ns, lives.all[1].start_ns), (Some(20), Some(30)));
        assert_eq!((lives.at(8, Some(25)), lives.at(8, Some(30))), {
            (Some(lives.utid(first)), Some(lives.utid(second)))
        });
    }

    #[test]
    fn rundown_at_the_end_applies_from_the_start() {
        let mut lives = lives();
        let life = lives.now(8, 0, 10);
        let more = ThreadFacts {
            name: Some("worker".into()),
            base_priority: Some(9),
            affinity: Some(3),
            ..facts(8, 4)
        };
        lives.record(Event::RundownAtEnd, more, 99);
        let thread = &lives.all[life as usize];
        assert_eq!((thread.start_ns, thread.base_priority), (None, Some(9)));
        assert_eq!(thread.names, [(None, "worker".to_owned())]);
        assert_eq!(
            thread.allowed,
            [Allowed { from_ns: None, mask: 3, group: Some(0), source: AffinitySource::Rundown }]
        );
    }

    #[test]
    fn thread_only_in_the_end_rundown_applies_from_its_first_record() {
        let mut lives = lives();
        lives.record(Event::RundownAtBegin, facts(4, 4), 0);
        let life = lives.now(8, 0, 10);
        lives.record(Event::RundownAtEnd, facts(8, 4), 99);
        let from = |life: u32| lives.valid_from(&lives.all[life as usize], None);
        assert_eq!((from(life), from(0)), (Some(10), None));
    }

    #[test]
    fn thread_seen_after_its_id_was_freed_began_in_between() {
        let mut lives = lives();
        lives.now(8, 0, 10);
        lives.leaves_for_good(8);
        let second = lives.now(8, 0, 50);
        assert_eq!(lives.all[second as usize].start_ns, Some(50));
        assert_eq!(lives.all.len(), 2);
    }

    #[test]
    fn each_cpu_has_its_own_idle_thread() {
        let mut lives = lives();
        lives.record(Event::RundownAtBegin, facts(0, 0), 0);
        let (a, b) = (lives.now(0, 0, 1), lives.now(0, 3, 1));
        assert_ne!(a, b);
        assert_eq!(lives.now(0, 3, 2), b);
        assert_eq!(lives.all.len(), 2);
    }
}

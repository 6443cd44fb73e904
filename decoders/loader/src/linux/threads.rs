//! Lifetimes of threads and processes: ids are reused, names change.
//!
//! `processes`, `names` and `lifetimes` contain the functions that change them.

use std::collections::HashMap;

use super::cgroups::Cgroups;

/// `PID_MAX_LIMIT`: ids up to here are looked up in a table. A fuzzer would clear 16 MiB for each
/// input, and hardly ever use an id beyond.
const DENSE_TIDS: i32 = if cfg!(feature = "fuzzing") { 1 << 10 } else { 1 << 22 };
pub(crate) const NOBODY: u32 = u32::MAX;
/// The idle threads' process.
const IDLE_PROCESS: &str = "swapper";

/// Which record reported a birth: all kinds report the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Birth {
    /// `PERF_RECORD_FORK`
    Record = 1,
    /// `sched:sched_process_fork`
    Tracepoint = 2,
    /// `task:task_newtask`
    NewTask = 4,
}

/// The data every record of a thread needs, small enough to remain in the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cached {
    /// The name bytes last recorded by the scheduler, if `named`.
    pub(crate) comm: [u8; 16],
    pub(crate) named: bool,
    pub(crate) active: bool,
    pub(crate) at_home: bool,
    pub(crate) idle: bool,
}

#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) tid: i32,
    pub(crate) process: Option<u32>,
    pub(crate) start_ns: Option<i64>,
    pub(crate) end_ns: Option<i64>,
    pub(crate) name: Option<String>,
    /// Names with the time from which each applies.
    pub(crate) names: Vec<(Option<i64>, String)>,
    pub(crate) reported_by: u8,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) name: Option<String>,
    pub(crate) start_ns: Option<i64>,
    pub(crate) leader_ended: bool,
    pub(crate) alive: i64,
    pub(crate) end_ns: Option<i64>,
    /// Process id of its creator.
    pub(crate) parent_pid: Option<i32>,
}

/// All thread lifetimes of a recording, numbered by first appearance.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) base: i64,
    pub(crate) lives: Vec<Life>,
    pub(crate) cached: Vec<Cached>,
    pub(crate) dense: Vec<u32>,
    pub(crate) sparse: HashMap<i32, u32>,
    pub(crate) idle: Vec<u32>,
    pub(crate) processes: Vec<Process>,
    pub(crate) by_pid: HashMap<i32, u32>,
    /// The lifetimes of each tid with their start times.
    pub(crate) history: HashMap<i32, Vec<(i64, u32)>>,
    /// The recording lists the names of threads that existed before it.
    pub(crate) lists_threads: bool,
    /// The cgroup of each thread over time.
    pub(crate) cgroups: Cgroups,
}

impl Threads {
    /// Starts empty; `trace_id` is the upper half of the numbers.
    pub(crate) fn new(trace_id: i64) -> Self {
        Self {
            base: trace_id.wrapping_shl(32),
            lives: Vec::new(),
            cached: Vec::new(),
            dense: Vec::new(),
            sparse: HashMap::new(),
            idle: Vec::new(),
            processes: Vec::new(),
            by_pid: HashMap::new(),
            history: HashMap::new(),
            lists_threads: false,
            cgroups: Cgroups::default(),
        }
    }

    /// Number of lifetimes so far.
    pub(crate) fn len(&self) -> usize {
        self.lives.len()
    }

    /// The database id of a thread lifetime.
    #[inline]
    pub(crate) fn utid(&self, life: u32) -> i64 {
        self.base | i64::from(life)
    }

    #[inline]
    pub(crate) fn look_up(&self, tid: i32) -> Option<u32> {
        match self.dense.get(tid as u32 as usize) {
            Some(life) => (*life != NOBODY).then_some(*life),
            None => self.sparse.get(&tid).copied().filter(|life| *life != NOBODY),
        }
    }

    pub(crate) fn put(&mut self, tid: i32, life: u32) {
        if (0..DENSE_TIDS).contains(&tid) {
            let at = tid as usize;
            if self.dense.len() <= at {
                self.dense.resize((at + 1).next_power_of_two(), NOBODY);
            }
            self.dense[at] = life;
        } else {
            self.sparse.insert(tid, life);
        }
    }

    pub(crate) fn create(&mut self, tid: i32, start_ns: Option<i64>) -> u32 {
        let life = self.lives.len() as u32;
        self.lives.push(Life {
            tid,
            process: None,
            start_ns,
            end_ns: None,
            name: None,
            names: Vec::new(),
            reported_by: 0,
        });
        self.cached.push(Cached::default());
        life
    }

    pub(crate) fn begin(&mut self, tid: i32, start_ns: Option<i64>) -> u32 {
        let life = self.create(tid, start_ns);
        self.put(tid, life);
        self.history.entry(tid).or_default().push((start_ns.unwrap_or(i64::MIN), life));
        life
    }

    /// The thread with that id now; `None` for an invalid id. Id 0 is the idle thread of `cpu`.
    #[inline]
    pub(crate) fn now(&mut self, tid: i32, cpu: i32) -> Option<u32> {
        if tid <= 0 {
            return (tid == 0 && cpu >= 0).then(|| self.idle(cpu));
        }
        let life = match self.dense.get(tid as usize) {
            Some(life) if *life != NOBODY => *life,
            _ => self.now_or_begin(tid),
        };
        self.cached[life as usize].active = true;
        Some(life)
    }

    #[inline(never)]
    pub(crate) fn now_or_begin(&mut self, tid: i32) -> u32 {
        self.look_up(tid).unwrap_or_else(|| self.begin(tid, None))
    }

    /// The idle thread of a CPU.
    #[inline]
    pub(crate) fn idle(&mut self, cpu: i32) -> u32 {
        let at = cpu as usize;
        if let Some(life) = self.idle.get(at).copied().filter(|life| *life != NOBODY) {
            return life;
        }
        self.new_idle(cpu)
    }

    #[inline(never)]
    pub(crate) fn new_idle(&mut self, cpu: i32) -> u32 {
        let at = cpu as usize;
        if self.idle.len() <= at {
            self.idle.resize(at + 1, NOBODY);
        }
        let life = self.create(0, None);
        self.idle[at] = life;
        let process = self.process(0);
        self.processes[process as usize].name = Some(IDLE_PROCESS.to_owned());
        let name = format!("swapper/{cpu}");
        let idle = &mut self.lives[life as usize];
        idle.names.push((None, name.clone()));
        (idle.process, idle.name) = (Some(process), Some(name));
        let cached = &mut self.cached[life as usize];
        (cached.idle, cached.at_home) = (true, true);
        life
    }

    /// The thread that had this id at that time.
    pub(crate) fn at(&self, tid: i64, ts: i64) -> Option<i64> {
        let lives = self.history.get(&i32::try_from(tid).ok()?)?;
        let found = lives.iter().rev().find(|(from, _)| *from <= ts)?;
        Some(self.utid(found.1))
    }

    /// The thread with this id at the start, else the last one that had it.
    pub(crate) fn at_begin(&self, tid: i64) -> Option<i64> {
        let lives = self.history.get(&i32::try_from(tid).ok()?)?;
        let first = lives.first().filter(|(from, _)| *from == i64::MIN);
        Some(self.utid(first.or(lives.last())?.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    // 100: exists | 200 forked at 10, exits at 20 | 200 forked again at 30
    #[test]
    fn reused_id_is_another_thread() {
        let mut threads = Threads::new(1);
        threads.comm((100, 100), None, "parent".into());
        for (birth, ts) in [(Birth::Record, 10), (Birth::Tracepoint, 11)] {
            let pid = (birth == Birth::Record).then_some(200);
            threads.fork(birth, 200, pid, Some(ts), 100);
        }
        threads.exit(200, 20);
        threads.exit(200, 21);
        threads.fork(Birth::Record, 200, Some(200), Some(30), 100);
        assert_eq!(threads.len(), 3);
        let base = 1_i64 << 32;
        assert_eq!(threads.at(200, 9), None);
        assert_eq!(threads.at(200, 10), Some(base | 1));
        assert_eq!(threads.at(200, 29), Some(base | 1));
        assert_eq!(threads.at(200, 30), Some(base | 2));
        assert_eq!(threads.at(100, i64::MIN), Some(base));
        let ends: Vec<_> = threads.lives.iter().map(|life| (life.start_ns, life.end_ns)).collect();
        assert_eq!(ends, [(None, None), (Some(10), Some(21)), (Some(30), None)]);
        assert_eq!(threads.lives[1].name.as_deref(), Some("parent"));
        assert_eq!(threads.processes.len(), 3);
    }

    // leader 10, thread 11: exec in 11 makes it 10; the old leader's lifetime is over
    #[test]
    fn exec_by_another_thread_keeps_that_threads_life() {
        let mut threads = Threads::new(0);
        threads.comm((10, 10), None, "lead".into());
        threads.fork(Birth::Record, 11, Some(10), Some(5), 10);
        threads.exit(10, 7);
        let runner = threads.now(11, 0).expect("there");
        threads.exec(10, 11, 8);
        assert_eq!(threads.now(10, 0), Some(runner));
        assert_eq!(threads.lives[runner as usize].tid, 10);
        assert_eq!(threads.at(11, 6), Some(1));
        assert_eq!(threads.at(10, 9), Some(1));
        assert_eq!(threads.lives[0].end_ns, Some(7));
        assert!(!threads.processes[0].leader_ended);
    }

    #[test]
    fn names_are_rows_when_they_change_and_only_then() {
        let mut threads = Threads::new(0);
        threads.comm((7, 7), None, "kworker/0:1-eve".into());
        let life = threads.now(7, 0).expect("there");
        threads.named(life, 5, &name("kworker/0:1"));
        threads.named(life, 6, &name("kworker/0:1"));
        threads.comm((7, 7), Some(9), "other".into());
        threads.named(life, 10, &name("other"));
        assert_eq!(
            threads.lives[0].names,
            [(None, "kworker/0:1-eve".to_owned()), (Some(9), "other".to_owned())]
        );
        assert_eq!(threads.lives[0].name.as_deref(), Some("other"));
    }

    #[test]
    fn each_cpu_has_its_own_idle_thread() {
        let mut threads = Threads::new(0);
        let (one, other) = (threads.now(0, 3), threads.now(0, 1));
        assert_ne!(one, other);
        assert_eq!(threads.now(0, 3), one);
        assert_eq!(threads.now(0, -1), None);
        assert_eq!(threads.now(-1, 0), None);
        assert_eq!(threads.lives[0].name.as_deref(), Some("swapper/3"));
    }
}

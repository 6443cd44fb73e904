//! The lives of threads and processes: ids are reused, names change.

use std::collections::HashMap;

/// `PID_MAX_LIMIT`: ids up to here are looked up in a table.
const DENSE_TIDS: i32 = 1 << 22;
const NOBODY: u32 = u32::MAX;
/// The idle threads' process.
const IDLE_PROCESS: &str = "swapper";

/// Which record told of a birth: the same one is told of by both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Birth {
    /// `PERF_RECORD_FORK`
    Record = 1,
    /// `sched:sched_process_fork`
    Tracepoint = 2,
}

/// What each record of a thread asks for, small enough to stay in the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Face {
    /// Bytes in which the scheduler last gave the name, if `named`.
    comm: [u8; 16],
    named: bool,
    active: bool,
    at_home: bool,
    pub(super) idle: bool,
}

#[derive(Debug)]
pub(super) struct Life {
    pub(super) tid: i32,
    pub(super) process: Option<u32>,
    pub(super) start_ns: Option<i64>,
    pub(super) end_ns: Option<i64>,
    pub(super) name: Option<String>,
    /// Names by the time from which on they hold.
    pub(super) names: Vec<(Option<i64>, String)>,
    told_by: u8,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) name: Option<String>,
    pub(super) start_ns: Option<i64>,
    pub(super) leader_ended: bool,
    pub(super) alive: i64,
    pub(super) end_ns: Option<i64>,
    /// Process id of its creator.
    pub(super) parent_pid: Option<i32>,
}

/// All lives of a recording, numbered by first appearance.
#[derive(Debug)]
pub(super) struct Threads {
    base: i64,
    pub(super) lives: Vec<Life>,
    pub(super) faces: Vec<Face>,
    dense: Vec<u32>,
    sparse: HashMap<i32, u32>,
    idle: Vec<u32>,
    pub(super) processes: Vec<Process>,
    by_pid: HashMap<i32, u32>,
    /// Which life a tid had from when on.
    history: HashMap<i32, Vec<(i64, u32)>>,
    /// Threads that existed before the recording are listed by name.
    lists_threads: bool,
}

impl Threads {
    /// None yet; `trace_id` is the upper half of their numbers.
    pub(super) fn new(trace_id: i64) -> Self {
        Self {
            base: trace_id.wrapping_shl(32),
            lives: Vec::new(),
            faces: Vec::new(),
            dense: Vec::new(),
            sparse: HashMap::new(),
            idle: Vec::new(),
            processes: Vec::new(),
            by_pid: HashMap::new(),
            history: HashMap::new(),
            lists_threads: false,
        }
    }

    /// Lives so far.
    pub(super) fn len(&self) -> usize {
        self.lives.len()
    }

    /// The number of a life in the database.
    #[inline]
    pub(super) fn utid(&self, life: u32) -> i64 {
        self.base | i64::from(life)
    }

    #[inline]
    fn look_up(&self, tid: i32) -> Option<u32> {
        match self.dense.get(tid as u32 as usize) {
            Some(life) => (*life != NOBODY).then_some(*life),
            None => self.sparse.get(&tid).copied().filter(|life| *life != NOBODY),
        }
    }

    fn put(&mut self, tid: i32, life: u32) {
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

    fn create(&mut self, tid: i32, start_ns: Option<i64>) -> u32 {
        let life = self.lives.len() as u32;
        self.lives.push(Life {
            tid,
            process: None,
            start_ns,
            end_ns: None,
            name: None,
            names: Vec::new(),
            told_by: 0,
        });
        self.faces.push(Face::default());
        life
    }

    fn begin(&mut self, tid: i32, start_ns: Option<i64>) -> u32 {
        let life = self.create(tid, start_ns);
        self.put(tid, life);
        self.history.entry(tid).or_default().push((start_ns.unwrap_or(i64::MIN), life));
        life
    }

    /// The thread with that id now; `None` for ids that are none. Id 0 is the idle thread of `cpu`.
    #[inline]
    pub(super) fn now(&mut self, tid: i32, cpu: i32) -> Option<u32> {
        if tid <= 0 {
            return (tid == 0 && cpu >= 0).then(|| self.idle(cpu));
        }
        let life = match self.dense.get(tid as usize) {
            Some(life) if *life != NOBODY => *life,
            _ => self.now_or_begin(tid),
        };
        self.faces[life as usize].active = true;
        Some(life)
    }

    #[inline(never)]
    fn now_or_begin(&mut self, tid: i32) -> u32 {
        self.look_up(tid).unwrap_or_else(|| self.begin(tid, None))
    }

    /// The idle thread of a CPU.
    #[inline]
    pub(super) fn idle(&mut self, cpu: i32) -> u32 {
        let at = cpu as usize;
        if let Some(life) = self.idle.get(at).copied().filter(|life| *life != NOBODY) {
            return life;
        }
        self.new_idle(cpu)
    }

    #[inline(never)]
    fn new_idle(&mut self, cpu: i32) -> u32 {
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
        let face = &mut self.faces[life as usize];
        (face.idle, face.at_home) = (true, true);
        life
    }

    fn process(&mut self, pid: i32) -> u32 {
        if let Some(process) = self.by_pid.get(&pid) {
            return *process;
        }
        self.new_process(pid, None)
    }

    fn new_process(&mut self, pid: i32, start_ns: Option<i64>) -> u32 {
        let process = self.processes.len() as u32;
        self.processes.push(Process {
            pid,
            name: None,
            start_ns,
            leader_ended: false,
            alive: 0,
            end_ns: None,
            parent_pid: None,
        });
        self.by_pid.insert(pid, process);
        process
    }

    fn join(&mut self, life: u32, process: u32) {
        let member = &mut self.lives[life as usize];
        if member.process.is_some() {
            return;
        }
        member.process = Some(process);
        self.faces[life as usize].at_home = true;
        let host = &mut self.processes[process as usize];
        if member.end_ns.is_none() {
            host.alive += 1;
        }
        if member.tid == host.pid {
            host.name.clone_from(&member.name);
            host.start_ns = host.start_ns.or(member.start_ns);
        }
    }

    /// A record says that the thread belongs to that process.
    #[inline]
    pub(super) fn belongs(&mut self, life: u32, pid: i32) {
        if pid > 0 && !self.faces[life as usize].at_home {
            let process = self.process(pid);
            self.join(life, process);
        }
    }

    fn rename(&mut self, life: u32, ts: Option<i64>, name: String) {
        let thread = &mut self.lives[life as usize];
        if thread.name.as_ref() == Some(&name) {
            return;
        }
        // A name read before the recording, and not the one the scheduler knows, is replaced.
        let face = self.faces[life as usize];
        let early = !face.named && !face.active && thread.start_ns.is_none();
        let first = thread.name.is_none() || early;
        // perf lists the threads that exist when it begins: any other one has begun since.
        let since = if thread.name.is_none() && self.lists_threads { ts } else { None };
        let from = if first { thread.start_ns.or(since) } else { ts };
        if first {
            thread.names.clear();
        }
        thread.names.push((from, name.clone()));
        if let Some(process) = thread.process
            && let Some(host) = self.processes.get_mut(process as usize)
            && host.pid == thread.tid
        {
            host.name = Some(name.clone());
        }
        thread.name = Some(name);
    }

    /// The scheduler names the thread, in a field of 16 bytes.
    #[inline]
    pub(super) fn named(&mut self, life: u32, ts: i64, comm: &[u8]) {
        let face = &self.faces[life as usize];
        let comm16: Result<[u8; 16], _> = comm.try_into();
        if face.idle || (face.named && comm16.is_ok_and(|comm| face.comm == comm)) {
            return;
        }
        self.named_anew(life, ts, comm);
    }

    #[inline(never)]
    fn named_anew(&mut self, life: u32, ts: i64, comm: &[u8]) {
        let name = crate::bytes::text(comm);
        let thread = &mut self.lives[life as usize];
        // Beside the name, /proc tells of a kernel worker what it works on: that is how it was
        // named in a record, and stays so in `thread_name`, but it is not the thread's name.
        let face = &mut self.faces[life as usize];
        let longer = !face.named
            && thread.start_ns.is_none()
            && !name.is_empty()
            && thread.name.as_ref().is_some_and(|known| known.starts_with(&name));
        let comm16: Option<[u8; 16]> = comm.try_into().ok();
        (face.named, face.comm) = (comm16.is_some(), comm16.unwrap_or_default());
        if longer {
            if let Some(host) = thread.process.and_then(|p| self.processes.get_mut(p as usize))
                && host.pid == thread.tid
            {
                host.name = Some(name.clone());
            }
            thread.name = Some(name);
        } else if !name.is_empty() {
            self.rename(life, Some(ts), name);
        }
    }

    /// `PERF_RECORD_COMM`; without a time: the thread existed before the recording.
    pub(super) fn comm(&mut self, ids: (i32, i32), ts: Option<i64>, name: String) {
        let (pid, tid) = ids;
        if tid <= 0 {
            return;
        }
        let life = match self.look_up(tid) {
            Some(life) => life,
            None => self.begin(tid, None),
        };
        self.belongs(life, pid);
        self.lists_threads |= ts.is_none();
        self.rename(life, ts, name);
        if ts.is_some() {
            let face = &mut self.faces[life as usize];
            (face.active, face.named) = (true, false);
        }
    }

    /// A thread is created at `ts`; without a time: it existed before the recording.
    pub(super) fn fork(
        &mut self,
        birth: Birth,
        tid: i32,
        pid: Option<i32>,
        ts: Option<i64>,
        parent_tid: i32,
    ) {
        if tid <= 0 {
            return;
        }
        let known = self.look_up(tid);
        let Some(ts) = ts else {
            let life = known.unwrap_or_else(|| self.begin(tid, None));
            self.belongs(life, pid.unwrap_or_default());
            return;
        };
        let same = known.filter(|life| {
            let thread = &self.lives[*life as usize];
            let told_by_other = thread.told_by != 0 && thread.told_by & birth as u8 == 0;
            // Listed from /proc while it was already being recorded.
            let active = self.faces[*life as usize].active;
            let listed = thread.told_by == 0 && !active && thread.start_ns.is_none();
            thread.end_ns.is_none() && (told_by_other || listed)
        });
        let life = match same {
            Some(life) => life,
            None => self.begin(tid, Some(ts)),
        };
        let parent = self.look_up(parent_tid);
        let inherited = parent.and_then(|parent| self.lives[parent as usize].name.clone());
        let thread = &mut self.lives[life as usize];
        thread.told_by |= birth as u8;
        thread.start_ns = Some(thread.start_ns.map_or(ts, |start| start.min(ts)));
        if let Some(pid) = pid.filter(|pid| *pid > 0) {
            let fresh = pid == tid && self.lives[life as usize].process.is_none();
            let process = if fresh { self.new_process(pid, Some(ts)) } else { self.process(pid) };
            self.join(life, process);
        }
        if self.lives[life as usize].name.is_none()
            && let Some(name) = inherited
        {
            self.rename(life, Some(ts), name);
        }
    }

    /// A record says which process created another.
    pub(super) fn created_by(&mut self, pid: i32, parent_pid: i32) {
        if let Some(process) =
            self.by_pid.get(&pid).filter(|_| parent_pid >= 0 && parent_pid != pid)
            && let Some(process) = self.processes.get_mut(*process as usize)
        {
            process.parent_pid = process.parent_pid.or(Some(parent_pid));
        }
    }

    /// A thread tells that it exits; it may still run for a while.
    pub(super) fn exit(&mut self, tid: i32, ts: i64) {
        let Some(life) = (tid > 0).then(|| self.look_up(tid)).flatten() else { return };
        self.faces[life as usize].active = true;
        let thread = &mut self.lives[life as usize];
        let first = thread.end_ns.is_none();
        thread.end_ns = Some(thread.end_ns.map_or(ts, |end| end.max(ts)));
        let (tid, process) = (thread.tid, thread.process);
        if let Some(host) = process.and_then(|p| self.processes.get_mut(p as usize)) {
            host.alive -= i64::from(first);
            host.leader_ended |= tid == host.pid;
            host.end_ns = Some(host.end_ns.map_or(ts, |end| end.max(ts)));
        }
    }

    /// `sched_process_exec`: a thread that is not the leader takes the leader's id over.
    pub(super) fn exec(&mut self, tid: i32, old_tid: i32, ts: i64) {
        if tid == old_tid || tid <= 0 || old_tid <= 0 {
            return;
        }
        let life = self.look_up(old_tid).unwrap_or_else(|| self.begin(old_tid, None));
        let leader = self.look_up(tid);
        if let Some(leader) = leader {
            let old = &mut self.lives[leader as usize];
            let ended = old.end_ns.is_none();
            old.end_ns = old.end_ns.or(Some(ts));
            let process = old.process;
            if let Some(host) = process.and_then(|p| self.processes.get_mut(p as usize)) {
                host.alive -= i64::from(ended);
                host.leader_ended = false;
            }
            if let Some(process) = process {
                self.join(life, process);
            }
        }
        self.put(old_tid, NOBODY);
        self.put(tid, life);
        self.lives[life as usize].tid = tid;
        self.history.entry(tid).or_default().push((ts, life));
    }

    /// The thread that had this id at that time.
    pub(super) fn at(&self, tid: i64, ts: i64) -> Option<i64> {
        let lives = self.history.get(&i32::try_from(tid).ok()?)?;
        let found = lives.iter().rev().find(|(from, _)| *from <= ts)?;
        Some(self.utid(found.1))
    }

    /// The thread with this id at the begin, else the last one that had it.
    pub(super) fn at_begin(&self, tid: i64) -> Option<i64> {
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
    fn an_id_that_is_used_again_is_another_life() {
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

    // leader 10, thread 11: exec in 11 makes it 10; the old leader's life is over
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
    fn each_cpu_has_an_idle_thread_of_its_own() {
        let mut threads = Threads::new(0);
        let (one, other) = (threads.now(0, 3), threads.now(0, 1));
        assert_ne!(one, other);
        assert_eq!(threads.now(0, 3), one);
        assert_eq!(threads.now(0, -1), None);
        assert_eq!(threads.now(-1, 0), None);
        assert_eq!(threads.lives[0].name.as_deref(), Some("swapper/3"));
    }
}

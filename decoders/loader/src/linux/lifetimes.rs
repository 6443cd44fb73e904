//! Threads that are created, exit, and change their id on exec.

use super::threads::{Birth, NOBODY, Threads};

impl Threads {
    /// A thread is created at `ts`; without a time it existed before the recording.
    pub(crate) fn fork(
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
            let reported_by_other =
                thread.reported_by != 0 && thread.reported_by & birth as u8 == 0;
            // It was listed from /proc after recording had started.
            let active = self.cached[*life as usize].active;
            let listed = thread.reported_by == 0 && !active && thread.start_ns.is_none();
            thread.end_ns.is_none() && (reported_by_other || listed)
        });
        let life = match same {
            Some(life) => life,
            None => self.begin(tid, Some(ts)),
        };
        let parent = self.look_up(parent_tid);
        let inherited = parent.and_then(|parent| self.lives[parent as usize].name.clone());
        let thread = &mut self.lives[life as usize];
        thread.reported_by |= birth as u8;
        thread.start_ns = Some(thread.start_ns.map_or(ts, |start| start.min(ts)));
        if let Some(pid) = pid.filter(|pid| *pid > 0) {
            let fresh = pid == tid && self.lives[life as usize].process.is_none();
            let process = if fresh { self.new_process(pid, Some(ts)) } else { self.process(pid) };
            self.join(life, process);
        }
        if let Some(parent) = parent {
            self.cgroups.born(life, parent, ts);
        }
        if self.lives[life as usize].name.is_none()
            && let Some(name) = inherited
        {
            self.rename(life, Some(ts), name);
        }
    }

    /// A thread reports its exit; it may still run for a while.
    pub(crate) fn exit(&mut self, tid: i32, ts: i64) {
        let Some(life) = (tid > 0).then(|| self.look_up(tid)).flatten() else { return };
        self.cached[life as usize].active = true;
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

    /// `sched_process_exec`: a thread other than the leader takes the leader's id.
    pub(crate) fn exec(&mut self, tid: i32, old_tid: i32, ts: i64) {
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
}

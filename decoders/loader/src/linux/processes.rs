//! Which process each thread belongs to.

use super::threads::{Process, Threads};

impl Threads {
    pub(crate) fn process(&mut self, pid: i32) -> u32 {
        if let Some(process) = self.by_pid.get(&pid) {
            return *process;
        }
        self.new_process(pid, None)
    }

    pub(crate) fn new_process(&mut self, pid: i32, start_ns: Option<i64>) -> u32 {
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

    pub(crate) fn join(&mut self, life: u32, process: u32) {
        let member = &mut self.lives[life as usize];
        if member.process.is_some() {
            return;
        }
        member.process = Some(process);
        self.cached[life as usize].at_home = true;
        let host = &mut self.processes[process as usize];
        if member.end_ns.is_none() {
            host.alive += 1;
        }
        if member.tid == host.pid {
            host.name.clone_from(&member.name);
            host.start_ns = host.start_ns.or(member.start_ns);
        }
    }

    /// A record names the thread's process.
    #[inline]
    pub(crate) fn belongs(&mut self, life: u32, pid: i32) {
        if pid > 0 && !self.cached[life as usize].at_home {
            let process = self.process(pid);
            self.join(life, process);
        }
    }

    /// Process id of a thread, if it is known.
    pub(crate) fn pid_of(&self, tid: i32) -> Option<i32> {
        let life = (tid > 0).then(|| self.look_up(tid)).flatten()?;
        let process = self.lives.get(life as usize)?.process?;
        self.processes.get(process as usize).map(|process| process.pid)
    }

    /// A record names the process that created another one.
    pub(crate) fn created_by(&mut self, pid: i32, parent_pid: i32) {
        if let Some(process) =
            self.by_pid.get(&pid).filter(|_| parent_pid >= 0 && parent_pid != pid)
            && let Some(process) = self.processes.get_mut(*process as usize)
        {
            process.parent_pid = process.parent_pid.or(Some(parent_pid));
        }
    }
}

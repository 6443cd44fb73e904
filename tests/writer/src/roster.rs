//! Threads and processes, and who runs where, as far as the script has said.

use std::collections::HashMap;

/// What is known of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Its process.
    pub pid: u32,
    /// Its name; its process's where it has none.
    pub name: String,
    /// Its priority when it last was in a switch.
    pub priority: i8,
}

/// Threads by id, and the one that runs on each CPU.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    threads: HashMap<u32, Known>,
    processes: HashMap<u32, String>,
    running: HashMap<u16, u32>,
}

impl Roster {
    /// A process has that name.
    pub fn process(&mut self, pid: u32, name: &str) {
        self.processes.insert(pid, name.to_owned());
    }

    /// A thread belongs to a process; without a name it bears that of the process.
    pub fn thread(&mut self, tid: u32, pid: u32, name: Option<&str>) {
        let of_process = self.processes.get(&pid).cloned().unwrap_or_default();
        let known = self.threads.entry(tid).or_default();
        known.pid = pid;
        known.name = name.map_or(of_process, str::to_owned);
    }

    /// A thread is on that CPU now.
    pub fn enter(&mut self, cpu: u16, tid: u32) {
        self.running.insert(cpu, tid);
    }

    /// The thread on a CPU; 0 as long as nothing is known.
    #[must_use]
    pub fn on(&self, cpu: u16) -> u32 {
        self.running.get(&cpu).copied().unwrap_or_default()
    }

    /// What is known of a thread.
    #[must_use]
    pub fn known(&self, tid: u32) -> Known {
        self.threads.get(&tid).cloned().unwrap_or_default()
    }

    /// The process of a thread.
    #[must_use]
    pub fn pid(&self, tid: u32) -> u32 {
        self.threads.get(&tid).map_or(0, |known| known.pid)
    }

    /// A thread was seen with that priority.
    pub fn priority(&mut self, tid: u32, priority: i8) {
        self.threads.entry(tid).or_default().priority = priority;
    }
}

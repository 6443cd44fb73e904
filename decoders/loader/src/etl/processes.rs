//! Process lifetimes.

use std::collections::HashMap;

/// One process lifetime.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// `UniqueProcessKey`
    key: Option<u64>,
    pub(super) name: Option<String>,
    pub(super) start_ns: Option<i64>,
    pub(super) end_ns: Option<i64>,
    pub(super) parent_pid: Option<u32>,
    pub(super) session_id: Option<u32>,
    pub(super) command_line: Option<String>,
    /// Whether the process itself has a record, not just one of its threads.
    pub(super) has_record: bool,
}

/// A record of the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Hook 0301.
    Start,
    /// Hook 0302.
    End,
    /// Hooks 0303 and 0304.
    Rundown,
    /// Hook 0327: it has ended but is still referenced; the exit time, if recorded.
    Defunct(Option<i64>),
}

/// The contents of such a record.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessFacts {
    pub(super) pid: u32,
    /// `UniqueProcessKey`
    pub(super) key: Option<u64>,
    pub(super) name: Option<String>,
    pub(super) parent_pid: Option<u32>,
    pub(super) session_id: Option<u32>,
    pub(super) command_line: Option<String>,
}

/// `SessionId` of a process outside any session.
const NO_SESSION: u32 = u32::MAX;

/// All process lifetimes, numbered by first appearance.
#[derive(Debug, Default)]
pub(super) struct Processes {
    pub(super) all: Vec<Process>,
    by_pid: HashMap<u32, u32>,
    /// The first one with that id and `UniqueProcessKey`.
    by_key: HashMap<(u32, u64), u32>,
}

impl Processes {
    /// The process that has an id now.
    pub(super) fn with_pid(&mut self, pid: u32) -> u32 {
        match self.by_pid.get(&pid) {
            Some(process) => *process,
            None => self.begin(pid, None),
        }
    }

    fn begin(&mut self, pid: u32, start_ns: Option<i64>) -> u32 {
        let process = self.all.len() as u32;
        self.all.push(Process { pid, start_ns, ..Process::default() });
        self.by_pid.insert(pid, process);
        process
    }

    /// Names a process that has no name.
    pub(super) fn name_if_none(&mut self, process: u32, name: &str) {
        let process = &mut self.all[process as usize];
        if process.name.is_none() {
            process.name = Some(name.to_owned());
        }
    }

    /// Processes a lifetime record of a process.
    pub(super) fn record(&mut self, event: Event, facts: ProcessFacts, ts: i64) {
        let pid = facts.pid;
        let key = facts.key.filter(|key| *key != 0);
        let current = self.by_pid.get(&pid).copied();
        let fits = |process: &Process| {
            let other = key.is_some() && process.key.is_some() && process.key != key;
            match event {
                // One of its threads may have been recorded before.
                Event::Start => !process.has_record && process.end_ns.is_none(),
                Event::Defunct(_) => !other && (process.end_ns.is_some() || process.key == key),
                Event::End | Event::Rundown => !other && process.end_ns.is_none(),
            }
        };
        let process = match current.filter(|number| fits(&self.all[*number as usize])) {
            Some(process) => process,
            None => match event {
                Event::Start => self.begin(pid, Some(ts)),
                // Another process may already have its id and keeps it.
                Event::Defunct(_) => {
                    match key.and_then(|key| self.by_key.get(&(pid, key))).copied() {
                        Some(known) => known,
                        None => {
                            let process = self.begin(pid, None);
                            if let Some(current) = current {
                                self.by_pid.insert(pid, current);
                            }
                            process
                        }
                    }
                }
                _ => {
                    let start = current.map(|_| ts);
                    self.begin(pid, start)
                }
            },
        };
        if let Some(key) = key {
            self.by_key.entry((pid, key)).or_insert(process);
        }
        let process = &mut self.all[process as usize];
        process.has_record = true;
        process.key = key.or(process.key);
        match event {
            Event::Start => process.start_ns = Some(ts),
            Event::End => process.end_ns = Some(ts),
            Event::Defunct(ended) => process.end_ns = process.end_ns.or(ended),
            Event::Rundown => {}
        }
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        process.name = text(facts.name).or(process.name.take());
        process.command_line = text(facts.command_line).or(process.command_line.take());
        // A record of the end may lack the creator or the session.
        process.parent_pid = process.parent_pid.or(facts.parent_pid);
        let session = facts.session_id.filter(|session| *session != NO_SESSION);
        process.session_id = process.session_id.or(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pid: u32, key: Option<u64>, name: Option<&str>) -> ProcessFacts {
        ProcessFacts { pid, key, name: name.map(str::to_owned), ..ProcessFacts::default() }
    }

    #[test]
    fn a_pid_that_is_reused_is_another_process() {
        let mut processes = Processes::default();
        processes.record(Event::Rundown, facts(4, Some(1), Some("a")), 0);
        processes.record(Event::End, facts(4, Some(1), Some("a")), 10);
        processes.record(Event::Start, facts(4, Some(2), Some("b")), 20);
        processes.record(Event::Rundown, facts(4, Some(2), Some("b")), 90);
        let found: Vec<_> = processes
            .all
            .iter()
            .map(|process| (process.name.as_deref(), process.start_ns, process.end_ns))
            .collect();
        assert_eq!(found, [(Some("a"), None, Some(10)), (Some("b"), Some(20), None)]);
    }

    #[test]
    fn thread_may_be_recorded_before_its_process() {
        let mut processes = Processes::default();
        let early = processes.with_pid(8);
        processes.record(Event::Start, facts(8, Some(3), Some("x")), 5);
        assert_eq!(processes.with_pid(8), early);
        assert_eq!(processes.all[early as usize].start_ns, Some(5));
    }

    #[test]
    fn defunct_process_does_not_take_the_id_from_its_new_owner() {
        let mut processes = Processes::default();
        processes.record(Event::Rundown, facts(8, Some(3), Some("now")), 5);
        processes.record(Event::Defunct(Some(-7)), facts(8, Some(2), Some("before")), 6);
        processes.record(Event::Defunct(None), facts(12, Some(9), Some("gone")), 6);
        let bearer = processes.with_pid(8);
        assert_eq!(processes.all[bearer as usize].name.as_deref(), Some("now"));
        assert_eq!(processes.all[1].end_ns, Some(-7));
        assert_eq!(processes.all.len(), 3);
    }
}

//! Thread and process lifetimes as tables, and as a listing.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};

use super::threads::Threads;

/// A process and its threads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) pid: Option<i32>,
    pub(crate) name: Option<String>,
    pub(crate) threads: Vec<(i32, Option<String>)>,
}

impl Threads {
    /// Rows of `thread` for the lifetimes from `from` on.
    pub(crate) fn batch(
        &self,
        batcher: &Batcher,
        from: usize,
        to: usize,
    ) -> Result<RecordBatch, ArrowError> {
        let lives = self.lives.get(from..to).unwrap_or_default();
        let mut utid = Column::default();
        let mut tid = Column::default();
        let mut upid = Column::default();
        let mut start = Column::default();
        let mut end = Column::default();
        let mut idle = Column::default();
        for (number, life) in lives.iter().enumerate() {
            utid.push(self.utid((from + number) as u32));
            tid.push(i64::from(life.tid));
            upid.push_option(life.process.map(|process| self.utid(process)));
            start.push_option(life.start_ns);
            end.push_option(life.end_ns);
            idle.push(self.cached[from + number].idle);
        }
        let columns = vec![
            ("utid", utid.array()),
            ("tid", tid.array()),
            ("upid", upid.array()),
            ("name", texts(lives.iter().map(|life| life.name.as_deref()))),
            ("start_ns", start.array()),
            ("end_ns", end.array()),
            ("is_idle", idle.array()),
        ];
        batcher.batch("thread", lives.len(), columns)
    }

    /// Rows of `process`.
    pub(crate) fn process_batch(&self, batcher: &Batcher) -> Result<RecordBatch, ArrowError> {
        let mut upid = Column::default();
        let mut pid = Column::default();
        let mut start = Column::default();
        let mut end = Column::default();
        let mut parent = Column::default();
        for (number, process) in self.processes.iter().enumerate() {
            upid.push(self.utid(number as u32));
            pid.push(i64::from(process.pid));
            start.push_option(process.start_ns);
            let over = process.leader_ended && process.alive <= 0;
            end.push_option(process.end_ns.filter(|_| over));
            parent.push_option(process.parent_pid.map(i64::from));
        }
        let columns = vec![
            ("upid", upid.array()),
            ("pid", pid.array()),
            ("name", texts(self.processes.iter().map(|process| process.name.as_deref()))),
            ("start_ns", start.array()),
            ("end_ns", end.array()),
            ("parent_pid", parent.array()),
        ];
        batcher.batch("process", self.processes.len(), columns)
    }

    /// Rows of `thread_name`.
    pub(crate) fn name_batch(&self, batcher: &Batcher) -> Result<RecordBatch, ArrowError> {
        let mut utid = Column::default();
        let mut ts = Column::default();
        let mut names = Vec::new();
        for (number, life) in self.lives.iter().enumerate() {
            for (from, name) in &life.names {
                utid.push(self.utid(number as u32));
                ts.push_option(*from);
                names.push(Some(name));
            }
        }
        let rows = names.len();
        let columns =
            vec![("utid", utid.array()), ("ts", ts.array()), ("name", texts(names.into_iter()))];
        batcher.batch("thread_name", rows, columns)
    }

    /// Processes with their threads, for a listing: (pid, name, [(tid, name)]).
    pub(crate) fn listing(&self) -> Vec<Listed> {
        let mut listed: Vec<Listed> = self
            .processes
            .iter()
            .map(|process| Listed {
                pid: Some(process.pid),
                name: process.name.clone(),
                threads: Vec::new(),
            })
            .collect();
        let mut homeless = Listed { pid: None, name: None, threads: Vec::new() };
        for life in &self.lives {
            let home = life.process.and_then(|process| listed.get_mut(process as usize));
            home.unwrap_or(&mut homeless).threads.push((life.tid, life.name.clone()));
        }
        if !homeless.threads.is_empty() {
            listed.push(homeless);
        }
        listed
    }
}

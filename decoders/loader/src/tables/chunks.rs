//! A folder of tables divided into chunks.

use std::collections::HashMap;

use arrow_array::{Array, Int64Array, RecordBatch};
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::{Batches, Chunk};
use schedlens_schedule::columns::{Column, texts};

use super::error::{Error, TableFault};
use super::folder::Folder;
use super::names::{IN_TIME, TABLES, WHOLE};
use super::order::column;
use super::table::Table;
use super::time_order::TimeOrder;
use crate::error::DecodeError;
use crate::reader::{ChunkSource, Finished};

/// A chunk that ends before every record.
const BEFORE_ALL: i64 = i64::MIN;

/// The start and the number of each life of a thread id, by start.
type Lives = Vec<(i64, i64)>;

/// Reads a folder chunk by chunk: threads and losses, then tables of any order, then the tables in
/// time order.
pub(super) struct Chunks<'a> {
    folder: &'a Folder,
    batcher: &'a Batcher,
    chunk_rows: usize,
    threads: Option<RecordBatch>,
    lives: HashMap<i64, Lives>,
    /// The earliest and the latest time of a thread's life or of a loss.
    stated: Option<(i64, i64)>,
    /// Tables of any order that have not been opened.
    unordered: Vec<&'static str>,
    current: Option<Table>,
    in_time: Option<TimeOrder>,
    read: u64,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(folder: &'a Folder, batcher: &'a Batcher, chunk_rows: usize) -> Self {
        let is_unordered = |table: &&str| !IN_TIME.contains(table) && !WHOLE.contains(table);
        Self {
            folder,
            batcher,
            chunk_rows,
            threads: None,
            lives: HashMap::new(),
            stated: None,
            unordered: TABLES.into_iter().filter(is_unordered).rev().collect(),
            current: None,
            in_time: None,
            read: 0,
        }
    }

    fn threads(&mut self) -> Result<RecordBatch, Error> {
        if let Some(threads) = &self.threads {
            return Ok(threads.clone());
        }
        let found = self.folder.whole("thread", self.batcher)?;
        let threads = found.ok_or(Error::NoTable { table: "thread" })?;
        self.lives = lives(&threads).map_err(|fault| fault.of("thread"))?;
        self.cover("thread", &threads)?;
        self.threads = Some(threads.clone());
        Ok(threads)
    }

    fn cover(&mut self, table: &'static str, rows: &RecordBatch) -> Result<(), Error> {
        for name in ["start_ns", "end_ns"] {
            let times: &Int64Array = column(rows, name).map_err(|fault| fault.of(table))?;
            let stated = self.stated.map(|(first, last)| [first, last]);
            let known = times.iter().flatten().chain(stated.into_iter().flatten());
            self.stated = known.fold(None, |window, time| {
                let (first, last) = window.unwrap_or((time, time));
                Some((time.min(first), time.max(last)))
            });
        }
        Ok(())
    }

    /// What the state machine needs before any record: it applies each gap where it starts.
    fn first(&mut self) -> Result<Chunk, DecodeError> {
        let mut batches: Batches = vec![("thread", self.threads()?)];
        if let Some(rows) = self.folder.whole("loss", self.batcher)? {
            self.cover("loss", &rows)?;
            batches.push(("loss", rows));
        }
        if self.folder.manifest.rows.get("sched_yield") == Some(&0) {
            // An empty table means that these calls were recorded; a count of 0 keeps that.
            let mut count = Column::default();
            count.push(0_i64);
            let columns = vec![
                ("record", texts([Some("sched_yield")].into_iter())),
                ("count", count.array()),
            ];
            batches.push(("record_count", self.batcher.batch("record_count", 1, columns)?));
        }
        Ok(Chunk { batches, until_ns: BEFORE_ALL })
    }

    /// The next rows of a table of any order.
    fn unordered(&mut self) -> Result<Option<Chunk>, Error> {
        loop {
            if let Some(table) = &mut self.current {
                match table.next_part()? {
                    Some(part) => {
                        let rows = table.declared(self.batcher, &[part])?;
                        let batches = vec![(table.name(), rows)];
                        return Ok(Some(Chunk { batches, until_ns: BEFORE_ALL }));
                    }
                    None => self.current = None,
                }
            }
            let Some(name) = self.unordered.pop() else { return Ok(None) };
            self.current = self.folder.table(name, self.chunk_rows)?;
        }
    }
}

impl ChunkSource for Chunks<'_> {
    fn next_chunk(
        &mut self,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Chunk>, DecodeError> {
        let chunk = if self.threads.is_none() {
            Some(self.first()?)
        } else if let Some(chunk) = self.unordered()? {
            Some(chunk)
        } else {
            let in_time = match self.in_time.take() {
                Some(in_time) => in_time,
                None => TimeOrder::open(self.folder, self.chunk_rows)?,
            };
            self.in_time.insert(in_time).next(self.batcher)?
        };
        if let Some(chunk) = &chunk {
            self.read += chunk.batches.iter().map(|(_, rows)| rows.num_rows() as u64).sum::<u64>();
            if !on_progress(self.read) {
                return Ok(None);
            }
        }
        Ok(chunk)
    }

    fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        let lives = self.lives.get(&tid)?;
        let found = match ts {
            Some(ts) => lives.iter().rev().find(|(start, _)| *start <= ts)?,
            None => lives.first().filter(|(start, _)| *start == i64::MIN).or(lives.last())?,
        };
        Some(found.1)
    }

    fn finish(&mut self) -> Result<Finished, DecodeError> {
        let mut batches: Batches = vec![("thread", self.threads()?)];
        let settings = self.folder.whole("machine_setting", self.batcher)?;
        batches.extend(settings.map(|rows| ("machine_setting", rows)));
        let manifest = &self.folder.manifest;
        let seen = self.in_time.as_ref().and_then(|in_time| in_time.window);
        // The window of the manifest, extended to rows outside it.
        let firsts = [manifest.number("first_ns"), seen.map(|w| w.0), self.stated.map(|w| w.0)];
        let lasts = [manifest.number("duration_ns"), seen.map(|w| w.1), self.stated.map(|w| w.1)];
        let first = firsts.into_iter().flatten().min().unwrap_or_default();
        let last = lasts.into_iter().flatten().max().unwrap_or(first);
        if last.checked_sub(first).is_none() {
            return Err(Error::Length { first, last }.into());
        }
        Ok(Finished {
            batches,
            first_ns: Some(first),
            last_ns: Some(last),
            events_lost: manifest.number("events_lost"),
            offline: Vec::new(),
            stacks: None,
        })
    }
}

fn lives(threads: &RecordBatch) -> Result<HashMap<i64, Lives>, TableFault> {
    let (tids, utids): (&Int64Array, &Int64Array) =
        (column(threads, "tid")?, column(threads, "utid")?);
    let starts: &Int64Array = column(threads, "start_ns")?;
    let mut found: HashMap<i64, Lives> = HashMap::new();
    for row in 0..threads.num_rows() {
        let start = if starts.is_valid(row) { starts.value(row) } else { i64::MIN };
        found.entry(tids.value(row)).or_default().push((start, utids.value(row)));
    }
    found.values_mut().for_each(|lives| lives.sort_unstable());
    Ok(found)
}

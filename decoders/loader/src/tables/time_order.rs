//! The tables in time order, cut at common times; rows with equal times are kept together.

use std::collections::VecDeque;

use arrow_array::{Int64Array, RecordBatch};
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::{Batches, Chunk};

use super::error::{Error, TableFault};
use super::folder::Folder;
use super::names::IN_TIME;
use super::order::{Positions, column};
use super::table::Table;

/// TimeOrder of the tables in time order.
pub(super) struct TimeOrder {
    streams: Vec<Stream>,
    positions: Positions,
    /// Times of the earliest and the latest row so far.
    pub(super) window: Option<(i64, i64)>,
    done: bool,
    chunk_rows: usize,
}

impl TimeOrder {
    /// Opens the tables.
    pub(super) fn open(folder: &Folder, chunk_rows: usize) -> Result<Self, Error> {
        let mut streams = Vec::new();
        for name in IN_TIME {
            if let Some(table) = folder.table(name, chunk_rows)? {
                streams.push(Stream { table, is_open: true, buffered: VecDeque::new(), rows: 0 });
            }
        }
        let positions = Positions::default();
        Ok(Self { streams, positions, window: None, done: false, chunk_rows })
    }

    /// The next chunk; `None` after the last.
    pub(super) fn next(&mut self, batcher: &Batcher) -> Result<Option<Chunk>, Error> {
        while !self.done {
            for stream in &mut self.streams {
                while stream.is_open && stream.rows < self.chunk_rows {
                    stream.add()?;
                }
            }
            // Later rows of an open table may have its last time.
            let mut until = None;
            for stream in self.streams.iter().filter(|stream| stream.is_open) {
                until = [until, stream.last()?].into_iter().flatten().min();
            }
            let mut batches = Batches::new();
            for stream in &mut self.streams {
                let parts = stream.take(until)?;
                if !parts.is_empty() {
                    batches.push((stream.table.name(), stream.table.declared(batcher, &parts)?));
                }
            }
            self.done = until.is_none();
            if batches.is_empty() && !self.done {
                // All buffered rows of a table have the same time: read until that time ends.
                for stream in &mut self.streams {
                    if stream.is_open && stream.last()? == until {
                        stream.add()?;
                    }
                }
                continue;
            }
            for (table, rows) in &batches {
                self.positions.check(table, rows)?;
                let times = times(rows).map_err(|fault| fault.of(table))?;
                if let (Some(&first), Some(&last)) = (times.first(), times.last()) {
                    let known = self.window.unwrap_or((first, last));
                    self.window = Some((known.0.min(first), known.1.max(last)));
                }
            }
            return Ok(Some(Chunk { batches, until_ns: until.unwrap_or(i64::MAX) }));
        }
        Ok(None)
    }
}

fn times(rows: &RecordBatch) -> Result<&[i64], TableFault> {
    let found: &Int64Array = column(rows, "ts")?;
    Ok(found.values())
}

/// The rows of one table that have been read but not yet taken.
struct Stream {
    table: Table,
    is_open: bool,
    buffered: VecDeque<RecordBatch>,
    rows: usize,
}

impl Stream {
    /// Reads one more batch.
    fn add(&mut self) -> Result<(), Error> {
        match self.table.next_part()? {
            Some(part) if part.num_rows() > 0 => {
                self.rows += part.num_rows();
                self.buffered.push_back(part);
            }
            Some(_) => {}
            None => self.is_open = false,
        }
        Ok(())
    }

    fn times<'a>(&self, rows: &'a RecordBatch) -> Result<&'a [i64], Error> {
        times(rows).map_err(|fault| fault.of(self.table.name()))
    }

    /// The last buffered time.
    fn last(&self) -> Result<Option<i64>, Error> {
        let Some(batch) = self.buffered.back() else { return Ok(None) };
        Ok(self.times(batch)?.last().copied())
    }

    /// Removes and returns the rows before a time; all rows if there is none.
    fn take(&mut self, until: Option<i64>) -> Result<Vec<RecordBatch>, Error> {
        let mut taken = Vec::new();
        while let Some(batch) = self.buffered.pop_front() {
            let all = batch.num_rows();
            let count = match until {
                Some(until) => self.times(&batch)?.partition_point(|ts| *ts < until),
                None => all,
            };
            self.rows -= count;
            if count > 0 {
                taken.push(batch.slice(0, count));
            }
            if count < all {
                self.buffered.push_front(batch.slice(count, all - count));
                break;
            }
        }
        Ok(taken)
    }
}

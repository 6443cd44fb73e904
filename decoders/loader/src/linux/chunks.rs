//! The records of a file, divided into chunks of base-table rows.

use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Chunk;
use schedlens_schedule::pool::Pools;

use super::pending::Pending;
use super::rows::Rows;

/// A chunk with this many rows is closed at the next later time.
pub(crate) const CHUNK_ROWS: usize = 1 << 18;

/// The records of a file in time order.
pub(crate) trait Records {
    /// Time of the next record.
    fn next_ts(&self) -> Option<i64>;
    /// Turns the next record into rows.
    fn read(&mut self, ts: i64);
    /// Each CPU and the time of its last record so far.
    fn ends(&self) -> Vec<(i32, i64)>;
    /// Releases what has been read; called now and then.
    fn release(&mut self) {}
    /// The rows of the current chunk.
    fn rows(&self) -> &Rows;
    /// As [`Records::rows`].
    fn rows_mut(&mut self) -> &mut Rows;
}

/// Divides records into chunks.
pub(crate) struct Feed<'a, R> {
    /// The records that remain.
    pub(crate) records: R,
    /// Makes batches of rows.
    pub(crate) batcher: &'a Batcher,
    pools: Pools,
    threads_written: usize,
    chunk_rows: usize,
    done: bool,
    read: u64,
}

impl<'a, R: Records> Feed<'a, R> {
    /// Starts at the first record.
    pub(crate) fn new(records: R, batcher: &'a Batcher, pools: Pools, chunk_rows: usize) -> Self {
        Self { records, batcher, pools, threads_written: 0, chunk_rows, done: false, read: 0 }
    }

    /// Records read so far.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// The thread that had an id at a time (without a time: at the start), once all chunks are
    /// read.
    pub(crate) fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        let threads = &self.records.rows().threads;
        match ts {
            Some(ts) => threads.at(tid, ts),
            None => threads.at_begin(tid),
        }
    }

    /// The next chunk; `None` after the last.
    ///
    /// # Errors
    /// Fails only if a value contradicts the schema; never because of the recording's contents.
    pub(crate) fn next_chunk(
        &mut self,
        mut on_progress: impl FnMut(u64) -> bool,
    ) -> Result<Option<Chunk>, ArrowError> {
        loop {
            if let Some(pending) = self.records.rows_mut().release(self.done) {
                return self.hand_out(pending).map(Some);
            }
            if self.done {
                return Ok(None);
            }
            let until_ns = self.fill(&mut on_progress);
            self.records.rows_mut().cut(until_ns, &self.pools);
        }
    }

    fn hand_out(&mut self, pending: Pending) -> Result<Chunk, ArrowError> {
        let mut batches = pending.tables.finish(self.batcher, &self.pools)?;
        let threads = &self.records.rows().threads;
        let known = threads.len();
        if known > self.threads_written {
            batches.push(("thread", threads.batch(self.batcher, self.threads_written, known)?));
            self.threads_written = known;
        }
        Ok(Chunk { batches, until_ns: pending.until_ns })
    }

    /// Reads records until the chunk is full or all are read; returns its end.
    fn fill(&mut self, on_progress: &mut impl FnMut(u64) -> bool) -> i64 {
        let mut last = None;
        while let Some(ts) = self.records.next_ts() {
            let is_full = self.records.rows().current.rows() >= self.chunk_rows;
            if is_full && last.is_some_and(|last| last < ts) {
                return ts;
            }
            last = Some(ts);
            self.records.read(ts);
            self.read += 1;
            if self.read.is_multiple_of(1 << 16) {
                self.records.release();
                if !on_progress(self.read) {
                    break;
                }
            }
        }
        self.done = true;
        let ends = self.records.ends();
        self.records.rows_mut().close_open(&ends);
        i64::MAX
    }
}

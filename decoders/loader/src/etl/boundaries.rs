//! Where chunks start and end.

use super::Tables;
use super::rows::Rows;
use super::session::Session;
use super::state::filling::Filling;

/// Maximum rows of closed chunks that wait for records which may change them.
const KEPT_ROWS: usize = 1 << 18;

impl Session<'_> {
    /// Starts a new chunk at a time.
    #[inline(never)]
    pub(super) fn begin_chunk(&mut self, from_ns: i64) {
        let next = Filling {
            tables: Tables::new(&self.pools),
            rows: Rows::default(),
            number: self.current.number + 1,
            from_ns,
        };
        let mut filled = std::mem::replace(&mut self.current, next);
        filled.tables.wakeups.settle();
        self.closed.add(filled);
    }

    /// The oldest closed chunk and its end, if no later record is expected to change it.
    pub(super) fn unchanging_chunk(&mut self) -> Option<(Filling, i64)> {
        let first = self.closed.chunks.front()?.number;
        if self.closed.rows <= KEPT_ROWS {
            // Data for the last records of a chunk may come with the first records after it.
            let alone = self.closed.chunks.len() < 2;
            let awaited = self.scheduling.oldest_given().is_some_and(|oldest| oldest <= first);
            if alone || awaited || self.stacks.is_some() {
                return None;
            }
        }
        self.oldest_chunk()
    }

    /// The oldest closed chunk and its end.
    pub(super) fn oldest_chunk(&mut self) -> Option<(Filling, i64)> {
        let filling = self.closed.take_first()?;
        let next = self.closed.chunks.front().unwrap_or(&self.current);
        self.scheduling.settle(next.number);
        Some((filling, next.from_ns))
    }
}

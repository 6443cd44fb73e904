//! Idle states, parking and frequencies that hold now, by CPU.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::etl) struct Parked {
    pub(in crate::etl) parked: Option<bool>,
    pub(in crate::etl) soft: Option<bool>,
}

/// What is known of each CPU.
#[derive(Debug, Default)]
pub(in crate::etl) struct Power {
    /// Idle states entered and not left: since when, which.
    pub(in crate::etl) idle: HashMap<i32, (i64, i32)>,
    pub(in crate::etl) parked: HashMap<i32, Parked>,
    /// Why the CPUs were chosen that are to be parked or unparked next: to which state, reason.
    pub(in crate::etl) chosen: HashMap<i32, (bool, u64)>,
    /// The first change of parking: from then on changes are recorded.
    pub(in crate::etl) changes_from: Option<i64>,
    pub(in crate::etl) khz: HashMap<i32, i64>,
    /// Caps on parking by node, as found last.
    pub(in crate::etl) caps: Vec<(String, String)>,
    /// Events whose structs no public description tells, and no schema in the file.
    pub(in crate::etl) not_described: i64,
}

impl Power {
    /// Idle states entered and not left.
    pub(in crate::etl) fn open(&mut self) -> impl Iterator<Item = (i32, (i64, i32))> {
        let mut open: Vec<_> = self.idle.drain().collect();
        open.sort_unstable();
        open.into_iter()
    }

    /// Records of a CPU were lost, its leaving an idle state perhaps among them.
    pub(in crate::etl) fn forget(&mut self, cpu: i32) {
        self.idle.remove(&cpu);
    }
}

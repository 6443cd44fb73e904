//! Current idle states, parking and frequencies by CPU.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::etl) struct Parked {
    pub(in crate::etl) parked: Option<bool>,
    pub(in crate::etl) soft: Option<bool>,
}

/// What is known about each CPU.
#[derive(Debug, Default)]
pub(in crate::etl) struct Power {
    /// Open idle states by CPU: start time and state.
    pub(in crate::etl) idle: HashMap<i32, (i64, i32)>,
    pub(in crate::etl) parked: HashMap<i32, Parked>,
    /// Pending parking decisions by CPU: target state and reason.
    pub(in crate::etl) chosen: HashMap<i32, (bool, u64)>,
    /// The first change of parking. Changes are recorded from then on.
    pub(in crate::etl) changes_from: Option<i64>,
    pub(in crate::etl) khz: HashMap<i32, i64>,
    /// Caps on parking by node, as last reported.
    pub(in crate::etl) caps: Vec<(String, String)>,
    /// Events with structs that neither public documentation nor a schema in the file describes.
    pub(in crate::etl) not_described: i64,
}

impl Power {
    /// Open idle states.
    pub(in crate::etl) fn open(&mut self) -> impl Iterator<Item = (i32, (i64, i32))> {
        let mut open: Vec<_> = self.idle.drain().collect();
        open.sort_unstable();
        open.into_iter()
    }

    /// Records of a CPU were lost, perhaps including its exit from an idle state.
    pub(in crate::etl) fn forget(&mut self, cpu: i32) {
        self.idle.remove(&cpu);
    }
}

//! Context switches, from either kind of kernel record.

use schedlens_input::bytes::u32_at;
use schedlens_tracepoints::events::Family;

use crate::merged::Merged;
use crate::record;
use crate::recording::Recording;
use crate::streams::trailer_ids;

/// A context switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Logical CPU.
    pub cpu: i32,
    /// Thread switched out; 0 is the CPU's idle thread.
    pub prev_tid: i32,
    /// Thread switched in.
    pub next_tid: i32,
}

impl Recording {
    /// The context switch that a record reports, if it reports one.
    ///
    /// If `sched:sched_switch` was recorded, its samples are the switches; else the switch-outs of
    /// `perf record --switch-events`.
    pub fn switch(&self, record: &Merged<'_>) -> Option<Switch> {
        let has_tracepoint = self.has(|family| matches!(family, Family::Switch { .. }));
        let (prev_tid, next_tid) = match record.kind() {
            record::SAMPLE => self.switch_ids(record)?,
            record::SWITCH_CPU_WIDE if !has_tracepoint => {
                let is_out = record.misc() & record::MISC_SWITCH_OUT != 0;
                let (_, own) = trailer_ids(&self.events, record.bytes).filter(|_| is_out)?;
                (own, u32_at(record.bytes, 12)?.cast_signed())
            }
            _ => return None,
        };
        Some(Switch { cpu: record.cpu, prev_tid, next_tid })
    }

    /// The ids of the outgoing and incoming threads in a sample of `sched:sched_switch`.
    pub(crate) fn switch_ids(&self, record: &Merged<'_>) -> Option<(i32, i32)> {
        let Family::Switch { fields, .. } = &self.named.get(record.event)?.family else {
            return None;
        };
        let raw = self.events.attrs.get(record.event)?.parts(record.bytes)?.raw;
        Some((fields.prev_pid.id(raw)?, fields.next_pid.id(raw)?))
    }
}

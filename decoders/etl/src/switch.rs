//! Context switches.

use crate::guid::Guid;
use crate::passes::Chosen;
use crate::payload::known;
use crate::payload::switching::CSwitch;
use crate::records::{Id, Record};

/// Hook of `CSwitch`.
const CSWITCH: u16 = 0x0524;
/// The kernel's class `Thread`, for records with a classic header.
const THREAD: Guid = Guid::from_text_order(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);

/// A context switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Logical CPU.
    pub cpu: u16,
    /// Thread switched out; 0 is the CPU's idle thread.
    pub prev_tid: u32,
    /// Thread switched in.
    pub next_tid: u32,
}

impl Switch {
    /// The records that report context switches.
    pub fn chosen() -> Chosen {
        Chosen::of([CSWITCH], [THREAD])
    }

    /// The context switch that a record reports, if it reports one.
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let hook = match record.id {
            Id::Hook(hook) => hook,
            Id::Classic { class, opcode } => known::hook_of_class(class.first(), opcode)?,
            _ => return None,
        };
        let read = CSwitch::read(record.version, record.payload).filter(|_| hook == CSWITCH)?;
        Some(Self { cpu: record.cpu?, prev_tid: read.old_tid, next_tid: read.new_tid })
    }
}

//! `MESSAGE_TRACE_HEADER`: the parts that a WPP message contains.

use schedlens_input::bytes::{u16_at, u32_at, u64_at};

use crate::guid::Guid;
use crate::records::names::Pointer;

/// `TRACE_MESSAGE_*`: the parts of a message, in this order.
pub(crate) struct MessageParts {
    pub(crate) number: u16,
    pub(crate) class: Option<Guid>,
    pub(crate) ts: Option<i64>,
    pub(crate) tid: Option<u32>,
    pub(crate) pid: Option<u32>,
    pub(crate) pointer: Pointer,
    pub(crate) payload: usize,
}

impl MessageParts {
    /// The parts of a message; `None` if they do not fit in it.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let flags = u16_at(bytes, 6)?;
        let mut at = 8;
        let mut step = |flag: u16, size: usize| {
            let here = at;
            let carried = flags & flag != 0;
            if carried {
                at += size;
            }
            carried.then_some(here)
        };
        step(0x01, 4);
        let class = step(0x02, 16);
        step(0x04, 4);
        let (ts, ids) = (step(0x08, 8), step(0x20, 8));
        if at > bytes.len() {
            return None;
        }
        Some(Self {
            number: u16_at(bytes, 4)?,
            class: class.and_then(|at| Guid::at(bytes, at)),
            ts: ts.and_then(|at| u64_at(bytes, at)).map(u64::cast_signed),
            tid: ids.and_then(|at| u32_at(bytes, at)),
            pid: ids.and_then(|at| u32_at(bytes, at + 4)),
            pointer: if flags & 0x40 != 0 { Pointer::Four } else { Pointer::Eight },
            payload: at,
        })
    }
}

//! The events that come by the million: switches, wakings, interrupts, idle states.

use super::value::{Fields, Value};
use crate::bytes::u32_at;

/// `CSwitch` (hook 0524), all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CSwitch {
    pub(crate) new_tid: u32,
    pub(crate) old_tid: u32,
    pub(crate) new_priority: i8,
    pub(crate) old_priority: i8,
    /// From version 2 on; before, a quantum stands there.
    pub(crate) previous_cstate: Option<u8>,
    pub(crate) wait_reason: i8,
    pub(crate) wait_mode: u8,
    pub(crate) state: i8,
    pub(crate) ideal_processor: u8,
    /// Of the old and of the new thread; from version 3 on.
    pub(crate) qos: Option<(u8, u8)>,
}

impl CSwitch {
    /// Reads a payload; `None` where it is shorter than any version.
    #[inline(always)]
    pub(crate) fn read(version: u8, payload: &[u8]) -> Option<Self> {
        let p: &[u8; 16] = payload.first_chunk()?;
        let long = version >= 2 && payload.len() >= 24;
        let flags = p[13];
        Some(Self {
            new_tid: u32::from_le_bytes([p[0], p[1], p[2], p[3]]),
            old_tid: u32::from_le_bytes([p[4], p[5], p[6], p[7]]),
            new_priority: p[8].cast_signed(),
            old_priority: p[9].cast_signed(),
            previous_cstate: long.then_some(p[10]),
            wait_reason: p[12].cast_signed(),
            wait_mode: if version >= 3 { flags & 1 } else { flags },
            state: p[14].cast_signed(),
            ideal_processor: p[15],
            qos: (long && version >= 3).then_some((flags >> 1 & 7, flags >> 4 & 7)),
        })
    }

    /// All fields by Microsoft's names.
    pub(crate) fn fields(version: u8, payload: &[u8]) -> Option<Fields> {
        let read = Self::read(version, payload)?;
        let mut fields = Fields::default();
        let mut add = |name: &'static str, value: Value| fields.0.push((name.into(), value));
        add("NewThreadId", Value::Unsigned(read.new_tid.into()));
        add("OldThreadId", Value::Unsigned(read.old_tid.into()));
        add("NewThreadPriority", Value::Signed(read.new_priority.into()));
        add("OldThreadPriority", Value::Signed(read.old_priority.into()));
        match read.previous_cstate {
            Some(state) => {
                add("PreviousCState", Value::Unsigned(state.into()));
                add("SpareByte", Value::Signed(payload[11].cast_signed().into()));
            }
            None => {
                add("NewThreadQuantum", Value::Signed(payload[10].cast_signed().into()));
                add("OldThreadQuantum", Value::Signed(payload[11].cast_signed().into()));
            }
        }
        add("OldThreadWaitReason", Value::Signed(read.wait_reason.into()));
        add("OldThreadWaitMode", Value::Unsigned(read.wait_mode.into()));
        if let Some((old, new)) = read.qos {
            add("OldThreadQos", Value::Unsigned(old.into()));
            add("NewThreadQos", Value::Unsigned(new.into()));
        }
        add("OldThreadState", Value::Signed(read.state.into()));
        add("OldThreadWaitIdealProcessor", Value::Unsigned(read.ideal_processor.into()));
        if read.previous_cstate.is_some() {
            for (name, at) in [("NewThreadWaitTime", 16), ("Reserved", 20), ("Unknown", 24)] {
                if let Some(value) = u32_at(payload, at) {
                    add(name, Value::Unsigned(value.into()));
                }
            }
        }
        Some(fields)
    }
}

/// `ReadyThread` (hook 0532).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadyThread {
    pub(crate) tid: u32,
    pub(crate) adjust_reason: i8,
    pub(crate) adjust_increment: i8,
    pub(crate) flags: u8,
}

impl ReadyThread {
    /// Reads a payload.
    #[inline(always)]
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let p: &[u8; 7] = payload.first_chunk()?;
        Some(Self {
            tid: u32::from_le_bytes([p[0], p[1], p[2], p[3]]),
            adjust_reason: p[4].cast_signed(),
            adjust_increment: p[5].cast_signed(),
            flags: p[6],
        })
    }

    /// Written inside a DPC: the thread that was interrupted by it did not wake anyone.
    pub(crate) fn in_dpc(self) -> bool {
        self.flags & 1 != 0
    }

    /// All fields by Microsoft's names.
    pub(crate) fn fields(payload: &[u8]) -> Option<Fields> {
        let read = Self::read(payload)?;
        Some(Fields(vec![
            ("TThreadId".into(), Value::Unsigned(read.tid.into())),
            ("AdjustReason".into(), Value::Signed(read.adjust_reason.into())),
            ("AdjustIncrement".into(), Value::Signed(read.adjust_increment.into())),
            ("Flag".into(), Value::Unsigned(read.flags.into())),
        ]))
    }
}

/// Raw time at which a DPC or ISR began: the record is written at its end.
#[inline(always)]
pub(crate) fn initial_time(payload: &[u8]) -> Option<i64> {
    payload.first_chunk().map(|bytes| i64::from_le_bytes(*bytes))
}

/// Of a stack: the raw time of the event it belongs to, the process and the thread.
#[inline(always)]
pub(crate) fn stack_owner(payload: &[u8]) -> Option<(i64, u32, u32)> {
    Some((initial_time(payload)?, u32_at(payload, 8)?, u32_at(payload, 12)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_read_by_its_version() {
        let payload: Vec<u8> = (1..=28).collect();
        let first = CSwitch::read(1, &payload[..16]).expect("16 bytes");
        assert_eq!((first.new_tid, first.old_tid), (0x0403_0201, 0x0807_0605));
        assert_eq!((first.previous_cstate, first.qos, first.wait_mode), (None, None, 14));
        let second = CSwitch::read(2, &payload[..24]).expect("24 bytes");
        assert_eq!((second.previous_cstate, second.qos, second.wait_mode), (Some(11), None, 14));
        let fifth = CSwitch::read(5, &payload).expect("28 bytes");
        assert_eq!((fifth.qos, fifth.wait_mode, fifth.ideal_processor), (Some((7, 0)), 0, 16));
        assert_eq!(CSwitch::read(5, &payload[..15]), None);
        let fields = CSwitch::fields(5, &payload).expect("fields");
        assert_eq!(fields.number("Unknown"), Some(0x1c1b_1a19));
    }

    #[test]
    fn ready_and_stack_heads_are_read() {
        let payload: Vec<u8> = (1..=16).collect();
        let ready = ReadyThread::read(&payload).expect("read");
        assert!(ready.in_dpc());
        assert_eq!((ready.tid, ready.adjust_reason, ready.adjust_increment), (0x0403_0201, 5, 6));
        let owner = (0x0807_0605_0403_0201, 0x0c0b_0a09, 0x100f_0e0d);
        assert_eq!(stack_owner(&payload), Some(owner));
        assert_eq!(stack_owner(&payload[..12]), None);
    }
}

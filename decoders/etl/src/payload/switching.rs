//! The most frequent events: switches, wakeups, interrupts, idle states.

use schedlens_input::bytes::u32_at;

use super::value::{Fields, Value};

/// `CSwitch` (hook 0524), all versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSwitch {
    /// `NewThreadId`
    pub new_tid: u32,
    /// `OldThreadId`
    pub old_tid: u32,
    /// The bytes 8 to 15; most of them are the same in all layouts.
    details: u64,
    /// From version 2 on: the C state instead of quanta.
    has_cstate: bool,
    /// From version 3 on: wait mode and QoS classes share a byte.
    has_flags: bool,
    /// The bytes 20 to 23, if the payload is long.
    remaining_quantum: i32,
}

/// The contents of a switch besides its threads, one byte each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details(u64);

impl Details {
    /// Bit offset of the new thread's priority, for [`Details::signed`].
    pub const NEW_PRIORITY: u32 = 0;
    /// Bit offset of the old thread's priority.
    pub const OLD_PRIORITY: u32 = 8;
    /// Bit offset of the C state; valid if [`Details::has_cstate`].
    pub const CSTATE: u32 = 16;
    /// `KWAIT_REASON`
    pub const WAIT_REASON: u32 = 32;
    /// `KPROCESSOR_MODE`
    pub const WAIT_MODE: u32 = 40;
    /// `KTHREAD_STATE`
    pub const STATE: u32 = 48;
    /// Ideal processor of the thread that is switched out.
    pub const IDEAL: u32 = 56;
    const HAS_CSTATE: u32 = 24;
    const HAS_REMAINING: u32 = 25;

    /// A signed byte.
    #[inline(always)]
    pub fn signed(self, column: u32) -> i32 {
        i32::from((self.0 >> column) as i8)
    }

    /// An unsigned byte.
    #[inline(always)]
    pub fn unsigned(self, column: u32) -> i32 {
        i32::from((self.0 >> column) as u8)
    }

    /// Whether the C state of the CPU is recorded.
    #[inline(always)]
    pub fn has_cstate(self) -> bool {
        self.0 >> Self::HAS_CSTATE & 1 != 0
    }

    /// Whether the remaining quantum of the old thread is recorded.
    #[inline(always)]
    pub fn has_remaining_quantum(self) -> bool {
        self.0 >> Self::HAS_REMAINING & 1 != 0
    }
}

/// Size of a payload that has a C state and a remaining quantum.
const LONG: usize = 24;
/// Offset of the remaining quantum, which later systems call reserved.
const REMAINING_QUANTUM: usize = 20;

impl CSwitch {
    /// Number of bytes of a payload that [is long](Self::is_long) that are read.
    pub const LONG: usize = LONG;

    /// Reads a payload; `None` if it is shorter than any version.
    #[inline(always)]
    pub fn read(version: u8, payload: &[u8]) -> Option<Self> {
        let [ids, details, ..] = payload.as_chunks().0 else { return None };
        let ids = u64::from_le_bytes(*ids);
        let long = version >= 2 && payload.len() >= LONG;
        Some(Self {
            new_tid: ids as u32,
            old_tid: (ids >> 32) as u32,
            details: u64::from_le_bytes(*details),
            has_cstate: long,
            has_flags: version >= 3,
            remaining_quantum: u32_at(payload, REMAINING_QUANTUM).unwrap_or_default().cast_signed(),
        })
    }

    /// Whether a payload of that version and length has a C state and QoS classes.
    #[inline(always)]
    pub fn is_long(version: u8, bytes: usize) -> bool {
        version >= 3 && bytes >= LONG
    }

    /// Reads the first bytes of a payload that [is long](Self::is_long).
    #[inline(always)]
    pub fn of_long(begin: &[u8; LONG]) -> Self {
        let ([ids, details, tail], []) = begin.as_chunks() else { unreachable!() };
        let ids = u64::from_le_bytes(*ids);
        Self {
            new_tid: ids as u32,
            old_tid: (ids >> 32) as u32,
            details: u64::from_le_bytes(*details),
            has_cstate: true,
            has_flags: true,
            remaining_quantum: (u64::from_le_bytes(*tail) >> 32) as i32,
        }
    }

    /// The byte starting at a bit.
    #[inline(always)]
    fn byte(&self, bit: u32) -> u8 {
        (self.details >> bit) as u8
    }

    /// Of the CPU, if an idle thread is switched out.
    pub fn previous_cstate(&self) -> Option<u8> {
        self.has_cstate.then_some(self.byte(Details::CSTATE))
    }

    /// `KPROCESSOR_MODE`
    pub fn wait_mode(&self) -> u8 {
        let byte = self.byte(Details::WAIT_MODE);
        if self.has_flags { byte & 1 } else { byte }
    }

    /// `KTHREAD_STATE` of the thread that is switched out.
    #[inline(always)]
    pub fn state(&self) -> i8 {
        self.byte(Details::STATE).cast_signed()
    }

    /// Of the thread that is switched out.
    #[inline(always)]
    pub fn ideal_processor(&self) -> u8 {
        self.byte(Details::IDEAL)
    }

    /// `OldRemainingQuantum` of the thread that is switched out, as recorded.
    #[inline(always)]
    pub fn remaining_quantum(&self) -> Option<i32> {
        self.has_cstate.then_some(self.remaining_quantum)
    }

    /// QoS classes of the old and the new thread.
    #[inline(always)]
    pub fn qos(&self) -> Option<(u8, u8)> {
        let flags = self.byte(Details::WAIT_MODE);
        (self.has_cstate && self.has_flags).then_some((flags >> 1 & 7, flags >> 4 & 7))
    }

    /// All fields common to every version; the C state only if an idle thread is switched out.
    #[inline(always)]
    pub fn details(&self) -> Details {
        let has_cstate = u64::from(self.has_cstate && self.old_tid == 0);
        let classes = if self.has_flags { 0xfe << Details::WAIT_MODE } else { 0 };
        let spare = 0xff << Details::HAS_CSTATE;
        let known = has_cstate << Details::HAS_CSTATE
            | u64::from(self.has_cstate) << Details::HAS_REMAINING;
        Details(self.details & !(classes | spare) | known)
    }

    /// All fields by Microsoft's names.
    pub fn fields(version: u8, payload: &[u8]) -> Option<Fields> {
        let read = Self::read(version, payload)?;
        let details = read.details();
        let mut fields = Fields::default();
        let mut add = |name: &'static str, value: Value| fields.0.push((name.into(), value));
        add("NewThreadId", Value::Unsigned(read.new_tid.into()));
        add("OldThreadId", Value::Unsigned(read.old_tid.into()));
        add("NewThreadPriority", Value::Signed(details.signed(Details::NEW_PRIORITY).into()));
        add("OldThreadPriority", Value::Signed(details.signed(Details::OLD_PRIORITY).into()));
        match read.previous_cstate() {
            Some(state) => {
                add("PreviousCState", Value::Unsigned(state.into()));
                add("SpareByte", Value::Signed(payload[11].cast_signed().into()));
            }
            None => {
                add("NewThreadQuantum", Value::Signed(payload[10].cast_signed().into()));
                add("OldThreadQuantum", Value::Signed(payload[11].cast_signed().into()));
            }
        }
        add("OldThreadWaitReason", Value::Signed(details.signed(Details::WAIT_REASON).into()));
        add("OldThreadWaitMode", Value::Unsigned(read.wait_mode().into()));
        if let Some((old, new)) = read.qos() {
            add("OldThreadQos", Value::Unsigned(old.into()));
            add("NewThreadQos", Value::Unsigned(new.into()));
        }
        add("OldThreadState", Value::Signed(read.state().into()));
        add("OldThreadWaitIdealProcessor", Value::Unsigned(read.ideal_processor().into()));
        if read.previous_cstate().is_some() {
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
pub struct ReadyThread {
    /// `TThreadId`: the thread that becomes ready.
    pub tid: u32,
    /// `AdjustReason`
    pub adjust_reason: i8,
    /// `AdjustIncrement`: boost of its priority.
    pub adjust_increment: i8,
    /// `Flag`
    pub flags: u8,
}

impl ReadyThread {
    /// Number of payload bytes read.
    pub const BYTES: usize = 7;

    /// Reads a payload.
    #[inline(always)]
    pub fn read(payload: &[u8]) -> Option<Self> {
        payload.first_chunk().map(Self::of)
    }

    /// Reads the first bytes of a payload.
    #[inline(always)]
    pub fn of(begin: &[u8; Self::BYTES]) -> Self {
        let [tid0, tid1, tid2, tid3, reason, increment, flags] = *begin;
        Self {
            tid: u32::from_le_bytes([tid0, tid1, tid2, tid3]),
            adjust_reason: reason.cast_signed(),
            adjust_increment: increment.cast_signed(),
            flags,
        }
    }

    /// Written inside a DPC: the thread that it interrupted did not wake anyone.
    pub fn in_dpc(self) -> bool {
        self.flags & 1 != 0
    }

    /// All fields by Microsoft's names.
    pub fn fields(payload: &[u8]) -> Option<Fields> {
        let read = Self::read(payload)?;
        Some(Fields(vec![
            ("TThreadId".into(), Value::Unsigned(read.tid.into())),
            ("AdjustReason".into(), Value::Signed(read.adjust_reason.into())),
            ("AdjustIncrement".into(), Value::Signed(read.adjust_increment.into())),
            ("Flag".into(), Value::Unsigned(read.flags.into())),
        ]))
    }
}

/// Raw time at which a DPC or ISR began. Its record is written at its end.
#[inline(always)]
pub fn initial_time(payload: &[u8]) -> Option<i64> {
    payload.first_chunk().map(|bytes| i64::from_le_bytes(*bytes))
}

/// For a stack: the raw time of its event, the process and the thread.
#[inline(always)]
pub fn stack_owner(payload: &[u8]) -> Option<(i64, u32, u32)> {
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
        assert_eq!((first.previous_cstate(), first.qos(), first.wait_mode()), (None, None, 14));
        let second = CSwitch::read(2, &payload[..24]).expect("24 bytes");
        assert_eq!(
            (second.previous_cstate(), second.qos(), second.wait_mode()),
            (Some(11), None, 14)
        );
        let fifth = CSwitch::read(5, &payload).expect("28 bytes");
        assert_eq!(
            (fifth.qos(), fifth.wait_mode(), fifth.ideal_processor()),
            (Some((7, 0)), 0, 16)
        );
        assert_eq!(CSwitch::read(5, &payload[..15]), None);
        assert_eq!(first.remaining_quantum(), None);
        let begin = payload.first_chunk().expect("24 bytes");
        for long in [second, fifth, CSwitch::of_long(begin)] {
            assert_eq!(long.remaining_quantum(), Some(0x1817_1615));
            assert!(long.details().has_remaining_quantum());
        }
        assert!(!first.details().has_remaining_quantum());
        assert_eq!(CSwitch::of_long(begin).details(), fifth.details());
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

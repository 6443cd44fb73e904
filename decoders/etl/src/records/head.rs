//! Record heads: what is needed to skip records and to order them.

use schedlens_input::bytes::{u16_at, u64_at};

use crate::guid::Guid;
use crate::records::message::MessageParts;
use crate::records::names::{Id, Kind, Place, Pointer};
use crate::records::record::{Extended, HAS_ITEMS, Record, split_items};

/// Why the bytes at a position are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No header starts with these bytes.
    Marker,
    /// A size that its header or the buffer does not allow.
    Size,
    /// Its extended items do not fit in it, but the record's size is valid.
    Items {
        /// Bytes up to the next record.
        stride: usize,
    },
}

impl Fault {
    /// The text for `problem`.
    pub fn what(self) -> &'static str {
        match self {
            Self::Marker => "bytes that are no record",
            Self::Size => "a record whose size cannot be",
            Self::Items { .. } => "a record whose extended items exceed its size",
        }
    }
}

/// The part of a record needed to skip and to order it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Low byte of the marker's type: one of the `TRACE_HEADER_TYPE_*`.
    form: u8,
    /// `HookId`, if the header has one.
    hook: u16,
    /// The first word: version, type, flags.
    marker: u32,
    /// Bytes without padding.
    pub size: u32,
    /// Raw time; that of the previous record if it has none.
    pub ts: i64,
}

const SYSTEM32: u8 = 1;
const SYSTEM64: u8 = 2;
const COMPACT32: u8 = 3;
const COMPACT64: u8 = 4;
const FULL32: u8 = 10;
const INSTANCE32: u8 = 11;
const TIMED: u8 = 12;
const ERROR: u8 = 13;
const MESSAGE: u8 = 15;
const PERFINFO32: u8 = 16;
pub(crate) const PERFINFO64: u8 = 17;
const EVENT32: u8 = 18;
const EVENT64: u8 = 19;
const FULL64: u8 = 20;
const INSTANCE64: u8 = 21;

/// The layout of a header.
#[derive(Clone, Copy)]
struct Layout {
    /// Its size; 0: undefined type.
    bytes: u8,
    /// Offset of its time; 0: it has none.
    time: u8,
    /// Position of the size in its first eight bytes, in bits.
    size_shift: u8,
    /// The first word states what follows it: [`EXTENDED_PERFINFO`], [`EXTENDED_EVENT`].
    extended: u8,
}

const EXTENDED_PERFINFO: u8 = 1;
const EXTENDED_EVENT: u8 = 2;

/// Layouts by `TRACE_HEADER_TYPE_*`.
const LAYOUTS: [Layout; 256] = {
    const fn layout(bytes: u8, time: u8, size_shift: u8, extended: u8) -> Layout {
        Layout { bytes, time, size_shift, extended }
    }
    let mut layouts = [layout(0, 0, 0, 0); 256];
    layouts[SYSTEM32 as usize] = layout(32, 16, 32, 0);
    layouts[SYSTEM64 as usize] = layout(32, 16, 32, 0);
    layouts[COMPACT32 as usize] = layout(24, 16, 32, 0);
    layouts[COMPACT64 as usize] = layout(24, 16, 32, 0);
    layouts[FULL32 as usize] = layout(48, 16, 0, 0);
    layouts[FULL64 as usize] = layout(48, 16, 0, 0);
    layouts[INSTANCE32 as usize] = layout(72, 16, 0, 0);
    layouts[INSTANCE64 as usize] = layout(72, 16, 0, 0);
    layouts[TIMED as usize] = layout(8, 0, 0, 0);
    layouts[ERROR as usize] = layout(8, 0, 0, 0);
    layouts[MESSAGE as usize] = layout(8, 0, 0, 0);
    layouts[PERFINFO32 as usize] = layout(16, 8, 32, EXTENDED_PERFINFO);
    layouts[PERFINFO64 as usize] = layout(16, 8, 32, EXTENDED_PERFINFO);
    layouts[EVENT32 as usize] = layout(80, 16, 0, EXTENDED_EVENT);
    layouts[EVENT64 as usize] = layout(80, 16, 0, EXTENDED_EVENT);
    layouts
};

/// `TRACE_HEADER_FLAG | TRACE_HEADER_EVENT_TRACE`, in the fourth byte of a record.
pub(crate) const EVENT_TRACE: u8 = 0xc0;
/// The same byte of a WPP message.
const WPP: u8 = 0x90;
/// The same byte of a `TIMED_TRACE_HEADER`.
const TIMED_TRACE: u8 = 0xb0;
/// In the `Version` of a perfinfo header: a `u64` PEBS index follows it.
pub(crate) const HAS_PEBS: u16 = 0x8000;
/// In the same field: the number of counters that follow it.
pub(crate) const COUNTERS: u16 = 0x700;

/// The type in the first word of a record.
fn form(word: u64) -> Option<u8> {
    match ((word >> 24) as u8, (word >> 16) as u8) {
        (WPP, _) => Some(MESSAGE),
        (TIMED_TRACE, _) => Some(TIMED),
        (flags, form) if flags & EVENT_TRACE == EVENT_TRACE => Some(form),
        _ => None,
    }
}

impl Head {
    #[inline(always)]
    pub(crate) fn new(word: u64, form: u8, size: u16, ts: i64) -> Self {
        Self { form, hook: (word >> 48) as u16, marker: word as u32, size: size.into(), ts }
    }

    /// The head of the record at a position in a buffer's records, if it is of the usual kinds:
    /// with a time, and nothing between header and payload.
    #[inline(always)]
    pub(crate) fn usual(records: &[u8], at: usize) -> Option<Self> {
        let rest = records.get(at..)?;
        let word = u64::from_le_bytes(*rest.first_chunk()?);
        let form = (word >> 16) as u8;
        let layout = LAYOUTS[usize::from(form)];
        let extends = match layout.extended {
            EXTENDED_PERFINFO => word as u16 & (HAS_PEBS | COUNTERS) != 0,
            EXTENDED_EVENT => (word >> 32) as u16 & HAS_ITEMS != 0,
            _ => false,
        };
        let size = (word >> layout.size_shift) as u16;
        let usual = (word >> 24) as u8 & EVENT_TRACE == EVENT_TRACE
            && layout.time != 0
            && size >= u16::from(layout.bytes)
            && usize::from(size) <= rest.len()
            && !extends;
        let ts = u64_at(rest, usize::from(layout.time))?;
        usual.then_some(Self::new(word, form, size, ts.cast_signed()))
    }

    /// The head of a record that is already known to be valid, with its size and time.
    pub(crate) fn known(records: &[u8], at: usize, size: u16, ts: i64) -> Option<Self> {
        let word = u64_at(records, at)?;
        Some(Self::new(word, form(word)?, size, ts))
    }

    /// The head of the record at a position in a buffer's records; `before` is the time of the
    /// previous record.
    ///
    /// # Errors
    /// The bytes there are not a record that ends within `records`.
    #[inline(never)]
    pub fn at(records: &[u8], at: usize, before: i64) -> Result<Self, Fault> {
        let word = u64_at(records, at).ok_or(Fault::Size)?;
        let form = form(word).ok_or(Fault::Marker)?;
        let layout = LAYOUTS[usize::from(form)];
        if layout.bytes == 0 {
            return Err(Fault::Marker);
        }
        let size = (word >> layout.size_shift) as u16;
        if size < u16::from(layout.bytes) || usize::from(size) > records.len() - at {
            return Err(Fault::Size);
        }
        let bytes = records.get(at..at + usize::from(size)).unwrap_or_default();
        let ts = match (form, layout.time) {
            (MESSAGE, _) => MessageParts::of(bytes).ok_or(Fault::Size)?.ts,
            (_, 0) => None,
            (_, time) => u64_at(bytes, usize::from(time)).map(u64::cast_signed),
        };
        let head = Self::new(word, form, size, ts.unwrap_or(before));
        head.check_extension(bytes)?;
        Ok(head)
    }

    fn check_extension(&self, bytes: &[u8]) -> Result<(), Fault> {
        let layout = LAYOUTS[usize::from(self.form)];
        let behind = bytes.get(usize::from(layout.bytes)..).unwrap_or_default();
        match layout.extended {
            EXTENDED_EVENT if u16_at(bytes, 4).unwrap_or_default() & HAS_ITEMS != 0 => {
                let fault = Fault::Items { stride: self.stride() };
                split_items(behind).map(|_| ()).ok_or(fault)
            }
            EXTENDED_PERFINFO => {
                let version = u16_at(bytes, 0).unwrap_or_default();
                let words = usize::from(version >> 8 & 7) + usize::from(version & HAS_PEBS != 0);
                if 8 * words > behind.len() { Err(Fault::Size) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Bytes up to the next record.
    #[inline(always)]
    pub fn stride(&self) -> usize {
        (self.size as usize).next_multiple_of(8)
    }

    /// The hook of a system, compact or perfinfo record.
    #[inline(always)]
    pub fn hook(&self) -> Option<u16> {
        let has = matches!(self.form, SYSTEM32..=COMPACT64 | PERFINFO32 | PERFINFO64);
        has.then_some(self.hook)
    }

    /// The first word of the header: version, type and flags.
    #[inline(always)]
    pub(crate) fn marker(&self) -> u32 {
        self.marker
    }

    /// The class of a classic event or the provider of a manifest event at that position.
    #[inline(always)]
    pub fn guid(&self, records: &[u8], at: usize) -> Option<Guid> {
        match self.form {
            FULL32 | FULL64 | INSTANCE32 | INSTANCE64 | EVENT32 | EVENT64 => {
                Guid::at(records, at + 24)
            }
            _ => None,
        }
    }

    /// Number of the manifest event at that position.
    pub(crate) fn event(&self, records: &[u8], at: usize) -> Option<u16> {
        match self.form {
            EVENT32 | EVENT64 => u16_at(records, at + 40),
            _ => None,
        }
    }

    /// Its header kind.
    pub fn kind(&self) -> Kind {
        match self.form {
            SYSTEM32 | SYSTEM64 => Kind::System,
            COMPACT32 | COMPACT64 => Kind::Compact,
            PERFINFO32 | PERFINFO64 => Kind::PerfInfo,
            FULL32 | FULL64 => Kind::Full,
            INSTANCE32 | INSTANCE64 => Kind::Instance,
            EVENT32 | EVENT64 => Kind::Event,
            MESSAGE => Kind::Message,
            ERROR => Kind::Error,
            _ => Kind::Timed,
        }
    }

    /// Width of its pointers.
    pub fn pointer(&self) -> Pointer {
        match self.form {
            SYSTEM32 | COMPACT32 | PERFINFO32 | FULL32 | INSTANCE32 | EVENT32 => Pointer::Four,
            _ => Pointer::Eight,
        }
    }

    /// The record and its hook if its header is `PERFINFO_TRACE_HEADER`. Built in one step, so that
    /// it never has to be in memory.
    #[inline(always)]
    pub(crate) fn perfinfo<'a>(
        &self,
        records: &'a [u8],
        at: usize,
        (cpu, place): (Option<u16>, Place),
    ) -> Option<(u16, Record<'a>)> {
        if !matches!(self.form, PERFINFO32 | PERFINFO64) {
            return None;
        }
        let bytes = records.get(at..at + self.size as usize).unwrap_or_default();
        let version = u16_at(bytes, 0).unwrap_or_default();
        let hook = u16_at(bytes, 6).unwrap_or_default();
        let counters = 16 + 8 * usize::from(version & HAS_PEBS != 0);
        let payload = counters + 8 * usize::from(version >> 8 & 7);
        let record = Record {
            kind: Kind::PerfInfo,
            pointer: self.pointer(),
            cpu,
            ts: self.ts,
            tid: None,
            pid: None,
            id: Id::Hook(hook),
            version: version as u8,
            counters: bytes.get(counters..payload).unwrap_or_default(),
            extended: Extended::default(),
            payload: bytes.get(payload..).unwrap_or_default(),
            size: self.size,
            place,
        };
        Some((hook, record))
    }

    /// The record with this head; `records` and `at` as for [`Head::at`].
    #[inline(always)]
    pub fn record<'a>(
        &self,
        records: &'a [u8],
        at: usize,
        (cpu, place): (Option<u16>, Place),
    ) -> Record<'a> {
        if let Some((_, record)) = self.perfinfo(records, at, (cpu, place)) {
            return record;
        }
        let bytes = records.get(at..at + self.size as usize).unwrap_or_default();
        let mut record = Record {
            kind: self.kind(),
            pointer: self.pointer(),
            cpu,
            ts: self.ts,
            tid: None,
            pid: None,
            id: Id::None,
            version: 0,
            counters: &[],
            extended: Extended::default(),
            payload: bytes.get(8..).unwrap_or_default(),
            size: self.size,
            place,
        };
        match self.form {
            SYSTEM32..=COMPACT64 => record.read_system(bytes),
            EVENT32 | EVENT64 => record.read_event(bytes),
            FULL32 | FULL64 | INSTANCE32 | INSTANCE64 => record.read_classic(bytes),
            MESSAGE => record.read_message(bytes),
            _ => {}
        }
        record
    }
}

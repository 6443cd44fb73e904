//! Records of a buffer: the header kinds of `WMI_TRACE_PACKET`, without the payload's meaning.

use super::guid::Guid;
use crate::bytes::{u16_at, u32_at, u64_at};

/// Which header a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `SYSTEM_TRACE_HEADER`.
    System,
    /// `SYSTEM_TRACE_HEADER` without the two times.
    Compact,
    /// `PERFINFO_TRACE_HEADER`: neither process nor thread.
    PerfInfo,
    /// `EVENT_TRACE_HEADER`: a classic event.
    Full,
    /// `EVENT_INSTANCE_GUID_HEADER`: a classic event of an instance.
    Instance,
    /// `EVENT_HEADER`: manifest events and TraceLogging.
    Event,
    /// `MESSAGE_TRACE_HEADER`: WPP.
    Message,
    /// `TRACE_HEADER_TYPE_ERROR`.
    Error,
    /// `TIMED_TRACE_HEADER`.
    Timed,
}

/// Width of the pointers in a payload; the record's own marker tells, not the file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pointer {
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl Pointer {
    /// Bytes of one.
    pub const fn size(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// Which event a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// `HookId`: group in the high byte, opcode in the low one.
    Hook(u16),
    /// A classic event; the kernel's classes mean the same as its hooks.
    Classic {
        /// Event class.
        class: Guid,
        /// Its opcode.
        opcode: u8,
    },
    /// `EVENT_DESCRIPTOR`.
    Event {
        /// Provider.
        provider: Guid,
        /// Number of the event.
        id: u16,
        /// Its opcode.
        opcode: u8,
        /// Its task.
        task: u16,
        /// Its keywords.
        keyword: u64,
    },
    /// A WPP message.
    Message {
        /// GUID of the source file, if the message carries it.
        class: Option<Guid>,
        /// Number of the message.
        number: u16,
    },
    /// Nothing names it.
    None,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the file among those of the recording.
    pub file: u16,
    /// Number of the buffer in that file, from 0.
    pub buffer: u32,
    /// Offset in the unpacked buffer, its header included.
    pub at: u32,
}

/// One record; its parts lie in the buffer it was found in.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Which header it has.
    pub kind: Kind,
    /// Width of its pointers.
    pub pointer: Pointer,
    /// The buffer's processor; none in the header's buffer and where buffers mix processors.
    pub cpu: Option<u16>,
    /// Raw clock of the recording; of the record before it where it carries none.
    pub ts: i64,
    /// Thread, where the header has one.
    pub tid: Option<u32>,
    /// Process, where the header has one.
    pub pid: Option<u32>,
    /// Which event it is.
    pub id: Id,
    /// Version of the event's layout.
    pub version: u8,
    /// Performance counters, a `u64` each, as the configuration orders them.
    pub counters: &'a [u8],
    /// Extended items of an `EVENT_HEADER`.
    pub extended: Extended<'a>,
    /// What the event itself says.
    pub payload: &'a [u8],
    /// Bytes of header, counters, items and payload.
    pub size: u32,
    /// Where it lies.
    pub place: Place,
}

/// An extended item: `EVENT_HEADER_EXTENDED_DATA_ITEM` as it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// `EVENT_HEADER_EXT_TYPE_*`.
    pub kind: u16,
    /// Its data.
    pub data: &'a [u8],
}

/// `EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL`: field names and types of a TraceLogging event.
pub const EXT_SCHEMA: u16 = 11;
/// `EVENT_HEADER_EXT_TYPE_PROV_TRAITS`: name of a TraceLogging provider.
pub const EXT_TRAITS: u16 = 12;
/// `EVENT_HEADER_EXT_TYPE_PMC_COUNTERS`.
pub const EXT_COUNTERS: u16 = 8;

/// The extended items of a record, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extended<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Extended<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let (kind, size, total, more) = item_at(self.rest)?;
        let data = &self.rest[ITEM_HEADER..ITEM_HEADER + size];
        self.rest = if more { &self.rest[total..] } else { &[] };
        Some(Item { kind, data })
    }
}

#[inline(always)]
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

const ITEM_HEADER: usize = 8;

/// Type, data bytes, all bytes, whether another follows; `None` if it does not fit.
fn item_at(data: &[u8]) -> Option<(u16, usize, usize, bool)> {
    let (total, kind) = (u16_at(data, 0)?, u16_at(data, 2)?);
    let (flags, size) = (u16_at(data, 4)?, usize::from(u16_at(data, 6)?));
    let total = match usize::from(total) {
        0..ITEM_HEADER => ITEM_HEADER + size.next_multiple_of(8),
        total => total,
    };
    let fits = total <= data.len() && ITEM_HEADER + size <= total;
    fits.then_some((kind, size, total, flags & 1 != 0))
}

/// Splits the bytes behind an `EVENT_HEADER` into its items and the payload.
fn split_items(data: &[u8]) -> Option<(Extended<'_>, &[u8])> {
    let mut at = 0;
    loop {
        let (_, _, total, more) = item_at(data.get(at..)?)?;
        at += total;
        if !more {
            return Some((Extended { rest: data.get(..at)? }, data.get(at..)?));
        }
    }
}

/// Why the bytes at a place are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No header begins so.
    Marker,
    /// A size that its header or the buffer does not allow.
    Size,
    /// Its extended items do not fit into it; the record's size does.
    Items {
        /// Bytes up to the next record.
        stride: usize,
    },
}

impl Fault {
    /// As `problem` says it.
    pub fn what(self) -> &'static str {
        match self {
            Self::Marker => "bytes that are no record",
            Self::Size => "a record whose size cannot be",
            Self::Items { .. } => "a record whose extended items do not fit into it",
        }
    }
}

/// What is needed of a record to step over it and to put it in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Low byte of the marker's type: one of the `TRACE_HEADER_TYPE_*`.
    form: u8,
    /// Bytes without padding.
    pub size: u32,
    /// Raw time; that of the record before it where it carries none.
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
const PERFINFO64: u8 = 17;
const EVENT32: u8 = 18;
const EVENT64: u8 = 19;
const FULL64: u8 = 20;
const INSTANCE64: u8 = 21;

/// How a header is laid out.
#[derive(Clone, Copy)]
struct Layout {
    /// Its bytes; 0: no such type.
    bytes: u8,
    /// Where its time lies; 0: it has none.
    time: u8,
    /// Bits of its first eight bytes below its size.
    size_shift: u8,
    /// What follows it is told by its first word: [`EXTENDED_PERFINFO`], [`EXTENDED_EVENT`].
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
const EVENT_TRACE: u8 = 0xc0;
/// The same byte of a WPP message.
const WPP: u8 = 0x90;
/// The same byte of a `TIMED_TRACE_HEADER`.
const TIMED_TRACE: u8 = 0xb0;
/// In the `Version` of a perfinfo header: a `u64` PEBS index follows it.
const HAS_PEBS: u16 = 0x8000;
/// The same: number of counters that follow it.
const COUNTERS: u16 = 0x700;
/// `EVENT_HEADER.Flags`: extended items follow the header.
const HAS_ITEMS: u16 = 1;

impl Head {
    /// A head that was taken apart by [`Head::form_and_size`].
    #[inline(always)]
    pub(super) fn of(form: u8, size: u16, ts: i64) -> Self {
        Self { form, size: u32::from(size), ts }
    }

    /// The marker's type, under 32, and the size.
    #[inline(always)]
    pub(super) fn form_and_size(&self) -> (u8, u16) {
        (self.form, self.size as u16)
    }

    /// The head of the record at a place in a buffer's records, if it is of the usual kinds:
    /// one with a time, and nothing between header and payload.
    #[inline(always)]
    pub(super) fn usual(records: &[u8], at: usize) -> Option<Self> {
        let word = u64_at(records, at)?;
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
            && usize::from(size) <= records.len() - at
            && !extends;
        let ts = u64_at(records, at + usize::from(layout.time))?;
        usual.then_some(Self { form, size: u32::from(size), ts: ts.cast_signed() })
    }

    /// The head of the record at a place in a buffer's records; `before` is the time of the
    /// record before it.
    ///
    /// # Errors
    /// The bytes there are no record that ends in `records`.
    #[inline(never)]
    pub fn at(records: &[u8], at: usize, before: i64) -> Result<Self, Fault> {
        let word = u64_at(records, at).ok_or(Fault::Size)?;
        let form = match ((word >> 24) as u8, (word >> 16) as u8) {
            (WPP, _) => MESSAGE,
            (TIMED_TRACE, _) => TIMED,
            (flags, form) if flags & EVENT_TRACE == EVENT_TRACE => form,
            _ => return Err(Fault::Marker),
        };
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
        let head = Self { form, size: u32::from(size), ts: ts.unwrap_or(before) };
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

    /// The hook of a system, compact or perfinfo record at that place.
    #[inline(always)]
    pub fn hook(&self, records: &[u8], at: usize) -> Option<u16> {
        match self.form {
            SYSTEM32..=COMPACT64 | PERFINFO32 | PERFINFO64 => u16_at(records, at + 6),
            _ => None,
        }
    }

    /// The class of a classic event or the provider of a manifest event at that place.
    #[inline(always)]
    pub fn guid(&self, records: &[u8], at: usize) -> Option<Guid> {
        match self.form {
            FULL32 | FULL64 | INSTANCE32 | INSTANCE64 | EVENT32 | EVENT64 => {
                Guid::at(records, at + 24)
            }
            _ => None,
        }
    }

    /// Which header it has.
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

    /// The record whose head this is; `records` and `at` as for [`Head::at`].
    #[inline(always)]
    pub fn record<'a>(
        &self,
        records: &'a [u8],
        at: usize,
        (cpu, place): (Option<u16>, Place),
    ) -> Record<'a> {
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
            PERFINFO32 | PERFINFO64 => record.read_perfinfo(bytes),
            SYSTEM32..=COMPACT64 => record.read_system(bytes),
            EVENT32 | EVENT64 => record.read_event(bytes),
            FULL32 | FULL64 | INSTANCE32 | INSTANCE64 => record.read_classic(bytes),
            MESSAGE => record.read_message(bytes),
            _ => {}
        }
        record
    }
}

impl<'a> Record<'a> {
    #[inline(always)]
    fn read_perfinfo(&mut self, bytes: &'a [u8]) {
        let version = u16_at(bytes, 0).unwrap_or_default();
        self.id = Id::Hook(u16_at(bytes, 6).unwrap_or_default());
        self.version = version as u8;
        let counters = 16 + 8 * usize::from(version & HAS_PEBS != 0);
        let payload = counters + 8 * usize::from(version >> 8 & 7);
        self.counters = bytes.get(counters..payload).unwrap_or_default();
        self.payload = bytes.get(payload..).unwrap_or_default();
    }

    #[inline(always)]
    fn read_system(&mut self, bytes: &'a [u8]) {
        self.id = Id::Hook(u16_at(bytes, 6).unwrap_or_default());
        self.version = byte(bytes, 0);
        self.tid = u32_at(bytes, 8);
        self.pid = u32_at(bytes, 12);
        let header = if self.kind == Kind::System { 32 } else { 24 };
        self.payload = bytes.get(header..).unwrap_or_default();
    }

    #[inline(never)]
    fn read_classic(&mut self, bytes: &'a [u8]) {
        self.tid = u32_at(bytes, 8);
        self.pid = u32_at(bytes, 12);
        self.version = u16_at(bytes, 6).unwrap_or_default() as u8;
        if let Some(class) = Guid::at(bytes, 24) {
            self.id = Id::Classic { class, opcode: byte(bytes, 4) };
        }
        let header = if self.kind == Kind::Full { 48 } else { 72 };
        self.payload = bytes.get(header..).unwrap_or_default();
    }

    #[inline(never)]
    fn read_event(&mut self, bytes: &'a [u8]) {
        self.tid = u32_at(bytes, 8);
        self.pid = u32_at(bytes, 12);
        self.version = byte(bytes, 42);
        if let Some(provider) = Guid::at(bytes, 24) {
            self.id = Id::Event {
                provider,
                id: u16_at(bytes, 40).unwrap_or_default(),
                opcode: byte(bytes, 45),
                task: u16_at(bytes, 46).unwrap_or_default(),
                keyword: u64_at(bytes, 48).unwrap_or_default(),
            };
        }
        let rest = bytes.get(80..).unwrap_or_default();
        if u16_at(bytes, 4).unwrap_or_default() & HAS_ITEMS == 0 {
            self.payload = rest;
            return;
        }
        (self.extended, self.payload) = split_items(rest).unwrap_or_default();
        let mut items = self.extended;
        if let Some(counters) = items.find(|item| item.kind == EXT_COUNTERS) {
            self.counters = counters.data;
        }
    }

    #[inline(never)]
    fn read_message(&mut self, bytes: &'a [u8]) {
        let Some(parts) = MessageParts::of(bytes) else { return };
        self.id = Id::Message { class: parts.class, number: parts.number };
        self.pointer = parts.pointer;
        (self.tid, self.pid) = (parts.tid, parts.pid);
        self.payload = bytes.get(parts.payload..).unwrap_or_default();
    }

    /// Performance counter number `n` of the configuration's order, if this record carries it.
    #[inline]
    pub fn counter(&self, n: usize) -> Option<u64> {
        u64_at(self.counters, n.checked_mul(8)?)
    }
}

/// `TRACE_MESSAGE_*`: what a WPP message carries, in this order.
struct MessageParts {
    number: u16,
    class: Option<Guid>,
    ts: Option<i64>,
    tid: Option<u32>,
    pid: Option<u32>,
    pointer: Pointer,
    payload: usize,
}

impl MessageParts {
    fn of(bytes: &[u8]) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { file: 0, buffer: 3, at: 72 };

    fn read(bytes: &[u8]) -> Record<'_> {
        let head = Head::at(bytes, 0, 7).expect("a record");
        assert_eq!(head.size as usize, bytes.len());
        if let Some(usual) = Head::usual(bytes, 0) {
            assert_eq!(usual, head);
        }
        head.record(bytes, 0, (Some(3), PLACE))
    }

    fn bytes(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16))
            .collect::<Result<_, _>>()
            .expect("hex")
    }

    #[test]
    fn perfinfo_counters_and_pebs_lie_before_the_payload() {
        // Version 4, two counters, 64 bit, size 36, hook 0524.
        let two = bytes(
            "0402 11c0 2400 2405 0100000000000000 380f000000000000 b824000000000000 e9000000",
        );
        let record = read(&two);
        assert_eq!(
            (record.kind, record.pointer, record.version),
            (Kind::PerfInfo, Pointer::Eight, 4)
        );
        assert_eq!((record.id, record.ts, record.cpu), (Id::Hook(0x524), 1, Some(3)));
        assert_eq!((record.tid, record.pid), (None, None));
        assert_eq!(
            (record.counter(0), record.counter(1), record.counter(2)),
            (Some(0xf38), Some(0x24b8), None)
        );
        assert_eq!(record.payload, [0xe9, 0, 0, 0]);
        let pebs = bytes(
            "0481 10c0 2400 2405 0100000000000000 ffffffffffffffff 0500000000000000 e9000000",
        );
        let record = read(&pebs);
        assert_eq!(
            (record.pointer, record.counter(0), record.counter(1)),
            (Pointer::Four, Some(5), None)
        );
        assert_eq!(record.payload, [0xe9, 0, 0, 0]);
    }

    #[test]
    fn system_and_compact_headers_differ_in_two_times() {
        let system =
            bytes("0200 02c0 2100 3205 0500000004000000 0900000000000000 0300000004000000 aa");
        let compact = bytes("0200 03c0 1900 3205 0500000004000000 0900000000000000 aa");
        for (bytes, kind, pointer) in
            [(&system, Kind::System, Pointer::Eight), (&compact, Kind::Compact, Pointer::Four)]
        {
            let record = read(bytes);
            assert_eq!((record.kind, record.pointer, record.id), (kind, pointer, Id::Hook(0x532)));
            assert_eq!(
                (record.tid, record.pid, record.ts, record.version),
                (Some(5), Some(4), 9, 2)
            );
            assert_eq!(record.payload, [0xaa]);
        }
    }

    #[test]
    fn classic_headers_carry_class_and_opcode() {
        let class = "d0a86f3d05fed0119dda00c04fd7ba7c";
        let full = bytes(&format!(
            "3200 14c0 03000400 05000000 04000000 0900000000000000 {class} 0000000000000000 aabb"
        ));
        let record = read(&full);
        let class = Guid::from_text_order(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c);
        assert_eq!((record.kind, record.id), (Kind::Full, Id::Classic { class, opcode: 3 }));
        assert_eq!((record.version, record.tid, record.pid, record.ts), (4, Some(5), Some(4), 9));
        assert_eq!(record.payload, [0xaa, 0xbb]);
        let mut instance = full.clone();
        instance[0] = 0x4a;
        instance[2] = 11;
        instance.splice(48..48, [0; 24]);
        let record = read(&instance);
        assert_eq!(
            (record.kind, record.pointer, record.payload),
            (Kind::Instance, Pointer::Four, &[0xaa, 0xbb][..])
        );
    }

    fn event(items: &str) -> Vec<u8> {
        let provider = "9efe670f51ff6e4eb4906f2948cc6027".to_owned();
        let head = format!(
            "0000 13c0 01000000 05000000 04000000 0900000000000000 {provider} 0a00 02 00 04 01 0700 0800000000000000"
        );
        let mut event = bytes(&(head + &"00".repeat(24) + items));
        event[0] = event.len() as u8;
        event
    }

    #[test]
    fn extended_items_lie_between_header_and_payload() {
        let event = event(
            "1800 0800 0100 1000 01000000000000000200000000000000 1000 0c00 0000 0300 616200 0000000000 ff",
        );
        let record = read(&event);
        let provider = Guid::from_text_order(0x0f67fe9e_ff51_4e6e_b490_6f2948cc6027);
        assert_eq!(record.id, Id::Event { provider, id: 10, opcode: 1, task: 7, keyword: 8 });
        assert_eq!((record.version, record.payload), (2, &[0xff][..]));
        assert_eq!((record.counter(0), record.counter(1)), (Some(1), Some(2)));
        let kinds: Vec<_> = record.extended.map(|item| (item.kind, item.data.len())).collect();
        assert_eq!(kinds, [(EXT_COUNTERS, 16), (EXT_TRAITS, 3)]);
    }

    #[test]
    fn items_that_do_not_fit_are_refused() {
        for items in ["1000 0c00 0000 1000 00000000", "0800 0c00 0100 0000", "ff00 0c00 0000 0000"]
        {
            let event = event(items);
            let stride = event.len().next_multiple_of(8);
            assert_eq!(Head::at(&event, 0, 7).err(), Some(Fault::Items { stride }), "{items}");
        }
    }

    #[test]
    fn messages_carry_what_their_flags_say() {
        let message =
            bytes("2200 0090 0c00 2900 01000000 0900000000000000 05000000 04000000 aabbccddeeff");
        let record = read(&message);
        assert_eq!(
            (record.kind, record.id),
            (Kind::Message, Id::Message { class: None, number: 12 })
        );
        assert_eq!((record.ts, record.tid, record.pid), (9, Some(5), Some(4)));
        assert_eq!(record.payload.len(), 6);
        let bare = bytes("0800 0090 0c00 0000");
        assert_eq!(read(&bare).ts, 7);
    }

    #[test]
    fn sizes_and_markers_that_cannot_be_are_refused() {
        let fault = |text: &str| {
            assert_eq!(Head::usual(&bytes(text), 0), None);
            Head::at(&bytes(text), 0, 7).err()
        };
        assert_eq!(fault("0402 11c0 1000 2405 0100000000000000"), Some(Fault::Size));
        assert_eq!(fault("0400 11c0 4000 2405 0100000000000000"), Some(Fault::Size));
        assert_eq!(fault("0400 11c0 1000"), Some(Fault::Size));
        assert_eq!(fault("ffffffff ffffffff"), Some(Fault::Marker));
        assert_eq!(fault("0000000000000000"), Some(Fault::Marker));
        assert_eq!(fault("1000 63c0 00000000"), Some(Fault::Marker));
        assert_eq!(fault("0400 0090 0c00 0000"), Some(Fault::Size));
        assert_eq!(fault("0800 0090 0c00 0800"), Some(Fault::Size));
    }
}

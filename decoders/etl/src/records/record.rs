//! Records of a buffer, with any header kind. This module does not interpret payloads.

use schedlens_input::bytes::{u16_at, u32_at, u64_at};

use crate::guid::Guid;
use crate::records::message::MessageParts;
use crate::records::names::{Id, Kind, Place, Pointer};

/// One record, borrowed from its buffer.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its header kind.
    pub kind: Kind,
    /// Width of its pointers.
    pub pointer: Pointer,
    /// The buffer's processor; none in the header's buffer and in buffers that mix processors.
    pub cpu: Option<u16>,
    /// Raw clock of the recording; that of the previous record if it has none.
    pub ts: i64,
    /// Thread, if the header has one.
    pub tid: Option<u32>,
    /// Process, if the header has one.
    pub pid: Option<u32>,
    /// Its event.
    pub id: Id,
    /// Version of the event's layout.
    pub version: u8,
    /// Performance counters, a `u64` each, in the order of the configuration.
    pub counters: &'a [u8],
    /// Extended items of an `EVENT_HEADER`.
    pub extended: Extended<'a>,
    /// The payload.
    pub payload: &'a [u8],
    /// Size of header, counters, items and payload.
    pub size: u32,
    /// Its position.
    pub place: Place,
}

/// `EVENT_HEADER.Flags`: extended items follow the header.
pub(crate) const HAS_ITEMS: u16 = 1;

/// An extended item: `EVENT_HEADER_EXTENDED_DATA_ITEM` as stored in the file.
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

/// The extended items of a record.
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

/// Splits the bytes after an `EVENT_HEADER` into its items and the payload.
pub(crate) fn split_items(data: &[u8]) -> Option<(Extended<'_>, &[u8])> {
    let mut at = 0;
    loop {
        let (_, _, total, more) = item_at(data.get(at..)?)?;
        at += total;
        if !more {
            return Some((Extended { rest: data.get(..at)? }, data.get(at..)?));
        }
    }
}

impl<'a> Record<'a> {
    #[inline(always)]
    pub(crate) fn read_system(&mut self, bytes: &'a [u8]) {
        self.id = Id::Hook(u16_at(bytes, 6).unwrap_or_default());
        self.version = byte(bytes, 0);
        self.tid = u32_at(bytes, 8);
        self.pid = u32_at(bytes, 12);
        let header = if self.kind == Kind::System { 32 } else { 24 };
        self.payload = bytes.get(header..).unwrap_or_default();
    }

    #[inline(never)]
    pub(crate) fn read_classic(&mut self, bytes: &'a [u8]) {
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
    pub(crate) fn read_event(&mut self, bytes: &'a [u8]) {
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
    pub(crate) fn read_message(&mut self, bytes: &'a [u8]) {
        let Some(parts) = MessageParts::of(bytes) else { return };
        self.id = Id::Message { class: parts.class, number: parts.number };
        self.pointer = parts.pointer;
        (self.tid, self.pid) = (parts.tid, parts.pid);
        self.payload = bytes.get(parts.payload..).unwrap_or_default();
    }

    /// Performance counter number `n` in the configuration's order, if this record contains it.
    #[inline]
    pub fn counter(&self, n: usize) -> Option<u64> {
        u64_at(self.counters, n.checked_mul(8)?)
    }
}

//! Buffers: filled per CPU, flushed in any order, compressed or not.

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};

use super::{lznt1, xpress};
use crate::bytes::Bytes;
use crate::error::WriteError;
use crate::layout::{Compression, EtlOptions};
use crate::random::Random;

/// `sizeof(WMI_BUFFER_HEADER)`
pub(super) const HEADER: usize = 0x48;

/// `ETW_BUFFER_FLAG_*`
pub(super) const FLUSH_MARKER: u16 = 1;
pub(super) const EVENTS_LOST: u16 = 2;
pub(super) const BUFFER_LOST: u16 = 4;
const PROCESSOR_INDEX: u16 = 0x20;
const COMPRESSED: u16 = 0x40;

/// `EtwBufferStateFlush`
const STATE_FLUSH: u32 = 3;
const TYPE_GENERIC: u16 = 0;
const TYPE_HEADER: u16 = 4;

/// Buffers that wait for their turn when the order is shuffled.
const WAITING: usize = 16;

#[derive(Default)]
struct Filling {
    records: Vec<u8>,
    flags: u16,
    last_ticks: i64,
}

/// All buffers of a file but the first.
pub(super) struct Buffers<W> {
    out: W,
    options: EtlOptions,
    filling: BTreeMap<u16, Filling>,
    waiting: Vec<Vec<u8>>,
    random: Random,
    sequence: i64,
    flushed: u32,
}

impl<W: Write + Seek> Buffers<W> {
    /// Leaves room for the header buffer.
    pub(super) fn new(mut out: W, options: EtlOptions) -> Result<Self, WriteError> {
        out.write_all(&vec![0xFF; options.buffer_size as usize])?;
        let random = Random::new(options.shuffle.unwrap_or_default());
        let (filling, waiting) = (BTreeMap::new(), Vec::new());
        Ok(Self { out, options, filling, waiting, random, sequence: 1, flushed: 0 })
    }

    fn room(&self) -> usize {
        self.options.buffer_size as usize - HEADER
    }

    /// Appends a record to its CPU's buffer.
    pub(super) fn put(&mut self, cpu: u16, ticks: i64, record: &[u8]) -> Result<(), WriteError> {
        let (room, size) = (self.room(), record.len().next_multiple_of(8));
        if size > room {
            let what = format!("a record of {size} bytes does not fit into a buffer of {room}");
            return Err(WriteError::Value(what));
        }
        if self.filling.get(&cpu).is_some_and(|filling| filling.records.len() + size > room) {
            self.flush(cpu, 0)?;
        }
        let filling = self.filling.entry(cpu).or_default();
        filling.records.extend_from_slice(record);
        filling.records.resize(filling.records.len().next_multiple_of(8), 0);
        filling.last_ticks = ticks;
        Ok(())
    }

    /// Closes the buffer of a CPU; one without records is not written.
    pub(super) fn flush(&mut self, cpu: u16, flags: u16) -> Result<(), WriteError> {
        let Some(filling) = self.filling.get_mut(&cpu).filter(|f| !f.records.is_empty()) else {
            return Ok(());
        };
        let filling = std::mem::take(filling);
        let sequence = self.sequence;
        self.sequence += 1;
        let place = Place { cpu, sequence, ticks: filling.last_ticks + 10 };
        let flags = filling.flags | flags;
        let encoded = encode(&self.options, place, (flags, TYPE_GENERIC), &filling.records);
        self.waiting.push(encoded);
        if self.options.shuffle.is_none() || self.waiting.len() >= WAITING {
            self.write_one()?;
        }
        Ok(())
    }

    /// A buffer of that CPU is lost: the next one says so, and a sequence number is missing.
    pub(super) fn lose_buffer(&mut self, cpu: u16) -> Result<(), WriteError> {
        self.flush(cpu, 0)?;
        self.sequence += 1;
        self.filling.entry(cpu).or_default().flags |= BUFFER_LOST;
        Ok(())
    }

    /// Events of that CPU are lost: the next buffer says so.
    pub(super) fn lose_events(&mut self, cpu: u16) -> Result<(), WriteError> {
        self.flush(cpu, 0)?;
        self.filling.entry(cpu).or_default().flags |= EVENTS_LOST;
        Ok(())
    }

    fn write_one(&mut self) -> Result<(), WriteError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let pick =
            if self.options.shuffle.is_some() { self.random.below(self.waiting.len()) } else { 0 };
        let buffer = self.waiting.swap_remove(pick);
        if let Some(slots) = self.options.circular {
            let slot = u64::from(self.flushed % slots.max(1)) + 1;
            self.out.seek(SeekFrom::Start(slot * u64::from(self.options.buffer_size)))?;
        }
        self.out.write_all(&buffer)?;
        self.flushed += 1;
        Ok(())
    }

    /// Flushes what is left; the number of buffers in the file, the header's included.
    pub(super) fn flush_all(&mut self) -> Result<u32, WriteError> {
        let cpus: Vec<u16> = self.filling.keys().copied().collect();
        for cpu in cpus {
            self.flush(cpu, FLUSH_MARKER)?;
        }
        while !self.waiting.is_empty() {
            self.write_one()?;
        }
        Ok(1 + self.options.circular.map_or(self.flushed, |slots| self.flushed.min(slots)))
    }

    /// Writes the header buffer over the room left for it, and gives the file back.
    pub(super) fn finish(mut self, records: &[u8], last_ticks: i64) -> Result<W, WriteError> {
        if records.len() > self.room() {
            return Err(WriteError::Value("the header does not fit into a buffer".to_owned()));
        }
        let plain = EtlOptions { compression: Compression::None, ..self.options.clone() };
        let place = Place { cpu: 0, sequence: 0, ticks: last_ticks };
        let mut header = encode(&plain, place, (FLUSH_MARKER, TYPE_HEADER), records);
        // A merged file keeps the compression format in the state of its first buffer, and its
        // SavedOffset is that of the first record alone.
        let state = match (self.options.compression, self.options.merged) {
            (Compression::Lznt1, _) => 2,
            (Compression::Xpress, _) => 3,
            (Compression::None, true) => 0,
            (Compression::None, false) => STATE_FLUSH,
        };
        header[0x2C..0x30].copy_from_slice(&state.to_le_bytes());
        if let (true, [_, _, _, _, low, high, ..]) = (self.options.merged, records) {
            let first = usize::from(u16::from_le_bytes([*low, *high])).next_multiple_of(8);
            header[0x04..0x08].copy_from_slice(&((HEADER + first) as u32).to_le_bytes());
        }
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Fields of a buffer's header.
#[derive(Clone, Copy)]
struct Place {
    cpu: u16,
    sequence: i64,
    ticks: i64,
}

fn encode(options: &EtlOptions, place: Place, (flags, kind): (u16, u16), data: &[u8]) -> Vec<u8> {
    let valid = (HEADER + data.len()) as u32;
    let packed = match options.compression {
        Compression::None => None,
        Compression::Lznt1 => Some(lznt1::compress(data)),
        Compression::Xpress => Some(xpress::compress(data)),
    };
    let size = packed.as_ref().map_or(options.buffer_size, |packed| (HEADER + packed.len()) as u32);
    let mut flags = flags;
    if packed.is_some() {
        flags |= COMPRESSED;
    }
    let context = if options.wide_index {
        flags |= PROCESSOR_INDEX;
        place.cpu & 0x7FF
    } else {
        // ETW_BUFFER_CONTEXT: ProcessorNumber and Alignment
        (place.cpu & 0xFF) | 8 << 8
    };
    let ticks = if options.merged { super::writer::MERGE_TIME } else { place.ticks };
    let mut out = Bytes(Vec::with_capacity(size as usize));
    out.u32(size).u32(valid).u32(valid).u32(0).i64(ticks).i64(place.sequence).u64(0);
    out.u16(context).u16(if options.merged { 0 } else { 5 });
    out.u32(STATE_FLUSH).u32(valid).u16(flags).u16(kind).zeros(16);
    match packed {
        Some(packed) => out.raw(&packed),
        None => out.raw(data),
    };
    out.0.resize(size as usize, 0xFF);
    out.0
}

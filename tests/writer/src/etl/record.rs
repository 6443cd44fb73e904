//! Record headers.

use crate::bytes::{Bytes, Guid};
use crate::error::WriteError;
use crate::event::Header;

/// `TRACE_HEADER_FLAG | TRACE_HEADER_EVENT_TRACE`
const MARKER: u8 = 0xC0;

/// When a record was written, and by whom.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    /// Raw clock.
    pub(super) ticks: i64,
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// `EVENT_DESCRIPTOR`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Descriptor {
    pub(super) id: u16,
    pub(super) version: u8,
    pub(super) channel: u8,
    pub(super) level: u8,
    pub(super) opcode: u8,
    pub(super) task: u16,
    pub(super) keyword: u64,
}

impl Descriptor {
    /// Appends its 16 bytes.
    pub(super) fn write(&self, out: &mut Bytes) {
        out.u16(self.id).u8(self.version).u8(self.channel).u8(self.level).u8(self.opcode);
        out.u16(self.task).u64(self.keyword);
    }
}

/// A kernel record: hook and version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel<'a> {
    pub(super) header: Header,
    pub(super) hook: u16,
    pub(super) version: u8,
    /// Running values of performance counters (`Header::Perfinfo` alone).
    pub(super) counters: &'a [u64],
}

/// Appends one record; `pointer` is 8 or 4.
pub(super) fn kernel(
    out: &mut Bytes,
    pointer: usize,
    kind: Kernel<'_>,
    stamp: Stamp,
    payload: &[u8],
) -> Result<(), WriteError> {
    let wide = u8::from(pointer == 8);
    if !kind.counters.is_empty() && (kind.header != Header::Perfinfo || kind.counters.len() > 7) {
        let what = "counters need a perfinfo header, and at most 7 fit into it";
        return Err(WriteError::Value(what.to_owned()));
    }
    let version = u16::from(kind.version);
    match kind.header {
        Header::Perfinfo => {
            let size = size_of(16 + 8 * kind.counters.len() + payload.len())?;
            out.u16(version | (kind.counters.len() as u16) << 8).u8(16 + wide).u8(MARKER);
            out.u16(size).u16(kind.hook).i64(stamp.ticks);
            for value in kind.counters {
                out.u64(*value);
            }
        }
        Header::System => {
            let size = size_of(32 + payload.len())?;
            out.u16(version).u8(1 + wide).u8(MARKER).u16(size).u16(kind.hook);
            out.u32(stamp.tid).u32(stamp.pid).i64(stamp.ticks).u32(0).u32(0);
        }
        Header::Compact => {
            let size = size_of(24 + payload.len())?;
            out.u16(version).u8(3 + wide).u8(MARKER).u16(size).u16(kind.hook);
            out.u32(stamp.tid).u32(stamp.pid).i64(stamp.ticks);
        }
        Header::Full => {
            let class = class(kind.hook)?;
            let opcode = kind.hook as u8;
            return classic(out, pointer, (&class, opcode, kind.version), stamp, payload);
        }
    }
    out.raw(payload);
    Ok(())
}

/// Appends a classic record of that class, opcode and version.
pub(super) fn classic(
    out: &mut Bytes,
    pointer: usize,
    (class, opcode, version): (&Guid, u8, u8),
    stamp: Stamp,
    payload: &[u8],
) -> Result<(), WriteError> {
    let size = size_of(48 + payload.len())?;
    out.u16(size).u8(if pointer == 8 { 20 } else { 10 }).u8(MARKER);
    out.u8(opcode).u8(0).u16(u16::from(version));
    out.u32(stamp.tid).u32(stamp.pid).i64(stamp.ticks).raw(class).u32(0).u32(0).raw(payload);
    Ok(())
}

/// Appends a manifest event of that provider.
pub(super) fn event(
    out: &mut Bytes,
    pointer: usize,
    (provider, descriptor): (&Guid, Descriptor),
    stamp: Stamp,
    payload: &[u8],
) -> Result<(), WriteError> {
    let size = size_of(80 + payload.len())?;
    out.u16(size).u8(if pointer == 8 { 19 } else { 18 }).u8(MARKER).u16(0).u16(0);
    out.u32(stamp.tid).u32(stamp.pid).i64(stamp.ticks).raw(provider);
    descriptor.write(out);
    out.u64(0).zeros(16).raw(payload);
    Ok(())
}

fn size_of(size: usize) -> Result<u16, WriteError> {
    u16::try_from(size)
        .map_err(|_| WriteError::Value(format!("a record of {size} bytes: at most 65535 fit")))
}

/// Class of a hook's group: the classic GUID of its events.
fn class(hook: u16) -> Result<Guid, WriteError> {
    let text = match hook >> 8 {
        0x00 => "68fdd900-4a3e-11d1-84f4-0000f80464e3",
        0x03 => "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c",
        0x05 => "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c",
        0x0B => "01853a65-418f-4f36-aefc-dc0f1d2fd235",
        0x0F => "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc",
        0x12 => "e43445e0-0903-48c3-b878-ff0fccebdd04",
        0x14 => "2cb15d1d-5fc1-11d2-abe1-00a0c911f518",
        0x18 => "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3",
        group => {
            return Err(WriteError::Value(format!("group {group:#04x} has no class here")));
        }
    };
    crate::bytes::guid(text).ok_or_else(|| WriteError::Value(format!("{text} is not a GUID")))
}

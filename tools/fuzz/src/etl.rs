//! Windows logs: the container, the compression formats, and the decoders of events.

use std::sync::OnceLock;

use schedlens_etl::facts::decoded;
use schedlens_etl::payload::known;
use schedlens_etl::{Guid, Log, Packing, Recording, fuzzing};
use schedlens_input::event::Wanted;

use crate::bytes::{Bytes, one_in_eight};
use crate::loaded;

/// Size of a `WMI_BUFFER_HEADER`.
const BUFFER_HEADER: usize = 0x48;
const BUFFER_SIZE: u32 = 1 << 16;
/// The largest result of unpacking that is tried.
const MOST_UNPACKED: usize = 1 << 16;

fn log(bytes: Vec<u8>) -> Option<Log> {
    Log::from_bytes("fuzz.etl", bytes).ok()
}

/// A whole file.
pub fn file(data: &[u8]) {
    let Some(whole) = log(data.to_vec()) else { return };
    fuzzing::records(whole);
    let Some(whole) = log(data.to_vec()) else { return };
    decoded::events(whole, &Wanted::default(), |event| !event.json().is_empty());
}

/// Records in buffers whose headers are sound.
pub fn buffers(data: &[u8]) {
    let bytes = with_buffers(data);
    let Some(whole) = log(bytes) else { panic!("a sound header is refused") };
    decoded::events(whole, &Wanted::default(), |event| !event.csv().is_empty());
}

/// The same, through the reader of the base tables and the state machine.
pub fn schedule(data: &[u8]) {
    let Some(whole) = log(with_buffers(data)) else { return };
    let recording = Recording::of(whole, |_, _| true);
    if one_in_eight(data) {
        recording.inspect();
    }
    loaded::check(&recording);
}

/// An archive of logs, without the first four bytes.
pub fn archive(data: &[u8]) {
    if let Some(logs) = log([b"PK\x03\x04", data].concat()) {
        fuzzing::records(logs);
    }
}

/// A log: a header, then a buffer for each part of the data, which is preceded by its length, CPU
/// and flags.
fn with_buffers(data: &[u8]) -> Vec<u8> {
    let mut data = Bytes(data);
    let mode = data.u8();
    let mut file = header(mode);
    let mut sequence = 1;
    while !data.is_empty() {
        let (cpu, flags) = (data.u8(), data.u8());
        let records = data.part();
        sequence += 1 + u64::from(flags >> 7);
        let place = (cpu & 3, sequence, u16::from(flags & 6));
        buffer(records, place, 0, &mut file);
    }
    file
}

fn header(mode: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend(BUFFER_SIZE.to_le_bytes());
    payload.extend([10, 0, 1, 5]);
    for word in [26_100, 4_u32] {
        payload.extend(word.to_le_bytes());
    }
    payload.extend(133_900_000_000_000_000_u64.to_le_bytes());
    let closed = u32::from(mode & 1 == 0);
    for word in [156_250, 0, 1, closed * 4, 1, 8, 0, 3000_u32] {
        payload.extend(word.to_le_bytes());
    }
    payload.resize(248, 0);
    for long in [0, 10_000_000, 133_900_000_000_000_000_u64] {
        payload.extend(long.to_le_bytes());
    }
    let clock = 1 + u32::from(mode >> 1) % 3;
    payload.extend(clock.to_le_bytes());
    payload.extend([0; 8]);
    let mut record = vec![2, 0, 2, 0xc0];
    record.extend((32 + payload.len() as u16).to_le_bytes());
    record.extend([0; 10]);
    record.extend(1_000_000_u64.to_le_bytes());
    record.extend([0; 8]);
    record.extend(payload);
    let mut file = Vec::new();
    buffer(&record, (0, 0, 0), 4, &mut file);
    file
}

/// A `WMI_BUFFER_HEADER` and its records; each buffer of the file is as long as its records.
fn buffer(records: &[u8], (cpu, sequence, flags): (u8, u64, u16), kind: u16, file: &mut Vec<u8>) {
    let size = ((BUFFER_HEADER + records.len()).next_multiple_of(8)) as u32;
    let filled = (BUFFER_HEADER + records.len()) as u32;
    let from = file.len();
    file.resize(from + BUFFER_HEADER, 0);
    let header = &mut file[from..];
    header[0..4].copy_from_slice(&size.to_le_bytes());
    header[0x18..0x20].copy_from_slice(&sequence.to_le_bytes());
    header[0x28] = cpu;
    header[0x2c] = 3;
    header[0x30..0x34].copy_from_slice(&filled.to_le_bytes());
    header[0x34..0x36].copy_from_slice(&(flags | 0x20).to_le_bytes());
    header[0x36..0x38].copy_from_slice(&kind.to_le_bytes());
    file.extend(records);
    file.resize(from + size as usize, 0xff);
}

fn unpack(packing: Packing, data: &[u8]) {
    let mut data = Bytes(data);
    let want = usize::from(data.u16()).min(MOST_UNPACKED);
    let (found, whole) = fuzzing::unpack(packing, &[], data.0, want);
    assert!(found.len() <= want, "more bytes than wanted");
    assert!(!whole || found.len() == want, "complete, but too short");
    // Memory is reused between buffers and must not change the result.
    let half = &data.0[data.0.len() / 2..];
    let again = fuzzing::unpack(packing, &[half, data.0], data.0, want);
    assert!(again == (found, whole), "another result with reused memory");
}

/// `COMPRESSION_FORMAT_LZNT1`.
pub fn lznt1(data: &[u8]) {
    unpack(Packing::Lznt1, data);
}

/// `COMPRESSION_FORMAT_XPRESS`.
pub fn xpress(data: &[u8]) {
    unpack(Packing::Xpress, data);
}

/// `COMPRESSION_FORMAT_XPRESS_HUFF`.
pub fn xpress_huffman(data: &[u8]) {
    unpack(Packing::XpressHuffman, data);
}

/// The payload of any event of the kernel, by the rank of its hook or of its class.
pub fn kernel_event(data: &[u8]) {
    static NUMBERS: OnceLock<(Vec<u16>, Vec<(u32, u8)>)> = OnceLock::new();
    let (hooks, classes) = NUMBERS.get_or_init(known::numbers);
    let mut data = Bytes(data);
    let (rank, version) = (usize::from(data.u16()), data.u8());
    for pointer in [4, 8] {
        let found = if let Some(hook) = hooks.get(rank % (hooks.len() + classes.len())) {
            [
                known::hook(*hook, version, data.0, pointer),
                known::foreign_hook(*hook, version, data.0, pointer),
            ]
        } else {
            let (class, opcode) = classes[rank % classes.len()];
            [known::class(class, opcode, data.0, pointer), None]
        };
        for (_, fields) in found.into_iter().flatten() {
            fields.json();
        }
    }
}

/// `TRACE_EVENT_INFO` and a payload.
pub fn event_info(data: &[u8]) {
    let mut data = Bytes(data);
    let info = data.part();
    for pointer in [4, 8] {
        if let Some(fields) = fuzzing::event_info(info, data.0, pointer) {
            fields.json();
        }
    }
}

/// The manifest of an EventSource and a payload.
pub fn manifest(data: &[u8]) {
    let mut data = Bytes(data);
    let payload = data.part();
    let provider = Guid::from_text_order(0x01020304_0506_0708_090a_0b0c0d0e0f10);
    fuzzing::manifest(&String::from_utf8_lossy(data.0), provider, payload);
}

/// TraceLogging metadata and a payload.
pub fn tracelogging(data: &[u8]) {
    let mut data = Bytes(data);
    let metadata = data.part();
    for pointer in [4, 8] {
        if let Some(fields) = fuzzing::tracelogging(metadata, data.0, pointer) {
            fields.json();
        }
    }
}

/// The payload of WinSAT's record, and its XML.
pub fn winsat(data: &[u8]) {
    fuzzing::winsat_record(data);
    fuzzing::winsat(&String::from_utf8_lossy(data));
}

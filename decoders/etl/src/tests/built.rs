//! Logs built in code: buffers of records whose payload is one number.

use crate::container::buffer::HEADER;
use crate::{Chosen, Log, Scan};

/// Raw time of the header record.
pub(crate) const START: i64 = 1_000;
/// Buffer size in bytes.
pub(crate) const BUFFER: usize = 512;

/// A buffer: processor, sequence number, flags, times of its records.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    pub(crate) cpu: u16,
    pub(crate) sequence: i64,
    pub(crate) flags: u16,
    pub(crate) times: Vec<i64>,
}

impl Built {
    pub(crate) fn new(cpu: u16, sequence: i64, times: &[i64]) -> Self {
        Self { cpu, sequence, flags: 0, times: times.to_vec() }
    }

    pub(crate) fn flags(mut self, flags: u16) -> Self {
        self.flags = flags;
        self
    }
}

/// A perfinfo record, hook 0532, whose payload is its number.
pub(crate) fn record(ts: i64, number: u32) -> Vec<u8> {
    record_of(0x0532, ts, number)
}

fn record_of(hook: u16, ts: i64, number: u32) -> Vec<u8> {
    let mut bytes = vec![2, 0, 17, 0xc0, 20, 0];
    bytes.extend(hook.to_le_bytes());
    bytes.extend(ts.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.resize(24, 0);
    bytes
}

fn header_record(mode: u32, buffers: u32, closed: bool, lost: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend((BUFFER as u32).to_le_bytes());
    payload.extend([10, 0, 1, 5]);
    for word in [26_100, 4_u32] {
        payload.extend(word.to_le_bytes());
    }
    payload.extend(if closed { 133_900_000_000_000_000_u64 } else { 0 }.to_le_bytes());
    for word in [156_250, 0, mode, buffers, 1, 8, lost, 3000] {
        payload.extend(word.to_le_bytes());
    }
    payload.resize(248, 0);
    for long in [0, 10_000_000, 133_900_000_000_000_000_u64] {
        payload.extend(long.to_le_bytes());
    }
    payload.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let size = (32 + payload.len()) as u16;
    let mut bytes = vec![2, 0, 2, 0xc0];
    bytes.extend(size.to_le_bytes());
    bytes.extend([0; 10]);
    bytes.extend(START.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn buffer(records: &[u8], built: &Built, kind: u16) -> Vec<u8> {
    let filled = (HEADER + records.len()) as u32;
    let mut bytes = vec![0; HEADER];
    bytes[0..4].copy_from_slice(&(BUFFER as u32).to_le_bytes());
    bytes[0x18..0x20].copy_from_slice(&built.sequence.to_le_bytes());
    bytes[0x28..0x2a].copy_from_slice(&built.cpu.to_le_bytes());
    bytes[0x2c] = 3;
    bytes[0x30..0x34].copy_from_slice(&filled.to_le_bytes());
    bytes[0x34..0x36].copy_from_slice(&(built.flags | 0x20).to_le_bytes());
    bytes[0x36..0x38].copy_from_slice(&kind.to_le_bytes());
    bytes.extend(records);
    assert!(bytes.len() <= BUFFER, "too many records for a buffer");
    bytes.resize(BUFFER, 0xff);
    bytes
}

/// A log with these buffers after the first one; its records are numbered from 0.
pub(crate) fn log(mode: u32, closed: bool, lost: u32, buffers: &[Built]) -> Vec<u8> {
    let header = header_record(mode, buffers.len() as u32 + 1, closed, lost);
    let mut file = buffer(&header, &Built::new(0, 0, &[]), 4);
    let mut number = 0;
    for built in buffers {
        let mut records = Vec::new();
        for ts in &built.times {
            records.extend(record(*ts, number));
            number += 1;
        }
        file.extend(buffer(&records, built, 0));
    }
    file
}

/// A closed log with one buffer for each CPU: hook and time of its records.
pub(crate) fn with_hooks(cpus: &[&[(u16, i64)]]) -> Vec<u8> {
    let header = header_record(1, cpus.len() as u32 + 1, true, 0);
    let mut file = buffer(&header, &Built::new(0, 0, &[]), 4);
    for (cpu, records) in (0..).zip(cpus) {
        let bytes: Vec<u8> =
            records.iter().flat_map(|(hook, ts)| record_of(*hook, *ts, 0)).collect();
        file.extend(buffer(&bytes, &Built::new(cpu, i64::from(cpu) + 1, &[]), 0));
    }
    file
}

/// A sequential log that was closed and lost nothing.
pub(crate) fn plain(buffers: &[Built]) -> Vec<u8> {
    log(1, true, 0, buffers)
}

pub(crate) fn scanned(bytes: Vec<u8>) -> Scan {
    let log = Log::from_bytes("built", bytes).expect("a log");
    log.scan(&Chosen::none(), |_| {}, |_| true)
}

/// Time, CPU and number of each record in time order, without the header's.
pub(crate) fn merged(scan: &Scan) -> Vec<(i64, u16, u32)> {
    let chosen = Chosen::of([0x532], []);
    let mut merge = scan.merge(&chosen);
    let mut found = Vec::new();
    while let Some(record) = merge.next_record() {
        let number = schedlens_input::bytes::u32_at(record.payload, 0).expect("a number");
        found.push((record.ts, record.cpu.unwrap_or(u16::MAX), number));
    }
    assert_eq!(merge.read(), scan.log().bytes());
    found
}

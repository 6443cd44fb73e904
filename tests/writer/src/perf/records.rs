//! Records that are not samples.

use crate::bytes::Bytes;

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
/// `PERF_RECORD_SAMPLE`
pub(super) const SAMPLE: u32 = 9;
const FINISHED_ROUND: u32 = 68;

/// When and where a record was written, by whom, for which event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Clock in ns; 0 for what existed before.
    pub(super) time: u64,
    pub(super) cpu: u16,
    pub(super) id: u64,
}

impl Stamp {
    /// `struct sample_id`
    fn trailer(&self, out: &mut Bytes) {
        out.u32(self.pid).u32(self.tid).u64(self.time).u32(u32::from(self.cpu)).u32(0).u64(self.id);
    }
}

/// Header around a body: its size is known at the end.
pub(super) fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut out = Bytes::new();
    out.u32(kind).u16(misc).u16((8 + body.len()) as u16).raw(body);
    out.0
}

/// `PERF_RECORD_COMM`
pub(super) fn comm(pid: u32, tid: u32, name: &str, stamp: Stamp) -> Vec<u8> {
    let mut out = Bytes::new();
    let short: String = name.chars().take(15).collect();
    out.u32(pid).u32(tid).text_z(&short).align(8);
    stamp.trailer(&mut out);
    record(COMM, 0, &out.0)
}

/// `PERF_RECORD_FORK` or `PERF_RECORD_EXIT` of (process, thread), its parent's likewise.
pub(super) fn task(born: bool, own: (u32, u32), parent: (u32, u32), stamp: Stamp) -> Vec<u8> {
    let mut out = Bytes::new();
    out.u32(own.0).u32(parent.0).u32(own.1).u32(parent.1).u64(stamp.time);
    stamp.trailer(&mut out);
    record(if born { FORK } else { EXIT }, 0, &out.0)
}

/// `PERF_RECORD_LOST`
pub(super) fn lost(count: u64, stamp: Stamp) -> Vec<u8> {
    let mut out = Bytes::new();
    out.u64(stamp.id).u64(count);
    stamp.trailer(&mut out);
    record(LOST, 0, &out.0)
}

/// `PERF_RECORD_FINISHED_ROUND`
pub(super) fn finished_round() -> Vec<u8> {
    record(FINISHED_ROUND, 0, &[])
}

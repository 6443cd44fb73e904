//! Page faults that need a disk, and requests to disks.

use schedlens_etl::payload::value::Fields;
use schedlens_etl::records::Record;
use schedlens_schedule::tables::{DiskRequest, Moment};

use super::rows::WaitEvent;
use super::session::Session;

const HARD_FAULT: u16 = 0x0220;
/// Hooks of what a request does: its end, and its start.
const OPERATIONS: [(u16, u16, &str); 3] =
    [(0x010a, 0x010c, "read"), (0x010b, 0x010d, "write"), (0x010e, 0x010f, "flush")];
/// In what `wait_event.sector` counts.
const SECTOR_BYTES: u64 = 512;
const NS_PER_S: u128 = 1_000_000_000;
/// Maximum number of requests without an answer.
const MOST_ISSUED: usize = 1 << 16;
/// 10 minutes: Windows resets a disk that has not answered for a minute, a few times at most.
const LONGEST_NS: i64 = 600_000_000_000;
/// Id of a thread that a record does not name.
const NO_THREAD: u32 = u32::MAX;

impl Session<'_> {
    /// A hard fault, or the start or end of a request to a disk; `None` if the payload is too short.
    pub(super) fn wait_event(
        &mut self,
        hook: u16,
        fields: &Fields,
        (record, at): (&Record<'_>, Moment),
    ) -> Option<()> {
        if hook == HARD_FAULT {
            return self.hard_fault(fields, at);
        }
        let (end, _, operation) =
            OPERATIONS.into_iter().find(|(end, issue, _)| [*end, *issue].contains(&hook))?;
        if hook == end {
            self.done(operation, fields, at)
        } else {
            self.issue(operation, fields, (record, at))
        }
    }

    /// The thread writes the record itself, once it has the page.
    fn hard_fault(&mut self, fields: &Fields, at: Moment) -> Option<()> {
        let tid = fields.id("TThreadId")?;
        let began = self.clock.near_ns(fields.number("InitialTime")?.cast_signed());
        let dur = self.plausible(began.map(|began| at.ts.saturating_sub(began)), "hard faults");
        let row = WaitEvent {
            utid: self.issuer(Some(tid), at),
            dur,
            address: fields.number("VirtualAddress").map(u64::cast_signed),
            bytes: fields.number("ByteCount").and_then(|bytes| bytes.try_into().ok()),
            file: self.file(fields, at),
            ..WaitEvent::new("hard_fault", at)
        };
        self.current.rows.waits.push(row);
        Some(())
    }

    fn issue(
        &mut self,
        operation: &'static str,
        fields: &Fields,
        (record, at): (&Record<'_>, Moment),
    ) -> Option<()> {
        let irp = fields.number("Irp")?;
        // Only later versions name the thread in the payload.
        let utid = self.issuer(fields.id("IssuingThreadId").or(record.tid), at);
        if let Some(utid) = utid
            && self.waits.issued.len() < MOST_ISSUED
        {
            self.waits.issued.insert(irp, utid);
        }
        let row = WaitEvent {
            utid,
            operation: Some(operation),
            request: Some(irp.cast_signed()),
            ..WaitEvent::new("disk_issue", at)
        };
        self.current.rows.waits.push(row);
        Some(())
    }

    fn done(&mut self, operation: &'static str, fields: &Fields, at: Moment) -> Option<()> {
        let disk = fields.number("DiskNumber")?;
        let irp = fields.number("Irp");
        let issued = irp.and_then(|irp| self.waits.issued.remove(&irp));
        let ticks = fields.number("HighResResponseTime");
        let dur = self.plausible(ticks.map(|ticks| self.counter_ns(ticks)), "disk requests");
        let place = fields.number("ByteOffset").zip(fields.number("TransferSize"));
        let place = place.map(|(offset, bytes)| DiskRequest {
            device: disk.cast_signed(),
            sector: (offset / SECTOR_BYTES).cast_signed(),
            bytes: bytes.cast_signed(),
        });
        let row = WaitEvent {
            utid: issued.or_else(|| self.issuer(fields.id("IssuingThreadId"), at)),
            operation: Some(operation),
            request: irp.map(u64::cast_signed),
            device: Some(disk.cast_signed()),
            sector: place.map(|place| place.sector),
            bytes: place.map(|place| place.bytes),
            dur,
            file: self.file(fields, at),
            ..WaitEvent::new("disk_done", at)
        };
        self.current.rows.waits.push(row);
        Some(())
    }

    /// The thread with an id; it may have exited since it issued a request.
    fn issuer(&mut self, tid: Option<u32>, at: Moment) -> Option<i64> {
        let tid = tid.filter(|tid| *tid != 0 && *tid != NO_THREAD)?;
        let known = self.lives.holder(tid, at.cpu);
        let life = known.unwrap_or_else(|| self.lives.now(tid, at.cpu, at.ts));
        Some(self.lives.utid(life))
    }

    fn file(&self, fields: &Fields, at: Moment) -> Option<std::sync::Arc<str>> {
        self.waits.files.name(fields.number("FileObject")?, at.ts).cloned()
    }

    /// ns of ticks of the performance counter.
    fn counter_ns(&self, ticks: u64) -> i64 {
        let ns = (u128::from(ticks) * NS_PER_S).checked_div(self.waits.counter_hz.into());
        ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(i64::MAX)
    }

    /// A length that is not negative and not impossibly long.
    fn plausible(&mut self, length: Option<i64>, of: &'static str) -> Option<i64> {
        let found = length.filter(|length| (0..=LONGEST_NS).contains(length));
        if found.is_none() {
            self.problems.add(of, "a length that is missing or impossible");
        }
        found
    }
}

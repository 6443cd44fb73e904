//! Records about processes and threads, and about the CPUs and priorities threads may use.

use schedlens_etl::payload::known;
use schedlens_etl::payload::value::Fields;
use schedlens_etl::records::{Kind, Record};
use schedlens_schedule::tables::Moment;

use super::lives::{Event, ThreadFacts};
use super::processes::{self, ProcessFacts};
use super::rows::{AffinityChange, Mark};
use super::session::Session;
use super::state::cpus::UNKNOWN;

/// FILETIME unit in ns.
const FILETIME_NS: i64 = 100;

impl Session<'_> {
    /// Any rare hook; `None` if the payload is too short.
    #[inline(never)]
    pub(super) fn other_hook(&mut self, hook: u16, record: &Record<'_>, at: Moment) -> Option<()> {
        match hook {
            0x010a..=0x010f
            | 0x0220
            | 0x0301..=0x0304
            | 0x0327
            | 0x0501..=0x0504
            | 0x0548
            | 0x0530
            | 0x0531
            | 0x0535
            | 0x053d
            | 0x0f22
            | 0x0f31 => {}
            0x0525 => {
                self.compact_switches += 1;
                return Some(());
            }
            _ => return Some(()),
        }
        let pointer = record.pointer.size();
        let read = if record.kind == Kind::Full { known::foreign_hook } else { known::hook };
        let (_, fields) = read(hook, record.version, record.payload, pointer)?;
        match hook {
            0x010a..=0x010f | 0x0220 => self.wait_event(hook, &fields, (record, at)),
            0x0501..=0x0504 => self.thread(hook, &fields, at.ts),
            0x0548 => {
                let ids = (fields.id("ThreadId")?, fields.id("ProcessId")?);
                self.lives.named(ids, at.ts, fields.text("ThreadName")?.to_owned());
                Some(())
            }
            0x0530 => self.priority("dynamic", &fields, at),
            0x0531 => self.priority("base", &fields, at),
            0x0535 => self.affinity(&fields, (record, at)),
            0x053d => {
                let life = self.lives.now(fields.id("ThreadId")?, at.cpu, at.ts);
                let cpu = |name| i32::try_from(fields.number(name)?).ok();
                let (from, to) = (cpu("SourceProcessorIndex")?, cpu("TargetProcessorIndex")?);
                let utid = self.lives.utid(life);
                self.current.tables.migration(at, Some(utid), from, to);
                Some(())
            }
            0x0f22 => {
                let name = fields.text("Message")?.to_owned();
                self.current.rows.marks.push(Mark { ts: at.ts, name });
                Some(())
            }
            0x0f31 => {
                let cpu = fields.number("ProcessorNumber")?;
                if fields.number("CounterCount")? > 0 {
                    self.problems.add(
                        format!("cpu {cpu}"),
                        "the counters of this CPU were used by something else: what they counted \
                         since their last good value is left out",
                    );
                }
                Some(())
            }
            _ => self.process(hook, &fields, at.ts),
        }
    }

    fn process(&mut self, hook: u16, fields: &Fields, ts: i64) -> Option<()> {
        let pid = fields.id("ProcessId")?;
        let event = match hook {
            0x0301 => processes::Event::Start,
            0x0302 => processes::Event::End,
            0x0327 => {
                let ended = fields.number("ExitTime").filter(|time| *time != 0);
                processes::Event::Defunct(ended.and_then(|time| self.since_begin(time)))
            }
            _ => processes::Event::Rundown,
        };
        let facts = ProcessFacts {
            pid,
            key: fields.number("UniqueProcessKey"),
            name: fields.text("ImageFileName").map(str::to_owned),
            parent_pid: fields.id("ParentId"),
            session_id: fields.id("SessionId"),
            command_line: fields.text("CommandLine").map(str::to_owned),
        };
        self.lives.processes.record(event, facts, ts);
        Some(())
    }

    /// Events of Microsoft-Windows-Kernel-Process, used if those of the kernel logger are missing.
    pub(super) fn kernel_process(&mut self, id: u16, record: &Record<'_>, ts: i64) {
        let event = match id {
            1 => processes::Event::Start,
            2 => processes::Event::End,
            15 => processes::Event::Rundown,
            _ => return,
        };
        if self.survey.kernel_logger_processes {
            return;
        }
        let Some((_, fields)) = self.survey.event(record) else { return };
        let Some(pid) = fields.id("ProcessID") else {
            self.short_payloads += 1;
            return;
        };
        let image = fields.text("ImageName");
        let facts = ProcessFacts {
            pid,
            key: fields.number("ProcessSequenceNumber"),
            name: image.map(|path| path.rsplit('\\').next().unwrap_or(path).to_owned()),
            parent_pid: fields.id("ParentProcessID"),
            session_id: fields.id("SessionID"),
            command_line: None,
        };
        self.lives.processes.record(event, facts, ts);
    }

    /// A FILETIME as ns from ns 0.
    fn since_begin(&self, filetime: u64) -> Option<i64> {
        let begin = i64::try_from(self.clock.start_time).ok()?;
        i64::try_from(filetime).ok()?.checked_sub(begin)?.checked_mul(FILETIME_NS)
    }

    fn thread(&mut self, hook: u16, fields: &Fields, ts: i64) -> Option<()> {
        let event = match hook {
            0x0501 => Event::Start,
            0x0502 => Event::End,
            0x0503 => Event::RundownAtBegin,
            _ => Event::RundownAtEnd,
        };
        let facts = ThreadFacts {
            tid: fields.id("TThreadId")?,
            pid: fields.id("ProcessId")?,
            name: fields.text("ThreadName").map(str::to_owned),
            base_priority: fields.number("BasePriority").and_then(|p| u8::try_from(p).ok()),
            affinity: fields.number("Affinity"),
        };
        self.lives.record(event, facts, ts);
        Some(())
    }

    fn priority(&mut self, kind: &'static str, fields: &Fields, at: Moment) -> Option<()> {
        let life = self.lives.now(fields.id("ThreadId")?, at.cpu, at.ts);
        let number = |name| fields.number(name).and_then(|value| i32::try_from(value).ok());
        let change = (number("OldPriority"), number("NewPriority"));
        let utid = self.lives.utid(life);
        self.current.tables.priority(kind, at, Some(utid), change);
        Some(())
    }

    fn affinity(&mut self, fields: &Fields, (record, at): (&Record<'_>, Moment)) -> Option<()> {
        let tid = fields.id("ThreadId")?;
        let (group, mask) = (fields.number("Group")?, fields.number("Affinity")?);
        let group = u16::try_from(group).ok()?;
        if tid == 0 {
            return Some(());
        }
        let life = self.lives.confined(tid, at.ts, (group, mask));
        let cpus = self.survey.numbering.cpus(group, mask);
        let utid = self.lives.utid(life);
        // The thread that runs there wrote the record, if the header names none.
        let setter = match record.tid.filter(|tid| *tid != 0 && *tid != u32::MAX) {
            Some(tid) => self.lives.now(tid, at.cpu, at.ts),
            None if record.cpu.map(i32::from) == Some(at.cpu) => {
                self.scheduling.cpu(at.cpu).running
            }
            None => UNKNOWN,
        };
        let setter = (setter != UNKNOWN).then(|| self.lives.utid(setter));
        self.current.rows.affinity.push(AffinityChange { at, utid, cpus, setter });
        Some(())
    }
}

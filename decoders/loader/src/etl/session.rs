//! Processes the records of a recording in time order.

use schedlens_etl::container::clock::Clock;
use schedlens_etl::facts::code::Code;
use schedlens_etl::facts::survey::{self, Survey};
use schedlens_etl::payload::stacks::{SAMPLED_PROFILE, Sample, StackPart};
use schedlens_etl::payload::switching::{self, CSwitch, ReadyThread};
use schedlens_etl::records::plain::Brief;
use schedlens_etl::records::{Id, Kind, Record};
use schedlens_input::bytes::CPU_LIMIT;
use schedlens_input::problem::Problems;
use schedlens_schedule::pool::Pools;
use schedlens_schedule::tables::Moment;

use super::code_changes::CodeChanges;
use super::lives::Lives;
use super::state::cpus::{IDEAL_LIMIT, Scheduling};
use super::state::filling::{Closed, Filling};
use super::state::power::Power;
use super::state::presents::Presents;
use super::state::stack_counts::StackCounts;
use super::state::waits::Waits;
use crate::stacks::Stacks;

/// Result for a record that may be one of the most frequent ones.
enum Common {
    /// It is not a frequent record.
    Not,
    /// It was read; `None` if its payload is too short.
    Read(Option<()>),
}

/// Whether [`Session::common`] knows a hook.
#[inline(always)]
fn is_common(hook: u16) -> bool {
    matches!(
        hook,
        0x0524 | 0x0532 | 0x0f42
            ..=0x0f45
                | 0x0f32
                | 0x0f5f
                | 0x1820
                | 0x1825
                | 0x1826
                | 0x1239
                | 0x123a
                | 0x0f2e
                | 0x0f2f
    )
}

/// All state that records change.
pub(super) struct Session<'a> {
    pub(super) clock: Clock,
    pub(super) survey: &'a Survey,
    pub(super) lives: Lives,
    pub(super) scheduling: Scheduling,
    pub(super) power: Power,
    pub(super) presents: Presents,
    pub(super) waits: Waits<'a>,
    pub(super) current: Filling,
    /// Earlier chunks: late records still belong to them.
    pub(super) closed: Closed,
    /// Images and the keys of stacks.
    pub(super) code: &'a Code,
    /// What of it has happened so far.
    pub(super) code_changes: CodeChanges,
    /// `None` if no stacks were recorded.
    pub(super) stacks: Option<Box<Stacks>>,
    pub(super) stack_counts: StackCounts,
    pub(super) problems: Problems,
    /// Payloads shorter than any version of their event.
    pub(super) short_payloads: i64,
    /// Records that need a CPU but are in buffers without one.
    pub(super) placeless: i64,
    /// Batches of compact switches.
    pub(super) compact_switches: i64,
    /// Core type name of each CPU, if known.
    pub(super) core_types: Vec<Option<String>>,
    /// Whether the ideal-processor byte is valid.
    pub(super) has_ideal: bool,
    /// Time of the earliest record.
    pub(super) first_ns: i64,
    /// Memory of finished columns.
    pub(super) pools: Pools,
}

impl<'a> Session<'a> {
    /// Starts before the first record.
    pub(super) fn new(
        trace_id: i64,
        clock: Clock,
        (survey, code, waits): (&'a Survey, &'a Code, Waits<'a>),
        core_types: Vec<Option<String>>,
    ) -> Self {
        let mut lives = Lives::new(trace_id, survey.numbering.only_group());
        for cpu in 0..survey.numbering.len() {
            lives.idle(cpu as i32);
        }
        Self {
            clock,
            survey,
            lives,
            scheduling: Scheduling::default(),
            power: Power::default(),
            presents: Presents::default(),
            waits,
            current: Filling { from_ns: i64::MIN, ..Filling::default() },
            closed: Closed::default(),
            code,
            code_changes: CodeChanges::default(),
            stacks: None,
            stack_counts: StackCounts::default(),
            problems: Problems::default(),
            short_payloads: 0,
            placeless: 0,
            compact_switches: 0,
            core_types,
            has_ideal: survey.numbering.len() <= IDEAL_LIMIT,
            first_ns: i64::MIN,
            pools: Pools::default(),
        }
    }

    /// Processes a record; `ts` is in ns.
    #[inline(always)]
    pub(super) fn take(&mut self, record: &Record<'_>, ts: i64) {
        match record.id {
            Id::Hook(hook) => self.hook(hook, record, ts),
            Id::None | Id::Message { .. } => {}
            Id::Classic { .. } | Id::Event { .. } => self.rare(record, ts),
        }
    }

    /// Processes a kernel record.
    #[inline(never)]
    pub(super) fn hook(&mut self, hook: u16, record: &Record<'_>, ts: i64) {
        let Some(cpu) = record.cpu.map(i32::from).filter(|cpu| *cpu < CPU_LIMIT) else {
            self.without_cpu(hook, record, ts);
            return;
        };
        let at = Moment { ts, cpu, seq: self.scheduling.position(cpu) };
        let brief = Brief { hook, version: record.version, payload: record.payload, cpu: None };
        let read =
            match self.common(&brief, (record.counters, record.tid, record.pointer.size()), at) {
                Common::Not => self.other_hook(hook, record, at),
                Common::Read(read) => read,
            };
        if read.is_none() {
            self.short_payloads += 1;
        }
    }

    /// Processes a switch, given the first bytes of its payload.
    #[inline(always)]
    pub(super) fn plain_switch(&mut self, cpu: u16, begin: &[u8; CSwitch::LONG], ts: i64) {
        let cpu = i32::from(cpu);
        let at = Moment { ts, cpu, seq: self.scheduling.position(cpu) };
        self.switch(&CSwitch::of_long(begin), &[], at);
    }

    /// Processes a wakeup, given the first bytes of its payload.
    #[inline(always)]
    pub(super) fn plain_ready(&mut self, cpu: u16, begin: &[u8; ReadyThread::BYTES], ts: i64) {
        let cpu = i32::from(cpu);
        let at = Moment { ts, cpu, seq: self.scheduling.position(cpu) };
        self.ready(ReadyThread::of(begin), None, at);
    }

    /// Processes one of the most frequent kernel records, if it has no further parts; `false` if it
    /// is not one.
    #[inline(always)]
    pub(super) fn frequent(&mut self, brief: &Brief<'_>, ts: i64) -> bool {
        let Some(cpu) = brief.cpu.map(i32::from).filter(|cpu| *cpu < CPU_LIMIT) else {
            return false;
        };
        if !is_common(brief.hook) {
            return false;
        }
        let at = Moment { ts, cpu, seq: self.scheduling.position(cpu) };
        let read = match self.common(brief, (&[], None, 8), at) {
            Common::Read(read) => read,
            Common::Not => None,
        };
        if read.is_none() {
            self.short_payloads += 1;
        }
        true
    }

    /// The records that [`is_common`] names.
    #[inline(never)]
    fn common(
        &mut self,
        brief: &Brief<'_>,
        (counters, tid, pointer): (&[u8], Option<u32>, usize),
        at: Moment,
    ) -> Common {
        let payload = brief.payload;
        Common::Read(match brief.hook {
            0x0524 => CSwitch::read(brief.version, payload)
                .map(|switch| self.switch(&switch, counters, at)),
            0x0532 => ReadyThread::read(payload).map(|ready| self.ready(ready, tid, at)),
            0x0f42..=0x0f45 | 0x0f32 | 0x0f5f => {
                switching::initial_time(payload).map(|from| self.interrupt(brief.hook, from, at))
            }
            0x1820 | 0x1825 | 0x1826 => StackPart::read(brief.hook, payload, pointer)
                .map(|part| self.stack(&part, pointer, at)),
            0x0f2e | 0x0f2f => Sample::read(payload, pointer)
                .map(|sample| self.sample(&sample, brief.hook == SAMPLED_PROFILE, at)),
            0x1239 | 0x123a => self.idle_state(brief.hook, payload, at),
            _ => return Common::Not,
        })
    }

    /// Records whose buffer has no CPU: the header's own, and those of sessions that mix processors
    /// in a buffer.
    #[inline(never)]
    fn without_cpu(&mut self, hook: u16, record: &Record<'_>, ts: i64) {
        let needs_cpu = matches!(
            hook,
            0x0524 | 0x0525 | 0x0532 | 0x0f2e | 0x0f2f | 0x0f42
                ..=0x0f45 | 0x0f32 | 0x0f5f | 0x1239 | 0x123a
        );
        if needs_cpu {
            self.placeless += 1;
        } else if self.other_hook(hook, record, Moment { ts, cpu: 0, seq: 0 }).is_none() {
            self.short_payloads += 1;
        }
    }

    /// Classic events of the kernel's classes, which mean the same as their hooks, and manifest
    /// events.
    #[inline(never)]
    fn rare(&mut self, record: &Record<'_>, ts: i64) {
        if let Some(hook) = survey::class_hook(&record.id) {
            self.hook(hook, record, ts);
            return;
        }
        if record.kind == Kind::Event {
            if let (Some(tid), Some(pid)) = (record.tid, record.pid) {
                self.lives.belongs(tid, pid);
            }
            self.provider_event(record, ts);
        }
    }

    #[inline(never)]
    fn provider_event(&mut self, record: &Record<'_>, ts: i64) {
        use schedlens_etl::payload::providers::{
            D3D9, DXGI, DXGKRNL, KERNEL_PROCESS, PROCESSOR_POWER,
        };
        let Id::Event { provider, id, .. } = record.id else { return };
        match provider {
            PROCESSOR_POWER => self.processor_power(id, record, ts),
            KERNEL_PROCESS => self.kernel_process(id, record, ts),
            DXGI | D3D9 | DXGKRNL => self.present(provider, id, record, ts),
            _ => {}
        }
    }
}

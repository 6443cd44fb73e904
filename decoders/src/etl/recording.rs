//! An opened recording: read once for what must be known before its records are turned into rows.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};

use super::chosen::Chosen;
use super::counts::{Event, Key};
use super::finish;
use super::frames::Frames;
use super::guid::Guid;
use super::inspection::inspect;
use super::log::Log;
use super::names::Names;
use super::payload::known;
use super::payload::providers::{D3D9, DXGI, DXGKRNL, KERNEL_PROCESS, PROCESSOR_POWER};
use super::scan::Scan;
use super::survey::Survey;
use super::topology::{self, Cpu};
use crate::columns::{Batcher, Column, texts};
use crate::error::DecodeError;
use crate::reader::{FrameSource, Reader, TraceFacts};
use crate::states::Source;

/// Version of the tables.
const SCHEMA_VERSION: i32 = 1;
/// The kernel's classes that become rows, for records with a classic header.
const CLASSES: [Guid; 5] = [
    Guid::from_text_order(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c),
    Guid::from_text_order(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c),
    Guid::from_text_order(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc),
    Guid::from_text_order(0xe43445e0_0903_48c3_b878_ff0fccebdd04),
    Guid::from_text_order(0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3),
];
/// Hooks that become rows. Stacks are among them for the wakers that they name; without wakings
/// they are passed over.
const HOOKS: [u16; 30] = [
    0x0301, 0x0302, 0x0303, 0x0304, 0x0327, 0x0501, 0x0502, 0x0503, 0x0504, 0x0524, 0x0525, 0x0530,
    0x0531, 0x0532, 0x0535, 0x053d, 0x0548, 0x0f22, 0x0f31, 0x0f32, 0x0f42, 0x0f43, 0x0f44, 0x0f45,
    0x0f5f, 0x1239, 0x123a, 0x1820, 0x1825, 0x1826,
];

/// Those of them that are stacks.
const STACKS: [u16; 3] = [0x1820, 0x1825, 0x1826];

/// An opened recording.
pub struct Recording {
    scan: Scan,
    survey: Survey,
    chosen: Chosen,
    cpus: Vec<Cpu>,
    machine_problems: Vec<&'static str>,
}

impl Recording {
    /// Opens .etl files of one recording, or archives with such in them, and reads them once.
    ///
    /// # Errors
    /// A file that is no log, or whose header cannot be read; files that do not belong together.
    pub fn open(
        paths: &[PathBuf],
        mut on_progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<Self, DecodeError> {
        let log = Log::open(paths)?;
        let all = log.bytes();
        let clock = log.clock();
        let mut survey = Survey::default();
        let wanted = Survey::chosen();
        let scan = log.scan(
            &wanted,
            |record| survey.take(record, clock.ns(record.ts)),
            |read| on_progress(read, all),
        );
        survey.count_from(clock.ns(scan.log().clock().start));
        let told = scan.log().header().num_processors as usize;
        let seen = scan.cpus().last().map_or(0, |last| usize::from(*last) + 1);
        survey.finish(told.max(seen));
        survey.numbering.cover(seen);
        survey.kernel_logger_processes =
            [0x0301, 0x0302, 0x0303, 0x0304].into_iter().any(|hook| counted(&scan, hook) > 0);
        let (cpus, machine_problems) = topology::cpus(&survey.facts, &survey.numbering);
        let wakings = counted(&scan, 0x0532) > 0;
        let hooks = HOOKS.into_iter().filter(|hook| wakings || !STACKS.contains(hook));
        let providers = [PROCESSOR_POWER, DXGI, D3D9, DXGKRNL, KERNEL_PROCESS];
        let chosen = Chosen::of(hooks, CLASSES.into_iter().chain(providers));
        Ok(Self { scan, survey, chosen, cpus, machine_problems })
    }

    /// Facts about it as JSON: see [`inspect`]; `processes` and `threads` beside.
    pub fn inspect(&self) -> serde_json::Value {
        let mut facts = inspect(&self.scan, &self.survey);
        let (processes, threads) = super::frames::lives(self);
        if let Some(facts) = facts.as_object_mut() {
            facts.insert("processes".to_owned(), processes);
            facts.insert("threads".to_owned(), threads);
        }
        facts
    }

    /// The records that tell of processes and threads.
    pub(super) fn chosen_lives() -> Chosen {
        Chosen::of(
            [0x0301, 0x0302, 0x0303, 0x0304, 0x0327, 0x0501, 0x0502, 0x0503, 0x0504, 0x0548],
            [CLASSES[0], CLASSES[1], KERNEL_PROCESS],
        )
    }

    pub(super) fn scan(&self) -> &Scan {
        &self.scan
    }

    pub(super) fn survey(&self) -> &Survey {
        &self.survey
    }

    /// What was found about the machine that does not fit.
    pub(super) fn machine_problems(&self) -> &[&'static str] {
        &self.machine_problems
    }

    /// The core types follow from caches and SMT siblings, since no record says them.
    pub(super) fn core_types_inferred(&self) -> bool {
        topology::are_inferred(&self.survey.facts, &self.cpus)
    }

    /// Counter values were recorded at switches.
    pub(super) fn has_counters(&self) -> bool {
        counted(&self.scan, 0x0f30) > 0 || !self.survey.counters.is_empty()
    }

    /// Stacks were recorded that may be those of wakings.
    pub(super) fn has_stacks_of_wakings(&self) -> bool {
        self.has_wakings() && STACKS.iter().any(|hook| counted(&self.scan, *hook) > 0)
    }

    /// Records lost as the headers tell.
    pub(super) fn events_lost(&self) -> Option<i64> {
        self.scan.log().lost(|header| header.events_lost)
    }

    /// Rows of `record_count`.
    pub(super) fn record_counts(&self, batcher: &Batcher) -> Result<RecordBatch, DecodeError> {
        let mut counts: Vec<(String, u64)> = Vec::new();
        let names = Names::new(&self.scan, &self.survey);
        for (key, count) in self.scan.counts() {
            let name = names.of(key);
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => counts.push((name, *count)),
            }
        }
        finish::record_counts(&counts, batcher)
    }

    fn os(&self) -> String {
        let header = self.scan.log().header();
        let facts = &self.survey.facts;
        let product = product(facts.product.as_deref(), header.os_build);
        match &facts.build_lab {
            Some(lab) => format!("{product}, build {lab}"),
            None => format!("{product}, build {}", header.os_build),
        }
    }

    fn cpu_model(&self) -> Option<String> {
        let facts = &self.survey.facts;
        let first = facts.processors.iter().min_by_key(|(index, _)| **index);
        let named = first.map(|(_, processor)| processor.name.clone());
        let winsat = || facts.winsat.as_ref().and_then(|winsat| winsat.name.clone());
        named.filter(|name| !name.is_empty()).or_else(winsat)
    }
}

/// First build of Windows 11, whose registry still has the product name of Windows 10.
const WINDOWS_11: u32 = 22_000;

/// Name of the system by its product name, as the registry has it, and its build.
fn product(name: Option<&str>, build: u32) -> String {
    match name {
        Some(name) if build >= WINDOWS_11 => name.replacen("Windows 10", "Windows 11", 1),
        Some(name) => name.to_owned(),
        None if build >= WINDOWS_11 => "Windows 11".to_owned(),
        None => "Windows".to_owned(),
    }
}

/// Records with a hook, whatever their header.
fn counted(scan: &Scan, hook: u16) -> u64 {
    let is = |key: &Key| match key.event {
        Event::Hook(found) => found == hook,
        Event::Classic(class, opcode) => known::hook_of_class(class.first(), opcode) == Some(hook),
        _ => false,
    };
    scan.counts().iter().filter(|(key, _)| is(key)).map(|(_, count)| count).sum()
}

impl Reader for Recording {
    fn extent(&self) -> u64 {
        self.scan.log().bytes()
    }

    fn records(&self) -> u64 {
        self.scan.records()
    }

    fn source(&self) -> Source {
        Source::Etw
    }

    fn start_clock(&self) -> i64 {
        self.scan.log().clock().start
    }

    fn session_ns(&self) -> i64 {
        self.scan.log().clock().session_ns()
    }

    fn clock_name(&self) -> &'static str {
        self.scan.log().clock().name()
    }

    fn has_yields(&self) -> bool {
        true
    }

    fn has_wakings(&self) -> bool {
        counted(&self.scan, 0x0532) > 0
    }

    fn cpu_batch(&self, batcher: &Batcher) -> Result<RecordBatch, DecodeError> {
        let cpus = &self.cpus;
        let ints = |pick: fn(&Cpu) -> Option<i32>| {
            let mut column = Column::default();
            cpus.iter().for_each(|cpu| column.push_option(pick(cpu)));
            column.array()
        };
        let longs = |pick: fn(&Cpu) -> Option<i64>| {
            let mut column = Column::default();
            cpus.iter().for_each(|cpu| column.push_option(pick(cpu)));
            column.array()
        };
        let mut online = Column::default();
        cpus.iter().for_each(|_| online.push(true));
        let columns = vec![
            ("cpu", ints(|cpu| Some(cpu.cpu))),
            ("group_no", ints(|cpu| cpu.place.map(|(group, _)| group.into()))),
            ("number_in_group", ints(|cpu| cpu.place.map(|(_, number)| number.into()))),
            ("core", ints(|cpu| cpu.core)),
            ("smt_index", ints(|cpu| cpu.smt_index)),
            ("core_type", texts(cpus.iter().map(|cpu| cpu.core_type.as_deref()))),
            ("efficiency_class", ints(|cpu| cpu.class.map(i32::from))),
            ("l2", ints(|cpu| cpu.l2)),
            ("llc", ints(|cpu| cpu.llc)),
            ("package", ints(|cpu| cpu.package)),
            ("numa_node", ints(|cpu| cpu.node)),
            ("base_khz", longs(|cpu| cpu.base_khz)),
            ("online", online.array()),
            ("valid_from_ns", longs(|cpu| cpu.valid_from_ns)),
        ];
        batcher.batch("cpu", cpus.len(), columns)
    }

    fn trace_batch(
        &self,
        batcher: &Batcher,
        facts: TraceFacts<'_>,
    ) -> Result<RecordBatch, DecodeError> {
        let clock = self.scan.log().clock();
        let one = |text: Option<&str>| texts([text].into_iter());
        let long = |value: Option<i64>| {
            let mut column = Column::default();
            column.push_option(value);
            column.array()
        };
        let mut version = Column::default();
        version.push(SCHEMA_VERSION);
        let wall: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![clock.wall_start_ns()]));
        let buffers_lost = self.scan.log().lost(|header| header.buffers_lost);
        let columns = vec![
            ("label", one(Some(facts.label))),
            ("source", one(Some("etw"))),
            ("path", one(Some(facts.path))),
            ("host", one(self.survey.facts.host.as_deref())),
            ("os", one(Some(&self.os()))),
            ("cpu_model", one(self.cpu_model().as_deref())),
            ("clock_name", one(Some(clock.name()))),
            ("start_clock", long(Some(clock.start))),
            ("clock_hz", long(Some(clock.hz))),
            ("start_time_utc", wall),
            ("first_ns", long(facts.window.0)),
            ("duration_ns", long(facts.window.1)),
            ("events_lost", long(facts.events_lost)),
            ("buffers_lost", long(buffers_lost)),
            ("schema_version", version.array()),
            ("tool_version", one(Some(env!("CARGO_PKG_VERSION")))),
        ];
        batcher.batch("trace", 1, columns)
    }

    fn frames<'a>(
        &'a self,
        batcher: &'a Batcher,
        trace_id: i64,
        core_types: HashMap<i32, String>,
    ) -> Box<dyn FrameSource + 'a> {
        Box::new(Frames::new(self, &self.chosen, batcher, trace_id, core_types))
    }
}

#[cfg(test)]
mod tests {
    use super::product;

    #[test]
    fn builds_from_22000_on_are_windows_11() {
        assert_eq!(product(Some("Windows 10 Pro"), 22_631), "Windows 11 Pro");
        assert_eq!(product(Some("Windows 10 Pro"), 19_045), "Windows 10 Pro");
        assert_eq!(product(Some("Windows Server 2025 Standard"), 26_100), {
            "Windows Server 2025 Standard"
        });
        assert_eq!(product(None, 22_000), "Windows 11");
        assert_eq!(product(None, 21_999), "Windows");
    }
}

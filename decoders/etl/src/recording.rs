//! An opened recording: read once to collect what must be known before its records become rows.

use std::path::PathBuf;

use crate::container::log::Log;
use crate::error::Error;
use crate::facts::code::Code;
use crate::facts::files::{self, Files};
use crate::facts::inspection::inspect;
use crate::facts::names::Names;
use crate::facts::survey::Survey;
use crate::facts::topology::{self, Cpu};
use crate::guid::Guid;
use crate::passes::chosen::Chosen;
use crate::passes::counts::{Event, Key};
use crate::passes::scan::Scan;
use crate::payload::known;
use crate::payload::providers::{D3D9, DXGI, DXGKRNL, KERNEL_PROCESS, PROCESSOR_POWER};

/// The kernel's classes that become rows, for records with a classic header.
const CLASSES: [Guid; 7] = [
    Guid::from_text_order(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c),
    Guid::from_text_order(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c),
    Guid::from_text_order(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc),
    Guid::from_text_order(0xe43445e0_0903_48c3_b878_ff0fccebdd04),
    Guid::from_text_order(0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3),
    Guid::from_text_order(0x3d6fa8d3_fe05_11d0_9dda_00c04fd7ba7c),
    Guid::from_text_order(0x3d6fa8d4_fe05_11d0_9dda_00c04fd7ba7c),
];
/// Hooks that become rows, and the stacks that belong to these.
const HOOKS: [u16; 39] = [
    0x010a, 0x010b, 0x010c, 0x010d, 0x010e, 0x010f, 0x0220, 0x0301, 0x0302, 0x0303, 0x0304, 0x0327,
    0x0501, 0x0502, 0x0503, 0x0504, 0x0524, 0x0525, 0x0530, 0x0531, 0x0532, 0x0535, 0x053d, 0x0548,
    0x0f22, 0x0f2e, 0x0f2f, 0x0f31, 0x0f32, 0x0f42, 0x0f43, 0x0f44, 0x0f45, 0x0f5f, 0x1239, 0x123a,
    0x1820, 0x1825, 0x1826,
];

/// The stacks among them.
const STACKS: [u16; 3] = [0x1820, 0x1825, 0x1826];

/// An opened recording.
pub struct Recording {
    scan: Scan,
    survey: Survey,
    code: Code,
    files: Files,
    chosen: Chosen,
    cpus: Vec<Cpu>,
    machine_problems: Vec<&'static str>,
}

impl Recording {
    /// Opens .etl files of one recording, or archives of them, and reads them once.
    ///
    /// # Errors
    /// A file is not a log, its header cannot be read, or the files do not belong together.
    pub fn open(
        paths: &[PathBuf],
        on_progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<Self, Error> {
        Ok(Self::of(Log::open(paths)?, on_progress))
    }

    /// Reads an opened log once.
    pub fn of(log: Log, mut on_progress: impl FnMut(u64, u64) -> bool) -> Self {
        let all = log.bytes();
        let clock = log.clock();
        let (mut survey, mut code) = (Survey::default(), Code::default());
        let mut files = Files::default();
        let wanted = Survey::chosen().and(&Code::hooks()).with(&Code::classes());
        let wanted = wanted.and(&files::HOOKS).with(&[files::FILE_IO]);
        let scan = log.scan(
            &wanted,
            |record| {
                if !code.take(record) && !files.take(record) {
                    survey.take(record, clock.ns(record.ts));
                }
            },
            |read| on_progress(read, all),
        );
        let final_clock = scan.log().clock();
        code.finish(|raw| final_clock.ns(raw));
        files.finish(|raw| final_clock.ns(raw), |name| code.images.path(name));
        survey.count_from(clock.ns(scan.log().clock().start));
        let declared = scan.log().header().num_processors as usize;
        let seen = scan.cpus().last().map_or(0, |last| usize::from(*last) + 1);
        survey.finish(declared.max(seen));
        survey.numbering.cover(seen);
        survey.kernel_logger_processes =
            [0x0301, 0x0302, 0x0303, 0x0304].into_iter().any(|hook| counted(&scan, hook) > 0);
        let (cpus, machine_problems) = topology::cpus(&survey.facts, &survey.numbering);
        let providers = [PROCESSOR_POWER, DXGI, D3D9, DXGKRNL, KERNEL_PROCESS];
        let chosen = Chosen::of(HOOKS, CLASSES.into_iter().chain(providers));
        Self { scan, survey, code, files, chosen, cpus, machine_problems }
    }

    /// Facts about the recording as JSON.
    ///
    /// Keys: `format`, `os_build`, `num_processors`, `perf_freq`, `start`, `end` (wall time, UTC),
    /// `header` (of the first file), `files`, `clock`, `clock_hz`, `start_clock`, `end_clock`,
    /// `duration_ns`, `start_time_utc_ns`, `cpus`, `buffers`, `records`, `records_by_kind`,
    /// `records_by_event`, `events`, `loss`, `documentation_only`, `problems`. Times are ns from
    /// the header record unless their name states otherwise.
    pub fn inspect(&self) -> serde_json::Value {
        inspect(&self.scan, &self.survey)
    }

    /// The lifetime records of processes and threads.
    pub fn chosen_lives() -> Chosen {
        Chosen::of(
            [0x0301, 0x0302, 0x0303, 0x0304, 0x0327, 0x0501, 0x0502, 0x0503, 0x0504, 0x0548],
            [CLASSES[0], CLASSES[1], KERNEL_PROCESS],
        )
    }

    /// The first pass over its records.
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    /// What its records contain about the machine and the events' fields.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// What its records contain about images and the keys of stacks.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The names of files in its records.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Inconsistencies in the data about the machine.
    pub fn machine_problems(&self) -> &[&'static str] {
        &self.machine_problems
    }

    /// The core types are inferred from caches and SMT siblings because no record contains them.
    pub fn core_types_inferred(&self) -> bool {
        topology::are_inferred(&self.survey.facts, &self.cpus)
    }

    /// Counter values were recorded at switches.
    pub fn has_counters(&self) -> bool {
        counted(&self.scan, 0x0f30) > 0 || !self.survey.counters.is_empty()
    }

    /// Stacks of events were recorded.
    pub fn has_stacks(&self) -> bool {
        STACKS.iter().any(|hook| counted(&self.scan, *hook) > 0)
    }

    /// The records that become rows of the tables.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// The logical CPUs; several rows for a CPU that changes during the recording.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// Wakeups were recorded.
    pub fn has_wakings(&self) -> bool {
        counted(&self.scan, 0x0532) > 0
    }

    /// Number of lost buffers in the headers.
    pub fn buffers_lost(&self) -> Option<i64> {
        self.scan.log().lost(|header| header.buffers_lost)
    }

    /// Number of lost records in the headers.
    pub fn events_lost(&self) -> Option<i64> {
        self.scan.log().lost(|header| header.events_lost)
    }

    /// Records by name.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let mut counts: Vec<(String, u64)> = Vec::new();
        let names = Names::new(&self.scan, &self.survey);
        for (key, count) in self.scan.counts() {
            let name = names.of(key);
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => counts.push((name, *count)),
            }
        }
        counts
    }

    /// Name and build of the system.
    pub fn os(&self) -> String {
        let header = self.scan.log().header();
        let facts = &self.survey.facts;
        let product = product(facts.product.as_deref(), header.os_build);
        match &facts.build_lab {
            Some(lab) => format!("{product}, build {lab}"),
            None => format!("{product}, build {}", header.os_build),
        }
    }

    /// Name of the processor.
    pub fn cpu_model(&self) -> Option<String> {
        let facts = &self.survey.facts;
        let first = facts.processors.iter().min_by_key(|(index, _)| **index);
        let named = first.map(|(_, processor)| processor.name.clone());
        let winsat = || facts.winsat.as_ref().and_then(|winsat| winsat.name.clone());
        named.filter(|name| !name.is_empty()).or_else(winsat)
    }
}

/// First build of Windows 11, whose registry still contains the product name of Windows 10.
const WINDOWS_11: u32 = 22_000;

/// Name of the system from its product name in the registry and its build.
fn product(name: Option<&str>, build: u32) -> String {
    match name {
        Some(name) if build >= WINDOWS_11 => name.replacen("Windows 10", "Windows 11", 1),
        Some(name) => name.to_owned(),
        None if build >= WINDOWS_11 => "Windows 11".to_owned(),
        None => "Windows".to_owned(),
    }
}

/// Records with a hook, with any header.
fn counted(scan: &Scan, hook: u16) -> u64 {
    let is = |key: &Key| match key.event {
        Event::Hook(found) => found == hook,
        Event::Classic(class, opcode) => known::hook_of_class(class.first(), opcode) == Some(hook),
        _ => false,
    };
    scan.counts().iter().filter(|(key, _)| is(key)).map(|(_, count)| count).sum()
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

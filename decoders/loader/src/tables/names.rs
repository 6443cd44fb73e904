//! Names of the files and tables of a folder.

use std::path::Path;

/// Lists what the folder contains; written last.
pub(super) const MANIFEST: &str = "tables.json";
/// Ending of a table's file.
pub(super) const SUFFIX: &str = ".arrow";

/// Base tables of a recording. Session tables come from the session, `trace` from the manifest.
pub(super) const TABLES: [&str; 27] = [
    "cpu",
    "machine_setting",
    "process",
    "thread",
    "thread_name",
    "affinity",
    "thread_cgroup",
    "context_switch",
    "wakeup",
    "migration",
    "priority_change",
    "affinity_change",
    "ideal_cpu_change",
    "qos_change",
    "sched_yield",
    "wait_event",
    "interrupt_slice",
    "cpu_idle",
    "cpu_frequency",
    "cpu_parking",
    "counter_sample",
    "track_counter",
    "frame",
    "mark",
    "loss",
    "problem",
    "record_count",
];
/// Tables that a folder must have.
pub(super) const NEEDED: [&str; 3] = ["cpu", "thread", "context_switch"];
/// Tables whose rows are in time order.
pub(super) const IN_TIME: [&str; 6] =
    ["context_switch", "wakeup", "migration", "sched_yield", "interrupt_slice", "counter_sample"];
/// Small tables that are needed as a whole.
pub(super) const WHOLE: [&str; 4] = ["thread", "cpu", "loss", "machine_setting"];

/// Whether a path is a folder of tables, complete or not.
pub fn is_folder(path: &Path) -> bool {
    let has_table = || {
        let entries = path.read_dir().into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(SUFFIX))
    };
    path.is_dir() && (path.join(MANIFEST).exists() || has_table())
}

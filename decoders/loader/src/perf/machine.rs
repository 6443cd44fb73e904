//! What a recording contains about its machine and its clock: rows of `cpu` and `trace`.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_perf_data::recording::Recording;
use schedlens_perf_data::topology;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};

use crate::linux::machine::Described;

/// What the recording states about its machine and its clock.
pub(super) fn described(recording: &Recording) -> Described<'_> {
    Described {
        source: "perf",
        host: recording.features.host.as_deref(),
        os: recording.os(),
        cpu_model: recording.features.cpu_model.as_deref(),
        clock_name: recording.clock_name(),
        start_clock: recording.index.first.map(u64::cast_signed),
        wall_start_ns: recording.wall_start_ns(),
    }
}

/// Rows of `cpu`, as far as the file describes the CPUs.
///
/// # Errors
/// Fails only if a value contradicts the schema.
pub(super) fn cpu_batch(
    recording: &Recording,
    batcher: &Batcher,
) -> Result<RecordBatch, ArrowError> {
    let cpus = topology::cpus(&recording.features, &recording.index.cpus());
    let ints = |pick: fn(&topology::Cpu) -> Option<i32>| {
        let mut column = Column::default();
        for cpu in &cpus {
            column.push_option(pick(cpu));
        }
        column.array()
    };
    let mut online = Column::default();
    for cpu in &cpus {
        online.push_option(cpu.online);
    }
    let columns = vec![
        ("cpu", ints(|cpu| Some(cpu.cpu))),
        ("core", ints(|cpu| cpu.core)),
        ("smt_index", ints(|cpu| cpu.smt_index)),
        ("core_type", texts(cpus.iter().map(|cpu| cpu.core_type))),
        ("l2", ints(|cpu| cpu.l2)),
        ("llc", ints(|cpu| cpu.llc)),
        ("package", ints(|cpu| cpu.package)),
        ("numa_node", ints(|cpu| cpu.numa_node)),
        ("online", online.array()),
    ];
    batcher.batch("cpu", cpus.len(), columns)
}

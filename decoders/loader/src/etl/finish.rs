//! What is known once all records are read.

use arrow_schema::ArrowError;
use schedlens_etl::Recording;
use schedlens_etl::container::clock::ClockKind;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Batches;
use schedlens_schedule::columns::{Column, texts};

use super::life_rows;
use super::session::Session;
use crate::reader::Finished;

/// Fills the tables that depend on thread lifetimes, the machine and the counts.
pub(super) fn finish(
    recording: &Recording,
    session: &mut Session<'_>,
    batcher: &Batcher,
) -> Result<Finished, ArrowError> {
    let scan = recording.scan();
    let numbering = &session.survey.numbering;
    let (affinity, without_group) = life_rows::affinities(&session.lives, numbering, batcher)?;
    let unnamed = session.survey.counters.is_empty();
    let manifests = &session.survey.manifests;
    let too_many = session.stacks.as_ref().map_or(0, |stacks| stacks.too_many);
    let code = session.code;
    let counted: [(i64, &str, &str); 14] = [
        (session.short_payloads, "payloads", "events shorter than any version of their layout"),
        (
            session.placeless,
            "buffers",
            "events of buffers that mix processors: the CPU that wrote them is unknown; \
             record without EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING",
        ),
        (
            session.compact_switches,
            "CompactCSwitch",
            "batches of compact context switches, which are not read: record again with CSwitch \
             in place of CompactCSwitch",
        ),
        (
            without_group,
            "Thread",
            "affinity masks of a machine with several processor groups: the records lack the group",
        ),
        (
            session.power.not_described,
            "Kernel-Processor-Power",
            "parking events with undocumented structs: only events 14, 15 and 64 are used",
        ),
        (session.survey.damaged_schemas, "EventMetadata", "damaged event schemas"),
        (manifests.refused, "EventSource", "unreadable manifests or parts of them"),
        (
            manifests.not_whole(),
            "EventSource",
            "manifests with missing parts: events of these providers have no fields",
        ),
        (
            session.stack_counts.undefined,
            "stacks",
            "parts of stacks whose key no record defines: the end of the recording is missing",
        ),
        (session.stack_counts.late, "stacks", "stacks that came too long after their event"),
        (
            too_many + code.left_out,
            "stacks",
            "left out, because the recording has too many different ones",
        ),
        (code.methods.left_out, "methods", "of .NET left out, because the recording has too many"),
        (recording.files().left_out, "files", "names left out, because the recording has too many"),
        (code.images.left_out, "images", "left out, because the recording has too many"),
    ];
    for (count, place, what) in counted {
        if count > 0 {
            session.problems.add_many(place, what, count);
        }
    }
    if unnamed && recording.has_counters() {
        session.problems.add(
            "PmcCounterConfig",
            "counters at switches without the record that names them: shown by number",
        );
    }
    if let Some(what) = clock_limit(recording) {
        session.problems.add("clock", what);
    }
    for what in recording.machine_problems() {
        session.problems.add("WinSAT", *what);
    }
    let problems = scan.problems().chain(
        session
            .problems
            .rows()
            .iter()
            .map(|row| (row.place.as_str(), row.what.as_str(), row.count)),
    );
    let problems: Vec<_> = problems.collect();
    let lives = &session.lives;
    let mut batches: Batches = vec![
        ("process", life_rows::processes(lives, batcher)?),
        ("thread", life_rows::threads(lives, batcher, 0..lives.all.len())?),
        ("thread_name", life_rows::names(lives, batcher)?),
        ("affinity", affinity),
        ("record_count", record_counts(&recording.counts(), batcher)?),
        ("problem", batcher.problems(problems.into_iter())?),
    ];
    let inferred = recording.core_types_inferred().then(|| {
        let value = "inferred: SMT pairs are P, cores that share an L2 cache by four are E";
        ("core_type_source".to_owned(), value.to_owned())
    });
    let settings = session.survey.facts.settings.iter().chain(&session.power.caps);
    let settings: Vec<_> = settings.chain(&inferred).collect();
    let columns = vec![
        ("key", texts(settings.iter().map(|(key, _)| Some(key)))),
        ("value", texts(settings.iter().map(|(_, value)| Some(value)))),
    ];
    batches.push(("machine_setting", batcher.batch("machine_setting", settings.len(), columns)?));
    let window = scan.window();
    let clock = session.clock;
    Ok(Finished {
        batches,
        first_ns: window.map(|(first, _)| clock.ns(first)),
        last_ns: window.map(|(_, last)| clock.ns(last)),
        events_lost: recording.events_lost(),
        offline: Vec::new(),
        stacks: session.stacks.take(),
    })
}

/// The time resolution, if the clock is not the performance counter.
fn clock_limit(recording: &Recording) -> Option<String> {
    let header = recording.scan().log().header();
    match recording.scan().log().clock().kind {
        ClockKind::Qpc => None,
        ClockKind::SystemTime => Some(format!(
            "the clock is the system time, which goes on in steps of up to {} us: anything shorter \
             is unknown; record with the performance counter",
            header.timer_resolution / 10
        )),
        ClockKind::Cycles => Some(format!(
            "the clock counts cycles, at {} million a second by the rounded value of the header: all \
             lengths may be off by one part in {}",
            header.cpu_mhz,
            2 * u64::from(header.cpu_mhz)
        )),
    }
}

/// Counts by name as rows of `record_count`.
fn record_counts(
    counts: &[(String, u64)],
    batcher: &Batcher,
) -> Result<arrow_array::RecordBatch, ArrowError> {
    let mut column = Column::default();
    for (_, count) in counts {
        column.push(i64::try_from(*count).unwrap_or(i64::MAX));
    }
    let columns = vec![
        ("record", texts(counts.iter().map(|(name, _)| Some(name)))),
        ("count", column.array()),
    ];
    batcher.batch("record_count", counts.len(), columns)
}

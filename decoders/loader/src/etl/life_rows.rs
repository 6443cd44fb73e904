//! Thread and process lifetimes as rows.

use std::ops::Range;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_etl::facts::numbering::Numbering;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};

use super::lives::{AffinitySource, Life, Lives};
use super::rows::cpu_lists;

/// Rows of `thread`.
pub(super) fn threads(
    lives: &Lives,
    batcher: &Batcher,
    range: Range<usize>,
) -> Result<RecordBatch, ArrowError> {
    let shown = lives.all.get(range.clone()).unwrap_or_default();
    let (mut utid, mut tid, mut upid) = (Column::default(), Column::default(), Column::default());
    let (mut start, mut end) = (Column::default(), Column::default());
    let (mut priority, mut idle) = (Column::default(), Column::default());
    for (number, life) in range.clone().zip(shown) {
        utid.push(lives.utid(number as u32));
        tid.push(i64::from(life.tid));
        upid.push_option(life.process.map(|process| lives.utid(process)));
        start.push_option(life.start_ns);
        end.push_option(life.end_ns);
        priority.push_option(life.base_priority.map(i32::from));
        idle.push(life.idle);
    }
    let name = |life: &Life| life.names.last().map(|(_, name)| name.clone());
    let columns = vec![
        ("utid", utid.array()),
        ("tid", tid.array()),
        ("upid", upid.array()),
        ("name", texts(shown.iter().map(name))),
        ("start_ns", start.array()),
        ("end_ns", end.array()),
        ("base_priority", priority.array()),
        ("is_idle", idle.array()),
    ];
    batcher.batch("thread", shown.len(), columns)
}

/// Rows of `process`.
pub(super) fn processes(lives: &Lives, batcher: &Batcher) -> Result<RecordBatch, ArrowError> {
    let all = &lives.processes.all;
    let (mut upid, mut pid) = (Column::default(), Column::default());
    let (mut start, mut end) = (Column::default(), Column::default());
    let (mut parent, mut session) = (Column::default(), Column::default());
    for (number, process) in all.iter().enumerate() {
        upid.push(lives.utid(number as u32));
        pid.push(i64::from(process.pid));
        start.push_option(process.start_ns);
        end.push_option(process.end_ns);
        parent.push_option(process.parent_pid.map(i64::from));
        session.push_option(process.session_id.map(i64::from));
    }
    let columns = vec![
        ("upid", upid.array()),
        ("pid", pid.array()),
        ("name", texts(all.iter().map(|process| process.name.as_deref()))),
        ("start_ns", start.array()),
        ("end_ns", end.array()),
        ("parent_pid", parent.array()),
        ("session_id", session.array()),
        ("command_line", texts(all.iter().map(|process| process.command_line.as_deref()))),
    ];
    batcher.batch("process", all.len(), columns)
}

/// Rows of `thread_name`.
pub(super) fn names(lives: &Lives, batcher: &Batcher) -> Result<RecordBatch, ArrowError> {
    let all = || {
        let numbered = lives.all.iter().enumerate();
        numbered.flat_map(|(number, life)| life.names.iter().map(move |name| (number, name)))
    };
    let (mut utid, mut ts) = (Column::default(), Column::default());
    for (number, (from, _)) in all() {
        utid.push(lives.utid(number as u32));
        ts.push_option(*from);
    }
    let rows = utid.len();
    let columns = vec![
        ("utid", utid.array()),
        ("ts", ts.array()),
        ("name", texts(all().map(|(_, (_, name))| Some(name)))),
    ];
    batcher.batch("thread_name", rows, columns)
}

/// Rows of `affinity`, and the number of masks whose group is unknown.
pub(super) fn affinities(
    lives: &Lives,
    numbering: &Numbering,
    batcher: &Batcher,
) -> Result<(RecordBatch, i64), ArrowError> {
    let (mut utid, mut from) = (Column::default(), Column::default());
    let (mut cpus, mut sources) = (Vec::new(), Vec::new());
    let mut without_group = 0;
    for (number, life) in lives.all.iter().enumerate() {
        for allowed in &life.allowed {
            let Some(group) = allowed.group else {
                without_group += 1;
                continue;
            };
            let list = numbering.cpus(group, allowed.mask);
            if list.is_empty() {
                continue;
            }
            utid.push(lives.utid(number as u32));
            from.push_option(lives.valid_from(life, allowed.from_ns));
            cpus.push(list);
            sources.push(match allowed.source {
                AffinitySource::Rundown => "rundown",
                AffinitySource::Event => "event",
            });
        }
    }
    let rows = cpus.len();
    let columns = vec![
        ("utid", utid.array()),
        ("valid_from_ns", from.array()),
        ("cpus", cpu_lists(cpus.iter().map(Vec::as_slice))),
        ("source", texts(sources.into_iter().map(Some))),
    ];
    Ok((batcher.batch("affinity", rows, columns)?, without_group))
}

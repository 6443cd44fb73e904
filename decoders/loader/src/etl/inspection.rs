//! The contents of a recording as JSON.

use schedlens_etl::Recording;
use serde_json::{Value as Json, json};

use super::session::Session;
use super::state::waits::Waits;

/// Facts about a recording as JSON: see [`Recording::inspect`], with `processes` and
/// `threads` in addition.
pub fn inspect(recording: &Recording) -> Json {
    let mut facts = recording.inspect();
    let (processes, threads) = lives(recording);
    if let Some(facts) = facts.as_object_mut() {
        facts.insert("processes".to_owned(), processes);
        facts.insert("threads".to_owned(), threads);
    }
    facts
}

/// Processes (`pid`, `name`, `start_ns`, `end_ns`) and threads (`tid`, `pid`, `name`, `start_ns`,
/// `end_ns`) from lifetime records, as JSON.
fn lives(recording: &Recording) -> (Json, Json) {
    let chosen = Recording::chosen_lives();
    let scan = recording.scan();
    let clock = scan.log().clock();
    let mut session = Session::new(
        0,
        clock,
        (recording.survey(), recording.code(), Waits::of(recording)),
        Vec::new(),
    );
    let mut merge = scan.merge(&chosen);
    while let Some(record) = merge.next_record() {
        session.take(&record, clock.ns(record.ts));
    }
    let lives = &session.lives;
    let processes = lives.processes.all.iter().filter(|process| process.has_record);
    let processes = processes.map(|process| {
        json!({
            "pid": process.pid,
            "name": process.name,
            "start_ns": process.start_ns,
            "end_ns": process.end_ns,
        })
    });
    let threads = lives.all.iter().filter(|life| !life.idle).map(|life| {
        let process = life.process.and_then(|process| lives.processes.all.get(process as usize));
        json!({
            "tid": life.tid,
            "pid": process.map(|process| process.pid),
            "name": life.names.last().map(|(_, name)| name),
            "start_ns": life.start_ns,
            "end_ns": life.end_ns,
        })
    });
    (processes.collect(), threads.collect())
}

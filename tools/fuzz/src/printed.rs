//! Texts that other programs printed: perf script, xperf's dumper, wpaexporter.

use std::io::Cursor;

use schedlens_perf_data::recording::Recording;
use schedlens_text::windows::{Dumper, Precise, Row};
use schedlens_text::{LONGEST_LINE, kind, perf_script};

use crate::loaded;

/// A text of perf script: what it becomes is a perf.data that is read.
pub fn perf_script(data: &[u8]) {
    kind(data);
    let mut out = Cursor::new(Vec::new());
    let Ok(found) = perf_script::convert(data, &mut out, |_| true) else { return };
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64;
    let unread: u64 = found.problems.iter().map(|problem| problem.count).sum();
    assert!(found.records + unread <= lines + 1, "more records than lines");
    let recording = Recording::from_bytes(out.into_inner()).expect("a perf.data of our own");
    assert!(recording.events.attrs.len() as u64 <= found.records + lines + 1);
    loaded::check(&recording);
}

/// A text of xperf's dumper.
pub fn dumper(data: &[u8]) {
    kind(data);
    let mut text = Dumper::new(data).expect("bytes in memory");
    while let Some(row) = text.next_row().expect("bytes in memory") {
        check(&row);
        assert!(row.ts.is_some(), "a row without a time");
    }
    assert!(text.read() <= 3 * data.len() as u64);
}

/// A table of wpaexporter.
pub fn precise(data: &[u8]) {
    kind(data);
    let Ok(mut text) = Precise::new(Cursor::new(data)) else { return };
    while let Some(row) = text.next_row().expect("bytes in memory") {
        check(&row);
        assert!(row.cpu.is_some() && row.new.tid.is_some(), "a row without thread or CPU");
    }
}

/// What the tables assume of every row.
fn check(row: &Row) {
    for time in [row.ts, row.ready, row.last_out, row.next_out].into_iter().flatten() {
        assert!(time.unsigned_abs() <= 400_000_000_000_000_000, "a time of {time} ns");
    }
    for who in [&row.new, &row.old, &row.by] {
        assert!(who.tid.is_none_or(|tid| (0..1 << 32).contains(&tid)), "thread {:?}", who.tid);
        assert!(who.pid.is_none_or(|pid| (0..1 << 32).contains(&pid)), "process {:?}", who.pid);
        let length = who.process.as_ref().map_or(0, String::len);
        // A byte that is not UTF-8 takes three.
        assert!(length <= 3 * 16 * LONGEST_LINE, "a name of {length} bytes");
    }
    assert!(row.cpu.is_none_or(|cpu| (0..1 << 13).contains(&cpu)), "CPU {:?}", row.cpu);
}

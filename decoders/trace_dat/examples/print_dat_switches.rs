//! Prints the context switches of a trace.dat file: time in ns, CPU, outgoing thread, incoming
//! thread.
//!
//! `cargo run -p schedlens-trace-dat --example print_dat_switches trace.dat`

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use schedlens_trace_dat::Recording;
use schedlens_trace_dat::merge::{Merge, Scope};
use schedlens_tracepoints::events::Family;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("print_dat_switches: give a trace.dat file");
        return ExitCode::from(2);
    };
    match print(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("print_dat_switches: {}: {error}", path.display());
            ExitCode::from(2)
        }
    }
}

fn print(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let recording = Recording::open(path)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut records = Merge::new(&recording, Scope::Schedule)?;
    while let Some(record) = records.peek() {
        let family = recording.events.get(record.event).map(|event| &event.family);
        if let Some(Family::Switch { fields, .. }) = family
            && let Some(prev_tid) = fields.prev_pid.id(record.raw)
            && let Some(next_tid) = fields.next_pid.id(record.raw)
        {
            writeln!(out, "{} {} {prev_tid} {next_tid}", record.ts, record.cpu)?;
        }
        records.advance();
    }
    for problem in recording.problems.rows() {
        eprintln!("{}: {} ({} times)", problem.place, problem.what, problem.count);
    }
    Ok(out.flush()?)
}

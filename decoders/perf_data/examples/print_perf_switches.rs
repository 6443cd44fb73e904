//! Prints the context switches of a perf.data file: time in ns, CPU, outgoing thread, incoming
//! thread.
//!
//! `cargo run -p schedlens-perf-data --example print_perf_switches perf.data`

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use schedlens_perf_data::{Merge, Recording};

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("print_perf_switches: give a perf.data file or folder");
        return ExitCode::from(2);
    };
    match print(Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("print_perf_switches: {}: {error}", path.display());
            ExitCode::from(2)
        }
    }
}

fn print(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let recording = Recording::open(path)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut records = Merge::new(&recording);
    while let Some(time) = records.next_time() {
        let Some(record) = records.next() else { break };
        if let Some(switch) = recording.switch(&record) {
            writeln!(out, "{time} {} {} {}", switch.cpu, switch.prev_tid, switch.next_tid)?;
        }
    }
    for problem in recording.problems.rows() {
        eprintln!("{}: {} ({} times)", problem.place, problem.what, problem.count);
    }
    Ok(out.flush()?)
}

//! Prints the context switches of .etl files: time in ns, CPU, outgoing thread, incoming thread.
//!
//! `cargo run -p schedlens-etl --example print_etl_switches kernel.etl`

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use schedlens_etl::{Chosen, Log, Switch};

fn main() -> ExitCode {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        eprintln!("print_etl_switches: give the .etl files of one recording");
        return ExitCode::from(2);
    }
    match print(&paths) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("print_etl_switches: {error}");
            ExitCode::from(2)
        }
    }
}

fn print(paths: &[PathBuf]) -> Result<(), Box<dyn std::error::Error>> {
    // The first pass orders the buffers and finds damage; this example needs no records from it.
    let scan = Log::open(paths)?.scan(&Chosen::none(), |_| {}, |_| true);
    let clock = scan.log().clock();
    let chosen = Switch::chosen();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut records = scan.merge(&chosen);
    while let Some(record) = records.next_record() {
        if let Some(switch) = Switch::of(&record) {
            let time = clock.ns(record.ts);
            writeln!(out, "{time} {} {} {}", switch.cpu, switch.prev_tid, switch.next_tid)?;
        }
    }
    for (place, what, count) in scan.problems() {
        eprintln!("{place}: {what} ({count} times)");
    }
    Ok(out.flush()?)
}

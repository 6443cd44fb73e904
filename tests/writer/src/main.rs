//! `schedlens-test-writer`: writes recordings for tests.
//!
//! ```text
//! schedlens-test-writer write [--etl FILE] [--perf FILE] < script.jsonl
//! schedlens-test-writer flood MEGABYTES FILE [none|xpress|lznt1]
//! ```

use std::fs::File;
use std::io::{BufWriter, stdin};
use std::process::ExitCode;

use schedlens_test_writer::error::WriteError;
use schedlens_test_writer::layout::{Compression, EtlOptions};
use schedlens_test_writer::script::Script;
use schedlens_test_writer::{etl, flood, perf};

const USAGE: &str = "usage: schedlens-test-writer write [--etl FILE] [--perf FILE] < SCRIPT, or \
                     flood MEGABYTES FILE [none|xpress|lznt1]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["write", rest @ ..] => written(rest),
        ["flood", megabytes, file, rest @ ..] => flooded(megabytes, file, rest),
        _ => Err(WriteError::Value(USAGE.to_owned())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("schedlens-test-writer: {error}");
            ExitCode::from(2)
        }
    }
}

fn written(options: &[&str]) -> Result<(), WriteError> {
    let (mut etl_path, mut perf_path) = (None, None);
    let mut left = options.iter();
    while let Some(option) = left.next() {
        let target = match *option {
            "--etl" => &mut etl_path,
            "--perf" => &mut perf_path,
            _ => return Err(WriteError::Value(USAGE.to_owned())),
        };
        *target = Some(left.next().ok_or_else(|| WriteError::Value(USAGE.to_owned()))?);
    }
    let (head, mut script) = Script::open(stdin().lock())?;
    let mut etl_writer = match etl_path {
        Some(path) => {
            let out = BufWriter::new(File::create(path)?);
            Some(etl::Writer::new(out, head.machine.clone(), head.etl.clone())?)
        }
        None => None,
    };
    let mut perf_writer = perf_path.map(|_| perf::Writer::new(head.machine, head.perf));
    while let Some(line) = script.line()? {
        let number = script.number();
        if let Some(writer) = &mut etl_writer {
            writer.line(&line).map_err(|error| error.at(number))?;
        }
        if let Some(writer) = &mut perf_writer {
            writer.line(&line).map_err(|error| error.at(number))?;
        }
    }
    if let Some(writer) = etl_writer {
        writer.finish()?;
    }
    if let (Some(writer), Some(path)) = (perf_writer, perf_path) {
        writer.finish(BufWriter::new(File::create(path)?))?;
    }
    Ok(())
}

fn flooded(megabytes: &str, file: &str, rest: &[&str]) -> Result<(), WriteError> {
    let wrong = || WriteError::Value(USAGE.to_owned());
    let size: u64 = megabytes.parse().map_err(|_| wrong())?;
    let compression = match rest {
        [] | ["none"] => Compression::None,
        ["xpress"] => Compression::Xpress,
        ["lznt1"] => Compression::Lznt1,
        _ => return Err(wrong()),
    };
    let merged = compression != Compression::None;
    let options = EtlOptions {
        compression,
        merged,
        buffer_size: 1 << 20,
        shuffle: Some(1),
        ..EtlOptions::default()
    };
    let out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let records = flood::write(out, size * 1_000_000, options)?;
    println!("{records}");
    Ok(())
}

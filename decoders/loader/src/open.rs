//! Opens a recording of any format, and what needs no state machine: its contents, and its bare
//! decoding time.

use std::collections::HashMap;
use std::path::PathBuf;

use schedlens_schedule::batcher::Batcher;

use crate::error::DecodeError;
use crate::format::{self, Format};
use crate::reader::Reader;
use crate::tables::{self, Folder};
use crate::{etl, perf, trace_dat};

/// Opens a recording of any format; `on_progress` receives the bytes read and the total.
///
/// # Errors
/// The format is unknown, nothing in the recording can be read, or several files are not all Windows
/// logs.
pub fn open(
    paths: &[PathBuf],
    on_progress: impl FnMut(u64, u64) -> bool,
) -> Result<Box<dyn Reader>, DecodeError> {
    match only_format(paths)? {
        (path, Format::Perf) => Ok(Box::new(schedlens_perf_data::Recording::open(path)?)),
        (path, Format::TraceDat) => Ok(Box::new(schedlens_trace_dat::Recording::open(path)?)),
        (_, Format::Etl) => Ok(Box::new(schedlens_etl::Recording::open(paths, on_progress)?)),
        (path, Format::Tables) => Ok(Box::new(Folder::open(path)?)),
    }
}

/// The contents of a recording as JSON: see [`crate::perf::inspect`],
/// [`crate::trace_dat::inspect`], [`crate::etl::inspect`] and [`crate::tables::inspect`].
///
/// # Errors
/// As [`open`].
pub fn inspect(paths: &[PathBuf]) -> Result<String, DecodeError> {
    match only_format(paths)? {
        (path, Format::Perf) => {
            Ok(perf::inspect(&schedlens_perf_data::Recording::open(path)?).to_string())
        }
        (path, Format::TraceDat) => {
            Ok(trace_dat::inspect(&schedlens_trace_dat::Recording::open(path)?).to_string())
        }
        (_, Format::Etl) => {
            Ok(etl::inspect(&schedlens_etl::Recording::open(paths, |_, _| true)?).to_string())
        }
        (path, Format::Tables) => Ok(tables::inspect(&Folder::open(path)?)?.to_string()),
    }
}

/// The first file, and the common format of all files.
fn only_format(paths: &[PathBuf]) -> Result<(&PathBuf, Format), DecodeError> {
    let formats: Vec<Format> =
        paths.iter().map(|path| format::of(path)).collect::<Result<_, _>>()?;
    let (Some(path), Some(first)) = (paths.first(), formats.first()) else {
        return Err(schedlens_perf_data::Error::NoData.into());
    };
    if paths.len() > 1 && formats.iter().any(|format| *format != Format::Etl) {
        return Err(DecodeError::NotTogether {
            what: "only .etl files can be given together".to_owned(),
        });
    }
    Ok((path, *first))
}

/// Reads a recording into base-table batches and discards them; returns records, rows and seconds.
///
/// # Errors
/// As [`open`].
pub fn decode_only(paths: &[PathBuf]) -> Result<(u64, u64, f64), DecodeError> {
    let begin = std::time::Instant::now();
    let recording = open(paths, |_, _| true)?;
    let batcher = Batcher::new(1);
    let mut chunks = recording.chunks(&batcher, 1, HashMap::new());
    let mut rows = 0;
    while let Some(chunk) = chunks.next_chunk(&mut |_| true)? {
        rows += chunk.batches.iter().map(|(_, batch)| batch.num_rows() as u64).sum::<u64>();
    }
    chunks.finish()?;
    Ok((recording.records(), rows, begin.elapsed().as_secs_f64()))
}

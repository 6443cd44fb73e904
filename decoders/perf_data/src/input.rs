//! The files of a recording: a file, pipe output, or a folder.

use std::path::{Path, PathBuf};

use schedlens_input::files::{Segment, map};

use crate::error::Error;

/// The files of one recording.
pub struct Input {
    /// The file that contains the header.
    pub main: Segment,
    /// Streams of records without a header, one per recorder thread.
    pub streams: Vec<(String, Segment)>,
}

impl Input {
    /// Opens a perf.data file, or the folder that `perf record --threads` writes.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if !path.is_dir() {
            return Ok(Self { main: map(path)?, streams: Vec::new() });
        }
        let main = path.join("data");
        if !main.is_file() {
            return Err(Error::NoData);
        }
        let mut parts: Vec<(u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let part = entry?.path();
            let name = part.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if let Some(number) = name.strip_prefix("data.").and_then(|tail| tail.parse().ok()) {
                parts.push((number, part));
            }
        }
        parts.sort();
        let streams = parts
            .into_iter()
            .map(|(number, part)| Ok((format!("data.{number}"), map(&part)?)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { main: map(&main)?, streams })
    }
}

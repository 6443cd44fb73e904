//! Reads the description of a recording in a file of any version.

use schedlens_input::bytes::Bytes;
use schedlens_input::problem::Problems;
use schedlens_tracepoints::formats::{self, Beginning};

use crate::error::Error;
use crate::parts::Parts;
use crate::{version_6, version_7};

/// Reads everything but the records.
///
/// # Errors
/// The file is of another kind, or ends before its description does.
pub(crate) fn read(file: &[u8], problems: &mut Problems) -> Result<Parts, Error> {
    let mut bytes = Bytes::new(file, "the header of trace.dat");
    let beginning = match formats::beginning(&mut bytes) {
        // A short file that begins like one is cut off.
        Err(_)
            if !file.starts_with(formats::MAGIC.get(..file.len().min(10)).unwrap_or_default()) =>
        {
            return Err(Error::Magic { found: file.get(..10).unwrap_or(file).to_vec() });
        }
        other => other?,
    };
    let Beginning { version, page_size, .. } = beginning;
    let mut parts = match version.as_str() {
        "6" => version_6::read(file, bytes, page_size)?,
        "7" => version_7::read(file, bytes, page_size, problems)?,
        _ => return Err(Error::Version { found: version.escape_default().to_string() }),
    };
    for number in std::mem::take(&mut parts.options.damaged) {
        problems.add(format!("option {number}"), "is shorter than its contents: left out");
    }
    if parts.options.surplus > 0 {
        let what = "are more than are read, or have too many CPUs: left out";
        problems.add_many("some buffers", what, i64::from(parts.options.surplus));
    }
    if parts.options.buffers.iter().all(|buffer| buffer.is_text) {
        let is_text = !parts.options.buffers.is_empty();
        return Err(if is_text { Error::Latency } else { Error::NoData });
    }
    Ok(parts)
}

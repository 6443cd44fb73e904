//! Problems visible only from the recording's files as a whole, not from a single record.

use schedlens_input::problem::Problems;

use crate::container::log::Log;

/// Documented layouts of `TRACE_LOGFILE_HEADER`: Vista's, that of Windows 7 to 11, and that of
/// packed files.
const LAYOUTS: [(u8, u8); 3] = [(1, 4), (1, 5), (2, 0)];

const LAYOUT: &str =
    "a layout of the log that is not described: read as that of Windows 7 to 11, check the numbers";
const NEWER: &str = "buffers with flags or of a type that is not described: read as ordinary ones";
const REPEATED: &str = "in the file twice: the second one left out";
const PACKING: &str =
    "the first buffer does not tell how the others are packed: found by trying, check the numbers";
const EMPTY: &str = "a log in the archive without a byte: left out";

/// Adds the problems of the files, once their buffers have been read.
pub(crate) fn add(log: &Log, problems: &mut Problems) {
    for name in &log.empty {
        problems.add(name.clone(), EMPTY);
    }
    for file in &log.files {
        let place = |what: String| match log.files.len() {
            1 => what,
            _ => format!("{}, {what}", file.name),
        };
        let (major, minor) = file.header.layout;
        if !LAYOUTS.contains(&file.header.layout) {
            problems.add(place(format!("header, layout {major}.{minor}")), LAYOUT);
        }
        if let Some((first, count)) = file.newer {
            problems.add_many(place(format!("from {first:#x} on")), NEWER, count);
        }
        if file.repeated > 0 {
            problems.add_many(place("buffers".to_owned()), REPEATED, file.repeated);
        }
        if file.packing_tried {
            problems.add(place(format!("packed with {}", file.packing.name())), PACKING);
        }
    }
}

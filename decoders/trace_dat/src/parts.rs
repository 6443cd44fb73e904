//! The parts of a file, of whichever version.

use schedlens_tracepoints::formats::Format;

use crate::options::Options;
use crate::packing::Packing;

/// The description of a recording.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) version: u32,
    pub(crate) page_size: u32,
    pub(crate) packing: Packing,
    /// The fields of a page's header.
    pub(crate) header_page: Format,
    /// All tracepoints that the file describes.
    pub(crate) formats: Vec<Format>,
    /// Names of threads by id, as they were when the recording ended.
    pub(crate) names: Vec<(i32, String)>,
    pub(crate) options: Options,
}

/// The lines of `saved_cmdlines`: an id and a name.
pub(crate) fn names(text: &[u8]) -> Vec<(i32, String)> {
    let text = String::from_utf8_lossy(text);
    let line = |line: &str| {
        let (tid, name) = line.trim_end_matches('\0').split_once(' ')?;
        // The kernel's word for a name that it has forgotten.
        (name != "<...>").then_some((tid.parse().ok()?, name.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_blanks_and_forgotten_ones_are_left_out() {
        let found = names(b"12 a b\n13 <...>\nno number\n14 c\n\0");
        assert_eq!(found, [(12, "a b".to_owned()), (14, "c".to_owned())]);
    }
}

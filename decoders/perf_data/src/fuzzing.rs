//! Internal readers, for the fuzz targets.

use schedlens_tracepoints::{formats, print_fmt};

use crate::features::Features;

/// Reads feature sections into one description of the machine.
pub fn features<'a>(sections: impl Iterator<Item = (u32, &'a [u8])>) -> Features {
    let mut features = Features::default();
    for (number, bytes) in sections {
        // A damaged section is reported as a problem and the others are read all the same.
        let _ = features.add(number, bytes);
    }
    features
}

/// Reads the tracepoint formats of `HEADER_TRACING_DATA`; returns their number.
pub fn formats(bytes: &[u8]) -> usize {
    let found = formats::read(bytes).unwrap_or_default();
    for format in &found {
        print_fmt::plus_mask(&format.print_fmt);
        for field in &format.fields {
            print_fmt::symbols(&format.print_fmt, &field.name);
        }
    }
    found.len()
}

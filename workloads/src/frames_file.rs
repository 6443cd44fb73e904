//! `frames.csv`: a line for each frame, as docs/frame-marks.md describes it.

use std::io::{self, Write};

use crate::beat::FrameMark;

/// Its header line.
const HEADER: &str = "pid,tid,start_mono_ns,present_mono_ns";

/// Writes the whole file; `frames` contains the thread of each frame.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, pid: u32, frames: &[(u32, FrameMark)]) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    for (tid, mark) in frames {
        write!(out, "{pid},{tid},{},", mark.start_mono_ns)?;
        match mark.present_mono_ns {
            Some(present_ns) => writeln!(out, "{present_ns}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_line_and_what_is_not_known_is_empty() {
        let frames = [
            (8, FrameMark { start_mono_ns: 1_000, present_mono_ns: Some(1_700) }),
            (8, FrameMark { start_mono_ns: 2_000, present_mono_ns: None }),
        ];
        let mut bytes = Vec::new();
        write(&mut bytes, 7, &frames).expect("a Vec takes all bytes");
        let wanted = "pid,tid,start_mono_ns,present_mono_ns\n7,8,1000,1700\n7,8,2000,\n";
        assert_eq!(String::from_utf8(bytes).as_deref(), Ok(wanted));
    }
}

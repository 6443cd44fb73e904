//! Atomic writes: a temporary file is written, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::beat::FrameMark;
use crate::frames_file;
use crate::samples::{self, Sample};
use serde_json::Value;

/// Deleted before a run, because files that this run does not write would be from an earlier one.
const RESULTS: [&str; 2] = ["workload.json", "frames.csv"];

/// Writes `samples.bin`, `frames.csv` of a run with frames, then `workload.json`: if the last one
/// exists, all are complete.
///
/// # Errors
/// One line that names the file.
pub fn write(
    folder: &Path,
    samples: &[Sample],
    frames: &[(u32, FrameMark)],
    workload: &Value,
) -> Result<(), String> {
    replace(&folder.join("samples.bin"), |out| samples::write(out, samples))?;
    if !frames.is_empty() {
        let pid = std::process::id();
        let path = folder.join("frames.csv");
        replace(&path, |out| frames_file::write(out, pid, frames))?;
    }
    write_workload(folder, workload)
}

/// Writes `workload.json` alone.
///
/// # Errors
/// One line that names the file.
pub fn write_workload(folder: &Path, workload: &Value) -> Result<(), String> {
    replace(&folder.join("workload.json"), |out| writeln!(out, "{workload}"))
}

/// Creates the folder if necessary, and deletes the result of an earlier run in it.
///
/// # Errors
/// One line that names the folder.
pub fn prepare(folder: &Path) -> Result<(), String> {
    let made = fs::create_dir_all(folder).and_then(|()| {
        RESULTS.iter().try_for_each(|name| match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    });
    made.map_err(|error| format!("cannot write to {}: {error}", folder.display()))
}

fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), String> {
    let aside = path.with_extension("tmp");
    let written = File::create(&aside).map(BufWriter::new).and_then(|mut out| {
        write(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(&aside, path)
    });
    written.map_err(|error| {
        // The partial file is useless; failing to delete it must not hide the error.
        drop(fs::remove_file(&aside));
        format!("cannot write {}: {error}", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_appear_complete_and_no_temporary_file_remains() {
        let folder = std::env::temp_dir().join(format!("schedlens-folder-{}", std::process::id()));
        prepare(&folder).expect("the temporary folder is writable");
        let frame = FrameMark { start_mono_ns: 5, present_mono_ns: None };
        let value = Value::from(true);
        write(&folder, &[], &[(7, frame)], &value).expect("the temporary folder is writable");
        let mut names: Vec<String> = fs::read_dir(&folder)
            .expect("the folder is there")
            .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()
            .expect("the folder can be read");
        names.sort();
        assert_eq!(names, ["frames.csv", "samples.bin", "workload.json"]);
        assert_eq!(fs::read(folder.join("samples.bin")).ok(), Some(samples::MAGIC.to_vec()));
        assert_eq!(fs::read_to_string(folder.join("workload.json")).ok(), Some("true\n".into()));
        prepare(&folder).expect("the folder can be used again");
        assert!(!folder.join("workload.json").exists() && !folder.join("frames.csv").exists());
        drop(fs::remove_dir_all(&folder));
        assert!(write(&folder, &[], &[], &Value::Null).is_err());
    }
}

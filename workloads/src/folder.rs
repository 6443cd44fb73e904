//! Whole files only: written aside, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::json::Value;
use crate::samples::{self, Sample};

/// Writes `samples.bin`, then `workload.json`: where the second is, both are whole.
///
/// # Errors
/// One line that names the file.
pub fn write(folder: &Path, samples: &[Sample], workload: &Value) -> Result<(), String> {
    replace(&folder.join("samples.bin"), |out| samples::write(out, samples))?;
    write_workload(folder, workload)
}

/// Writes `workload.json` alone.
///
/// # Errors
/// One line that names the file.
pub fn write_workload(folder: &Path, workload: &Value) -> Result<(), String> {
    replace(&folder.join("workload.json"), |out| writeln!(out, "{workload}"))
}

/// Makes the folder where it is missing; a result of an earlier run in it is removed.
///
/// # Errors
/// One line that names the folder.
pub fn prepare(folder: &Path) -> Result<(), String> {
    let made = fs::create_dir_all(folder).and_then(|()| {
        match fs::remove_file(folder.join("workload.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
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
        // What was written of it is of no use; that it may not be there is no second error.
        drop(fs::remove_file(&aside));
        format!("cannot write {}: {error}", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_appear_whole_and_nothing_stays_aside() {
        let folder = std::env::temp_dir().join(format!("schedlens-folder-{}", std::process::id()));
        prepare(&folder).expect("the temporary folder is writable");
        write(&folder, &[], &Value::from(true)).expect("the temporary folder is writable");
        let mut names: Vec<String> = fs::read_dir(&folder)
            .expect("the folder is there")
            .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<_>>()
            .expect("the folder can be read");
        names.sort();
        assert_eq!(names, ["samples.bin", "workload.json"]);
        assert_eq!(fs::read(folder.join("samples.bin")).ok(), Some(samples::MAGIC.to_vec()));
        assert_eq!(fs::read_to_string(folder.join("workload.json")).ok(), Some("true\n".into()));
        prepare(&folder).expect("the folder can be used again");
        assert!(!folder.join("workload.json").exists());
        drop(fs::remove_dir_all(&folder));
        assert!(write(&folder, &[], &Value::Null).is_err());
    }
}

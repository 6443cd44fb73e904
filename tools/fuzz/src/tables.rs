//! Folders of Arrow files: sound ones in which bytes are changed, and files of arbitrary bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use schedlens_loader::tables::Folder;

use crate::bytes::Bytes;
use crate::{caught, loaded, states};

const MOST_CHANGES: u8 = 8;
/// The number of the manifest among the files that are damaged.
const MANIFEST: u8 = 255;
/// Tables that a folder must have.
const NEEDED: [&str; 3] = ["cpu", "thread", "context_switch"];

/// A folder of this process, below one that the caller names and deletes.
fn home() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let parent = std::env::var_os("SCHEDLENS_FUZZ_FOLDER").map(PathBuf::from);
        let name = format!("schedlens-fuzz-{}", std::process::id());
        parent.unwrap_or_else(std::env::temp_dir).join(name)
    })
}

fn encoded(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, batch.schema_ref()).expect("a schema");
    writer.write(batch).expect("a batch");
    writer.finish().expect("a footer");
    drop(writer);
    bytes
}

fn manifest(rows: &BTreeMap<&'static str, usize>, (first, last): (i64, i64), source: u8) -> String {
    let source = ["perf", "etw", "perfetto"][usize::from(source % 3)];
    let tables: Vec<String> =
        rows.iter().map(|(name, rows)| format!("\"{name}\":{rows}")).collect();
    format!(
        "{{\"format\":\"schedlens-tables\",\"format_version\":1,\"source\":\"{source}\",\
         \"trace\":{{\"start_clock\":5,\"clock_hz\":1000000000,\"first_ns\":{first},\
         \"duration_ns\":{last}}},\"tables\":{{{}}}}}",
        tables.join(",")
    )
}

/// Makes a folder contain these files and no others. Those that the last input had are kept: most
/// inputs change few of them.
fn write(folder: &Path, files: Vec<(String, Vec<u8>)>) {
    static LAST: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_empty() {
        fs::create_dir_all(folder).expect("a folder");
    }
    let files = BTreeMap::from_iter(files);
    for name in last.keys().filter(|name| !files.contains_key(*name)) {
        fs::remove_file(folder.join(name)).expect("a file of the last input");
    }
    for (name, content) in files.iter().filter(|(name, content)| last.get(*name) != Some(content)) {
        fs::write(folder.join(name), content).expect("a file");
    }
    *last = files;
}

/// Writes a folder, damages one of its files, and reads it.
///
/// The reader catches panics of arrow-ipc and refuses the file.
pub fn target(data: &[u8]) {
    caught::only_what_leaves(|| read_damaged(data));
}

fn read_damaged(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (mode, which, count) = (bytes.u8(), bytes.u8(), bytes.u8() % (MOST_CHANGES + 1));
    let changes: Vec<(u16, u8)> = (0..count).map(|_| (bytes.u16(), bytes.u8())).collect();
    // In place of the file, the rest of the bytes, or rows made from them.
    let is_raw = mode & 1 == 1;
    let rest = bytes.0;
    let (mut tables, window) = states::base_tables(if is_raw { &[] } else { rest });
    for name in NEEDED {
        tables.entry(name).or_insert_with(|| states::no_rows(name));
    }
    let rows = tables.iter().map(|(name, batch)| (*name, batch.num_rows())).collect();
    let mut files: Vec<(String, Vec<u8>)> =
        tables.iter().map(|(name, batch)| (format!("{name}.arrow"), encoded(batch))).collect();
    let listed = files.len();
    files.push(("tables.json".to_owned(), manifest(&rows, window, mode >> 1).into_bytes()));
    let chosen = if which == MANIFEST { listed } else { usize::from(which) % listed };
    let damaged = &mut files[chosen].1;
    if is_raw {
        *damaged = rest.to_vec();
    }
    for (place, change) in changes {
        let at = usize::from(place) * damaged.len() / (1 << 16);
        if let Some(byte) = damaged.get_mut(at) {
            *byte ^= change;
        }
    }
    let folder = home();
    write(folder, files);
    // What is wrong is refused with one error; what is read keeps the laws.
    if let Ok(found) = Folder::open(folder) {
        let refused = loaded::check_folder(&found);
        let is_sound = count == 0 && !is_raw;
        assert!(!is_sound || refused.is_ok(), "a sound folder is refused: {refused:?}");
    }
}

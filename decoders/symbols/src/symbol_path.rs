//! `_NT_SYMBOL_PATH`: where PDB files are looked for.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The folders of a symbol path, in order. Servers in it are not contacted: of `srv*CACHE*SERVER`
/// only the cache is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolPath {
    folders: Vec<PathBuf>,
}

impl SymbolPath {
    /// Reads the elements `FOLDER`, `srv*CACHE*SERVER`, `symsrv*DLL*CACHE*SERVER` and
    /// `cache*FOLDER`, separated by `;`.
    pub fn parse(text: &str) -> Self {
        let mut folders = Vec::new();
        for element in text.split(';').map(str::trim) {
            let mut parts = element.split('*').map(str::trim);
            let first = parts.next().unwrap_or_default();
            let places: Vec<&str> = match first.to_ascii_lowercase().as_str() {
                "srv" | "cache" => parts.collect(),
                "symsrv" => parts.skip(1).collect(),
                _ => vec![first],
            };
            folders.extend(places.into_iter().filter(|place| is_local(place)).map(PathBuf::from));
        }
        folders.dedup();
        Self { folders }
    }

    /// Adds a folder after the others.
    pub fn push(&mut self, folder: PathBuf) {
        self.folders.push(folder);
    }

    /// Files that may be the one of that name, which is a path of Windows or its last part. `id` is
    /// the signature and age of a PDB, or stamp and size of a program; empty: only plain folders
    /// are looked into.
    pub fn candidates(&self, name: &str, id: &str) -> Vec<PathBuf> {
        let Some(file) = file_name(name) else { return Vec::new() };
        let mut found: Vec<PathBuf> = Vec::new();
        for (folder, name) in self.in_stores(file, id) {
            found.push(folder.join(&name));
            found.extend(pointed_to(&folder.join(POINTER)).ok());
        }
        for (folder, name) in self.in_folders(file) {
            found.push(folder.join(name));
        }
        // Where it was linked, if that was this machine.
        if has_drive(name) {
            found.push(PathBuf::from(name));
        }
        found.retain(|path| path.is_file());
        found
    }

    /// What the symbol path has in place of such a file, if it has no readable one.
    pub fn elsewhere(&self, name: &str, id: &str) -> Option<Elsewhere> {
        let file = file_name(name)?;
        let stores = self.in_stores(file, id);
        let pointer = stores.iter().find_map(|(folder, _)| pointed_to(&folder.join(POINTER)).err());
        let all = stores.into_iter().chain(self.in_folders(file));
        let mut packed = all.map(|(folder, name)| folder.join(compressed(&name)));
        let packed = packed.find(|path| path.is_file()).map(Elsewhere::Compressed);
        packed.or(pointer.flatten().map(Elsewhere::Pointer))
    }

    /// The folders of a file in stores, with its name in the spelling of the folder.
    fn in_stores(&self, file: &str, id: &str) -> Vec<(PathBuf, String)> {
        let ids = [id.to_owned(), id.to_lowercase()];
        let mut found = Vec::new();
        for (folder, name) in self.in_folders(file) {
            for id in ids.iter().filter(|id| !id.is_empty()) {
                found.push((folder.join(&name).join(id), name.clone()));
                // Stores with an index2.txt have one more level.
                if let Some(start) = name.get(..2) {
                    found.push((folder.join(start).join(&name).join(id), name.clone()));
                }
            }
        }
        found
    }

    fn in_folders(&self, file: &str) -> Vec<(PathBuf, String)> {
        let lower = file.to_lowercase();
        let names = if lower == file { vec![lower] } else { vec![file.to_owned(), lower] };
        let folders = self.folders.iter();
        folders.flat_map(|folder| names.iter().map(|name| (folder.clone(), name.clone()))).collect()
    }
}

/// What a symbol path has in place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// A compressed one.
    Compressed(PathBuf),
    /// A text that says where it is, or why it is not there: a place that cannot be read from here.
    Pointer(String),
}

/// The file in a store that says where another one is.
const POINTER: &str = "file.ptr";
const LONGEST_POINTER: u64 = 1 << 12;

/// The file that a `file.ptr` names; an error is its text, if there is one: a message, or a place
/// that is not on this machine.
fn pointed_to(pointer: &Path) -> Result<PathBuf, Option<String>> {
    if !pointer.is_file() {
        return Err(None);
    }
    let mut bytes = Vec::new();
    let file = File::open(pointer).map_err(|_| None)?;
    file.take(LONGEST_POINTER).read_to_end(&mut bytes).map_err(|_| None)?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default().trim();
    let place = match line.get(..5) {
        Some(start) if start.eq_ignore_ascii_case("PATH:") => line[5..].trim(),
        _ => return Err(Some(line.to_owned())),
    };
    let is_here = is_local(place) && Path::new(place).is_absolute() && Path::new(place).is_file();
    if is_here { Ok(PathBuf::from(place)) } else { Err(Some(place.to_owned())) }
}

/// `game.pd_` for `game.pdb`: the last character of a compressed file is replaced.
fn compressed(name: &str) -> String {
    let mut packed = name.to_owned();
    packed.pop();
    packed.push('_');
    packed
}

/// The last part of a path of Windows, unless it would lead out of the folder it is looked for in.
fn file_name(path: &str) -> Option<&str> {
    let name = path.rsplit(['\\', '/']).next()?;
    let leads_out = name.is_empty() || name == "." || name == ".." || name.contains([':', '\0']);
    (!leads_out).then_some(name)
}

fn has_drive(path: &str) -> bool {
    Path::new(path).is_absolute()
        && matches!(path.as_bytes(), [drive, b':', ..] if drive.is_ascii_alphabetic())
}

/// Not a server, and not a folder of another machine.
fn is_local(place: &str) -> bool {
    let is_remote = place.contains("://") || place.starts_with("\\\\") || place.starts_with("//");
    !place.is_empty() && !is_remote
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_caches_are_read_and_servers_left_out() {
        let text = "srv*C:\\cache*https://msdl.microsoft.com/download/symbols;D:\\own; ;\
                    SRV*/one*/two*http://other;symsrv*symsrv.dll*/three*\\\\server\\share;\
                    cache*/four;srv*;https://plain;\\\\server\\more";
        let folders = ["C:\\cache", "D:\\own", "/one", "/two", "/three", "/four"];
        assert_eq!(SymbolPath::parse(text).folders, folders.map(PathBuf::from));
    }

    #[test]
    fn names_that_lead_out_of_a_folder_are_refused() {
        for (path, name) in [
            ("D:\\build\\game.pdb", Some("game.pdb")),
            ("../game.pdb", Some("game.pdb")),
            ("..\\..", None),
            ("a/", None),
            ("game.pdb:stream", None),
        ] {
            assert_eq!(file_name(path), name);
        }
    }

    #[test]
    fn pointers_and_compressed_files_are_what_is_there_instead() {
        let folder = std::env::temp_dir().join(format!("symbol-pointer-{}", std::process::id()));
        let path = SymbolPath { folders: vec![folder.clone()] };
        let store = folder.join("game.pdb").join("AB1");
        std::fs::create_dir_all(&store).expect("folder");
        let there = folder.join("there.pdb");
        std::fs::write(&there, "").expect("file");
        let local = format!("PATH:{}\r\n", there.display());
        let pointer = |text: &str| Some(Elsewhere::Pointer(text.to_owned()));
        let share = r"\\server\share\game.pdb";
        let cases = [
            (local.as_str(), Some(&there), None),
            (r"path: \\server\share\game.pdb", None, pointer(share)),
            (r"PATH:D:\gone\game.pdb", None, pointer(r"D:\gone\game.pdb")),
            ("PATH:relative.pdb", None, pointer("relative.pdb")),
            ("MSG: Symbol file removed\nmore", None, pointer("MSG: Symbol file removed")),
            ("", None, pointer("")),
        ];
        for (text, found, elsewhere) in cases {
            std::fs::write(store.join(POINTER), text).expect("file");
            let names: Vec<&PathBuf> = found.into_iter().collect();
            assert_eq!(path.candidates("game.pdb", "AB1").iter().collect::<Vec<_>>(), names);
            assert_eq!(path.elsewhere("game.pdb", "AB1"), elsewhere, "{text}");
        }
        let packed = store.join("game.pd_");
        std::fs::write(&packed, "").expect("file");
        assert_eq!(path.elsewhere("game.pdb", "AB1"), Some(Elsewhere::Compressed(packed)));
        assert_eq!(path.elsewhere("other.pdb", "AB1"), None);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_file_is_found_in_a_plain_folder_and_in_stores_of_both_layouts() {
        let folder = std::env::temp_dir().join(format!("symbol-path-{}", std::process::id()));
        let all = ["Game.pdb", "game.pdb/AB1/game.pdb", "ga/game.pdb/ab1/game.pdb"];
        let path = SymbolPath { folders: vec![folder.clone()] };
        for place in all {
            let file = folder.join(place);
            std::fs::create_dir_all(file.parent().expect("parent")).expect("folder");
            std::fs::write(&file, "").expect("file");
            let found = path.candidates("D:\\build\\Game.pdb", "AB1");
            assert!(found.contains(&file), "{found:?}");
            assert_eq!(path.candidates("other.pdb", "AB1"), Vec::<PathBuf>::new());
            std::fs::remove_dir_all(&folder).expect("removed");
        }
    }
}

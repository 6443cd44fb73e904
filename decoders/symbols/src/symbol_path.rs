//! `_NT_SYMBOL_PATH`: where PDB files are looked for.

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

    /// Files that may be the PDB of that name, which is the path where it was linked or its last
    /// part; `id` is its signature and age.
    pub fn candidates(&self, name: &str, id: &str) -> Vec<PathBuf> {
        let Some(file) = file_name(name) else { return Vec::new() };
        let lower = file.to_lowercase();
        let names = if lower == file { vec![file] } else { vec![file, &lower] };
        let lower_id = id.to_lowercase();
        let mut found: Vec<PathBuf> = Vec::new();
        for folder in &self.folders {
            for name in &names {
                for id in [id, &lower_id] {
                    found.push(folder.join(name).join(id).join(name));
                    // Stores with an index2.txt have one more level.
                    if let Some(start) = name.get(..2) {
                        found.push(folder.join(start).join(name).join(id).join(name));
                    }
                }
                found.push(folder.join(name));
            }
        }
        // Where it was linked, if that was this machine.
        if has_drive(name) {
            found.push(PathBuf::from(name));
        }
        found.retain(|path| path.is_file());
        found
    }
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

//! Where the debug information of a file is: in itself, or in a file that distributions install.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use object::Object;

/// Folders in which files are looked for.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Folders laid out like `/usr/lib/debug`, in order of preference.
    pub debug: Vec<PathBuf>,
    /// Caches of debuginfod clients, in order of preference.
    pub debuginfod: Vec<PathBuf>,
    /// Folder that replaces `/` in the paths of a recording; `None`: this machine's own.
    pub root: Option<PathBuf>,
}

impl Places {
    /// Those of this machine: `/usr/lib/debug`, and what a debuginfod client has already fetched.
    pub fn of_this_machine() -> Self {
        let of = |name| std::env::var_os(name).map(PathBuf::from);
        let home = || of("HOME").map(|home| home.join(".cache"));
        let cache = of("DEBUGINFOD_CACHE_PATH")
            .or_else(|| Some(of("XDG_CACHE_HOME").or_else(home)?.join("debuginfod_client")));
        Self {
            debug: vec![PathBuf::from("/usr/lib/debug")],
            debuginfod: cache.into_iter().collect(),
            root: None,
        }
    }

    /// A file of that build that a debuginfod client has fetched.
    pub(crate) fn fetched_file(&self, build_id: &[u8]) -> Option<PathBuf> {
        let hex = hex(build_id);
        let found = self.debuginfod.iter().map(|folder| folder.join(&hex).join("executable"));
        found.into_iter().find(|path| has_build_id(path, Some(build_id)))
    }

    /// The place of a file of the recording on this machine.
    pub fn file(&self, name: &str) -> PathBuf {
        match &self.root {
            Some(root) => root.join(name.trim_start_matches('/')),
            None => PathBuf::from(name),
        }
    }

    /// The separate debug file of a file, if there is one of the same build.
    pub(crate) fn debug_file(&self, path: &Path, file: &object::File<'_>) -> Option<PathBuf> {
        let build_id = file.build_id().ok().flatten();
        let by_id = build_id.into_iter().flat_map(|id| self.by_build_id(id));
        let by_link = self.by_link(path, file);
        by_id
            .filter(|found| has_build_id(found, build_id))
            .chain(by_link.into_iter().filter(|found| has_build_id(found, build_id)))
            .next()
    }

    fn by_build_id(&self, id: &[u8]) -> Vec<PathBuf> {
        let hex = hex(id);
        let Some((first, rest)) = hex.split_at_checked(2) else { return Vec::new() };
        let name = format!("{first}/{rest}.debug");
        let installed = self.debug.iter().map(|folder| folder.join(".build-id").join(&name));
        let fetched = self.debuginfod.iter().map(|folder| folder.join(&hex).join("debuginfo"));
        installed.chain(fetched).collect()
    }

    fn by_link(&self, path: &Path, file: &object::File<'_>) -> Vec<PathBuf> {
        let Some((name, _)) = file.gnu_debuglink().ok().flatten() else { return Vec::new() };
        let name = String::from_utf8_lossy(name).into_owned();
        // A name, not a path: a file must not send the reader elsewhere.
        if name.contains('/') || name == ".." {
            return Vec::new();
        }
        let Some(folder) = path.parent() else { return Vec::new() };
        let inside = folder.strip_prefix("/").unwrap_or(folder);
        let near = [folder.join(&name), folder.join(".debug").join(&name)];
        let installed = self.debug.iter().map(|debug| debug.join(inside).join(&name));
        near.into_iter().filter(|found| found != path).chain(installed).collect()
    }
}

/// Whether it is an ELF file with that build id; without one, whether it is a file.
fn has_build_id(path: &Path, wanted: Option<&[u8]>) -> bool {
    if !path.is_file() {
        return false;
    }
    let Some(wanted) = wanted else { return true };
    let Ok(bytes) = schedlens_input::files::Mapped::open(path) else { return false };
    object::File::parse(bytes.bytes())
        .ok()
        .and_then(|file| file.build_id().ok().flatten().map(|id| id == wanted))
        .unwrap_or(false)
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

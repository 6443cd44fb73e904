//! A PDB file: the functions at addresses of the file that was linked with it.

mod bounds;
mod modules;
mod source;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pdb_addr2line::pdb::{PDB, Rva};
use pdb_addr2line::{Context, ContextPdbData, TypeFormatterFlags};
use schedlens_input::files::Mapped;

use self::source::Pages;
use crate::function::{Function, cut, demangled};
use crate::image::Missing;

/// Bytes of names that are kept for the next address.
const MOST_KEPT: usize = 256 << 20;
/// After more panics than this, the rest of a file is left alone.
const MOST_PANICS: usize = 64;

/// Most functions at one address: one, and those that are inlined there.
pub use crate::image::MOST_INLINED as MOST_FUNCTIONS;

/// The functions at addresses of an image, counted from where it is loaded: innermost first, and
/// none where they are unknown. `id` is the signature and age that the image names, in the form of
/// symbol servers; only that PDB is accepted.
///
/// # Errors
/// The file does not exist, is of another build, or cannot be read.
pub fn functions(path: &Path, id: &str, addresses: &[u64]) -> Result<Vec<Vec<Function>>, Missing> {
    // Opening a pipe or a device could wait forever.
    if !path.is_file() {
        return Err(Missing::File);
    }
    let bytes = Mapped::open(path).map_err(|error| unreadable(&error))?;
    functions_in(bytes.bytes(), Some(id), addresses)
}

/// As [`functions`], of the content of a file; without an `id` of any build.
///
/// # Errors
/// As [`functions`].
pub fn functions_in(
    bytes: &[u8],
    id: Option<&str>,
    addresses: &[u64],
) -> Result<Vec<Vec<Function>>, Missing> {
    catch_unwind(AssertUnwindSafe(|| read(bytes, id, addresses)))
        .unwrap_or_else(|_| Err(Missing::Unreadable("it is damaged".to_owned())))
}

fn read(bytes: &[u8], id: Option<&str>, addresses: &[u64]) -> Result<Vec<Vec<Function>>, Missing> {
    let mut pdb = PDB::open(Pages(bytes)).map_err(|error| unreadable(&error))?;
    let own = pdb.pdb_information().map_err(|error| unreadable(&error))?;
    let signature = own.guid.simple().to_string().to_uppercase();
    // Tools that add to a PDB count its own age up. Images name the age of its debug information.
    let age = pdb.debug_information().ok().and_then(|debug| debug.age());
    let ids = age.into_iter().chain([own.age]).map(|age| format!("{signature}{age:X}"));
    let ids: Vec<String> = ids.collect();
    if id.is_some_and(|id| !ids.iter().any(|found| found.eq_ignore_ascii_case(id))) {
        return Err(Missing::OtherBuild(ids.into_iter().next().unwrap_or_default()));
    }
    bounds::check(&mut pdb).map_err(Missing::Unreadable)?;
    let refused = modules::check(&mut pdb, addresses).map_err(|error| unreadable(&error))?;
    let map = pdb.address_map().map_err(|error| unreadable(&error))?;
    let data = ContextPdbData::try_from_pdb(pdb).map_err(|error| unreadable(&error))?;
    let mut lookup = Lookup { data: &data, context: context(&data)?, bytes: 0, panics: 0 };
    let named = addresses.iter().map(|address| {
        let Ok(address) = u32::try_from(*address) else { return Vec::new() };
        match Rva(address).to_internal_offset(&map) {
            Some(at) if !refused.contains(at) => lookup.at(address),
            _ => Vec::new(),
        }
    });
    Ok(named.collect())
}

type Data<'a> = ContextPdbData<'a, 'a, Pages<'a>>;

fn context<'c, 'a>(data: &'c Data<'a>) -> Result<Context<'c, 'a>, Missing> {
    // Without arguments, as debuggers of Windows show stacks.
    let flags = TypeFormatterFlags::default() | TypeFormatterFlags::NO_ARGUMENTS;
    data.make_context_with_formatter_flags(flags).map_err(|error| unreadable(&error))
}

/// What keeps names that were put together, and is replaced when it has become too large or a panic
/// has left it locked.
struct Lookup<'c, 'a> {
    data: &'c Data<'a>,
    context: Context<'c, 'a>,
    bytes: usize,
    panics: usize,
}

impl Lookup<'_, '_> {
    /// Damage in one module leaves the others readable.
    fn at(&mut self, address: u32) -> Vec<Function> {
        let found = catch_unwind(AssertUnwindSafe(|| self.context.find_frames(address)));
        let is_broken = found.is_err() && self.panics < MOST_PANICS;
        self.panics += usize::from(found.is_err());
        let frames = found.ok().and_then(Result::ok).flatten().map(|found| found.frames);
        let mut functions = Vec::new();
        for frame in frames.into_iter().flatten().take(MOST_FUNCTIONS) {
            let Some(name) = frame.function else { continue };
            self.bytes += name.len();
            let file = frame.file.map(|file| cut(&file));
            functions.push(Function { name: demangled(&name), file, line: frame.line });
        }
        if is_broken || self.bytes > MOST_KEPT {
            self.bytes = 0;
            let new = catch_unwind(AssertUnwindSafe(|| context(self.data)));
            if let Ok(Ok(new)) = new {
                self.context = new;
            }
        }
        functions
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> Missing {
    Missing::Unreadable(error.to_string())
}

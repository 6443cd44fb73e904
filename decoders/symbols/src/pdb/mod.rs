//! A PDB file: the functions at addresses of the file that was linked with it.

mod bounds;
mod source;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pdb_addr2line::pdb::PDB;
use pdb_addr2line::{Context, ContextPdbData, TypeFormatterFlags};
use schedlens_input::files::Mapped;

use self::source::Pages;
use crate::function::{Function, demangled};
use crate::image::{MOST_INLINED, Missing};

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
    catch_unwind(AssertUnwindSafe(|| read(path, id, addresses)))
        .unwrap_or_else(|_| Err(Missing::Unreadable("it is damaged".to_owned())))
}

fn read(path: &Path, id: &str, addresses: &[u64]) -> Result<Vec<Vec<Function>>, Missing> {
    let bytes = Mapped::open(path).map_err(|error| unreadable(&error))?;
    let mut pdb = PDB::open(Pages(bytes.bytes())).map_err(|error| unreadable(&error))?;
    let own = pdb.pdb_information().map_err(|error| unreadable(&error))?;
    let signature = own.guid.simple().to_string().to_uppercase();
    // Tools that add to a PDB count its own age up. Images name the age of its debug information.
    let age = pdb.debug_information().ok().and_then(|debug| debug.age());
    let ids = age.into_iter().chain([own.age]).map(|age| format!("{signature}{age:X}"));
    let ids: Vec<String> = ids.collect();
    if !ids.iter().any(|found| found.eq_ignore_ascii_case(id)) {
        return Err(Missing::OtherBuild(ids.into_iter().next().unwrap_or_default()));
    }
    bounds::check(&mut pdb).map_err(Missing::Unreadable)?;
    let data = ContextPdbData::try_from_pdb(pdb).map_err(|error| unreadable(&error))?;
    // Without arguments, as debuggers of Windows show stacks.
    let flags = TypeFormatterFlags::default() | TypeFormatterFlags::NO_ARGUMENTS;
    let context =
        data.make_context_with_formatter_flags(flags).map_err(|error| unreadable(&error))?;
    Ok(addresses.iter().map(|address| at(&context, *address)).collect())
}

fn unreadable(error: &dyn std::fmt::Display) -> Missing {
    Missing::Unreadable(error.to_string())
}

/// Damage in one module leaves the others readable.
fn at(context: &Context<'_, '_>, address: u64) -> Vec<Function> {
    let Ok(address) = u32::try_from(address) else { return Vec::new() };
    let found = catch_unwind(AssertUnwindSafe(|| context.find_frames(address)));
    let Ok(Ok(Some(found))) = found else { return Vec::new() };
    let functions = found.frames.into_iter().take(MOST_INLINED).filter_map(|frame| {
        Some(Function {
            name: demangled(&frame.function?),
            file: frame.file.map(std::borrow::Cow::into_owned),
            line: frame.line,
        })
    });
    functions.collect()
}

//! The export table of a file of Windows: names of some of its functions, where no PDB names all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use object::LittleEndian as LE;
use object::pe::{
    IMAGE_DIRECTORY_ENTRY_EXPORT, IMAGE_SCN_MEM_EXECUTE, ImageNtHeaders32, ImageNtHeaders64,
};
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, PeFile, SectionTable};
use schedlens_input::files::Mapped;

use crate::function::{LONGEST_NAME, cut};
use crate::image::Missing;

/// Sizes in memory are whole pages.
const PAGE: u64 = 0x1000;

/// What a recording states about a file.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// `TimeDateStamp` of its header; 0 if not recorded.
    pub stamp: u32,
    /// Bytes in memory.
    pub size: u64,
    /// Signature and age of its PDB in the form of symbol servers, if recorded.
    pub pdb: Option<&'a str>,
}

impl Recorded<'_> {
    /// The folder of the file in a symbol store, if the recording states enough.
    pub fn id(&self) -> Option<String> {
        (self.stamp != 0).then(|| format!("{:08X}{:x}", self.stamp, self.size))
    }
}

/// For each address, counted from where the file is loaded, the function that is exported at it or
/// nearest below it in the same section: only approximately the one that contains the address.
///
/// # Errors
/// The file does not exist, is not the recorded one, or cannot be read.
pub fn nearest(
    path: &Path,
    recorded: &Recorded<'_>,
    addresses: &[u64],
) -> Result<Vec<Option<String>>, Missing> {
    // Opening a pipe or a device could wait forever.
    if !path.is_file() {
        return Err(Missing::File);
    }
    let bytes = Mapped::open(path).map_err(|error| Missing::Unreadable(error.to_string()))?;
    nearest_in(bytes.bytes(), recorded, addresses)
}

/// As [`nearest`], of the content of a file.
///
/// # Errors
/// As [`nearest`].
pub fn nearest_in(
    bytes: &[u8],
    recorded: &Recorded<'_>,
    addresses: &[u64],
) -> Result<Vec<Option<String>>, Missing> {
    let read = || match object::FileKind::parse(bytes) {
        Ok(object::FileKind::Pe64) => read::<ImageNtHeaders64>(bytes, recorded, addresses),
        Ok(object::FileKind::Pe32) => read::<ImageNtHeaders32>(bytes, recorded, addresses),
        _ => Err(Missing::Unreadable("not a program or library of Windows".to_owned())),
    };
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Missing::Unreadable("it is damaged".to_owned())))
}

fn read<Pe: ImageNtHeaders>(
    bytes: &[u8],
    recorded: &Recorded<'_>,
    addresses: &[u64],
) -> Result<Vec<Option<String>>, Missing> {
    let unreadable = |error: object::Error| Missing::Unreadable(error.to_string());
    let file = PeFile::<Pe>::parse(bytes).map_err(unreadable)?;
    check(&file, recorded)?;
    let sections = file.section_table();
    let Some(table) = file.export_table().map_err(unreadable)? else {
        return Ok(vec![None; addresses.len()]);
    };
    // What is exported from another file is a text between these addresses.
    let directory = file.data_directory(IMAGE_DIRECTORY_ENTRY_EXPORT);
    let (start, size) = directory.map_or((0, 0), |directory| directory.address_range());
    let forwarded = start..start.saturating_add(size);
    let mut names = vec![None; table.addresses().len()];
    for (pointer, index) in table.name_iter() {
        // Of several names, the first in the order of the alphabet.
        if let Some(name @ None) = names.get_mut(usize::from(index)) {
            *name = Some(pointer);
        }
    }
    let mut functions: Vec<(u32, bool, usize)> = table
        .addresses()
        .iter()
        .map(|address| address.get(LE))
        .enumerate()
        .filter(|(_, address)| *address != 0 && !forwarded.contains(address))
        .map(|(index, address)| (address, names.get(index).is_none_or(Option::is_none), index))
        .collect();
    functions.sort_unstable();
    let name = |index: usize| match names.get(index).copied().flatten() {
        Some(pointer) => text(bytes, &sections, pointer),
        None => Some(format!("#{}", u64::from(table.ordinal_base()) + index as u64)),
    };
    let found = addresses.iter().map(|address| {
        let address = u32::try_from(*address).ok()?;
        let (start, end) = code(&sections, address)?;
        let after = functions.partition_point(|(at, ..)| *at <= address);
        let (nearest, ..) = *functions.get(after.checked_sub(1)?)?;
        // Names at the same address come before numbers.
        let first = functions.partition_point(|(at, ..)| *at < nearest);
        let (_, _, index) = *functions.get(first)?;
        if (start..end).contains(&nearest) { name(index) } else { None }
    });
    Ok(found.collect())
}

/// Whether it is the recorded file: by its stamp and size, else by its PDB.
fn check<Pe: ImageNtHeaders>(
    file: &PeFile<'_, Pe>,
    recorded: &Recorded<'_>,
) -> Result<(), Missing> {
    let headers = file.nt_headers();
    let stamp = headers.file_header().time_date_stamp.get(LE);
    let size = u64::from(headers.optional_header().size_of_image());
    let own = Recorded { stamp, size, pdb: None };
    let other = || Missing::OtherBuild(own.id().unwrap_or_default());
    let pages = |size: u64| size.div_ceil(PAGE);
    if pages(size) != pages(recorded.size) {
        return Err(other());
    }
    if recorded.stamp != 0 {
        return if stamp == recorded.stamp { Ok(()) } else { Err(other()) };
    }
    let pdb = object::Object::pdb_info(file).ok().flatten().map(|pdb| pdb_id(&pdb));
    match (pdb, recorded.pdb) {
        (Some(own), Some(recorded)) if own.eq_ignore_ascii_case(recorded) => Ok(()),
        _ => Err(other()),
    }
}

fn pdb_id(pdb: &object::CodeView<'_>) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = pdb.guid();
    let first = [d, c, b, a, f, e, h, g];
    let signature: String = first.iter().chain(&rest).map(|byte| format!("{byte:02X}")).collect();
    format!("{signature}{:X}", pdb.age())
}

/// The extent of the section with code that contains an address.
fn code(sections: &SectionTable<'_>, address: u32) -> Option<(u32, u32)> {
    let section = sections.iter().find(|section| {
        let start = section.virtual_address.get(LE);
        let size = section.virtual_size.get(LE).max(section.size_of_raw_data.get(LE));
        address.checked_sub(start).is_some_and(|offset| offset < size)
    })?;
    let start = section.virtual_address.get(LE);
    let size = section.virtual_size.get(LE).max(section.size_of_raw_data.get(LE));
    let is_code = section.characteristics.get(LE) & IMAGE_SCN_MEM_EXECUTE != 0;
    is_code.then(|| (start, start.saturating_add(size)))
}

/// The text at an address.
fn text(bytes: &[u8], sections: &SectionTable<'_>, pointer: u32) -> Option<String> {
    let rest = sections.pe_data_at(bytes, pointer)?;
    // A text without an end is not searched to the end of the file for each address.
    let rest = rest.get(..=LONGEST_NAME).unwrap_or(rest);
    let name = rest.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
    Some(cut(&String::from_utf8_lossy(name)))
}

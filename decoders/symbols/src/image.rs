//! An ELF file whose code was mapped: functions at its addresses.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::{Object, ObjectSegment};
use schedlens_input::files::Mapped;

use crate::debug_file::{Places, hex};
use crate::function::{Function, cut, demangled};

/// Debug information that inlines more than this is damaged.
pub const MOST_INLINED: usize = 64;

/// Why a file cannot name its code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such file here.
    File,
    /// The file here is of another build: its build id.
    OtherBuild(String),
    /// It is not an ELF file, or damaged.
    Unreadable(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("the file does not exist here"),
            Self::OtherBuild(found) => write!(f, "the file here is of another build ({found})"),
            Self::Unreadable(why) => write!(f, "the file cannot be read ({why})"),
        }
    }
}

/// A loadable segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

/// An ELF file whose code was mapped.
pub struct Image {
    segments: Vec<Segment>,
    /// The separate debug file, if any, then the file itself.
    loaders: Vec<Loader>,
    has_lines: bool,
    has_symbols: bool,
}

impl Image {
    /// Opens a file of a recording. With a build id, only a file of that build is accepted.
    ///
    /// # Errors
    /// The file does not exist, is of another build, or cannot be read.
    pub fn open(path: &Path, build_id: Option<&[u8]>, places: &Places) -> Result<Self, Missing> {
        // Opening a pipe or a device could wait forever.
        if !path.is_file() {
            return Err(Missing::File);
        }
        let unreadable = |why: String| Missing::Unreadable(why);
        catch_unwind(AssertUnwindSafe(|| Self::read(path, build_id, places)))
            .unwrap_or_else(|_| Err(unreadable("its debug information is damaged".to_owned())))
    }

    /// As [`Image::open`]; where the file is missing or of another build, the one that a debuginfod
    /// client has fetched. Returns the path, too.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn of_build(
        path: &Path,
        build_id: Option<&[u8]>,
        places: &Places,
    ) -> Result<(Self, PathBuf), Missing> {
        let own = Self::open(path, build_id, places).map(|image| (image, path.to_owned()));
        let fetched = || places.fetched_file(build_id?);
        match own {
            Err(Missing::File | Missing::OtherBuild(_)) => match fetched() {
                Some(path) => Self::open(&path, build_id, places).map(|image| (image, path)),
                None => own,
            },
            _ => own,
        }
    }

    fn read(path: &Path, build_id: Option<&[u8]>, places: &Places) -> Result<Self, Missing> {
        let unreadable = |why: &dyn fmt::Display| Missing::Unreadable(why.to_string());
        let bytes = Mapped::open(path).map_err(|error| unreadable(&error))?;
        let file = object::File::parse(bytes.bytes()).map_err(|error| unreadable(&error))?;
        let own_id = file.build_id().ok().flatten();
        if let (Some(wanted), Some(found)) = (build_id, own_id)
            && !wanted.starts_with(found)
            && !found.starts_with(wanted)
        {
            return Err(Missing::OtherBuild(hex(found)));
        }
        let segments = file
            .segments()
            .map(|segment| {
                let (offset, size) = segment.file_range();
                Segment { offset, size, address: segment.address() }
            })
            .collect();
        let mut has_lines = file.section_by_name(".debug_info").is_some();
        let mut has_symbols = file.symbols().next().is_some();
        let mut loaders = Vec::new();
        if !has_lines
            && let Some(debug) = places.debug_file(path, &file)
            && let Ok(loader) = Loader::new(&debug)
        {
            has_lines = loader.get_section_range(b".debug_info").is_some();
            has_symbols = true;
            loaders.push(loader);
        }
        loaders.push(Loader::new(path).map_err(|error| unreadable(&error))?);
        Ok(Self { segments, loaders, has_lines, has_symbols })
    }

    /// Debug information with inlined functions and lines was found.
    pub fn has_lines(&self) -> bool {
        self.has_lines
    }

    /// A full symbol table was found; otherwise only exported functions have names.
    pub fn has_symbols(&self) -> bool {
        self.has_symbols
    }

    /// The address that the file itself gives to the byte at an offset.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.segments
            .iter()
            .find(|segment| offset.checked_sub(segment.offset).is_some_and(|at| at < segment.size))
            .map(|segment| (offset - segment.offset).wrapping_add(segment.address))
    }

    /// The address that the file itself gives to the first byte of a mapping. Mappings begin at a
    /// page, which may begin with the end of another segment: the one that is mapped is the one of
    /// which most is.
    pub fn address_of_mapping(&self, offset: u64, length: u64) -> Option<u64> {
        let end = offset.saturating_add(length);
        let mapped = |segment: &&Segment| {
            let last = segment.offset.saturating_add(segment.size).min(end);
            last.saturating_sub(segment.offset.max(offset))
        };
        let segment = self.segments.iter().max_by_key(mapped).filter(|found| mapped(found) > 0)?;
        Some(offset.wrapping_sub(segment.offset).wrapping_add(segment.address))
    }

    /// The functions at an address of the file, innermost first; empty if unknown.
    pub fn functions(&self, address: u64) -> Vec<Function> {
        catch_unwind(AssertUnwindSafe(|| {
            self.loaders.iter().find_map(|loader| functions(loader, address)).unwrap_or_default()
        }))
        .unwrap_or_default()
    }
}

fn functions(loader: &Loader, address: u64) -> Option<Vec<Function>> {
    let symbol = loader.find_symbol(address).map(demangled);
    let mut found = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            let name = name.map(|name| demangled(&name));
            let location = frame.location;
            let (file, line) = location.map_or((None, None), |l| (l.file.map(cut), l.line));
            match name {
                Some(name) => found.push(Function { name, file, line }),
                // Lines without functions: of assembler code.
                None => found.extend(symbol.clone().map(|name| Function { name, file, line })),
            }
            if found.len() >= MOST_INLINED {
                break;
            }
        }
    }
    if found.is_empty() {
        found.extend(symbol.map(|name| Function { name, file: None, line: None }));
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    // file  0 -------- 0x17d20 data, then code up to 0x5f6d0 at addresses that are 0x1000 larger
    #[test]
    fn a_mapping_belongs_to_the_segment_of_which_most_is_mapped() {
        let segments = vec![
            Segment { offset: 0, size: 0x17d20, address: 0 },
            Segment { offset: 0x17d20, size: 0x479b0, address: 0x18d20 },
        ];
        let image = Image { segments, loaders: Vec::new(), has_lines: false, has_symbols: false };
        assert_eq!(image.address_of_mapping(0, 0x18000), Some(0));
        assert_eq!(image.address_of_mapping(0x17000, 0x49000), Some(0x18000));
        assert_eq!(image.address_of_mapping(0x70000, 0x1000), None);
        assert_eq!(image.address_of(0x17d20), Some(0x18d20));
    }
}

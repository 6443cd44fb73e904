//! An ELF file whose code was mapped: functions at its addresses.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use addr2line::Loader;
use object::{Object, ObjectSegment};
use schedlens_input::files::Mapped;

use crate::debug_file::{Places, hex};
use crate::function::{Function, demangled};

/// Debug information that inlines more than this is damaged.
pub(crate) const MOST_INLINED: usize = 64;

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
            let (file, line) =
                location.map_or((None, None), |l| (l.file.map(str::to_owned), l.line));
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

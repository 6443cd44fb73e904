//! Callers of a function from registers and a copy of the stack, by the tables in `.eh_frame`.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::{Object, ObjectSection};
use schedlens_input::bytes::u64_at;
use schedlens_input::files::Mapped;

/// As many frames as the kernel records by default, and more: a damaged stack could have no end.
const MOST_FRAMES: usize = 512;

/// A processor architecture whose stacks can be unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64
    X86_64,
    /// 64-bit ARM
    Aarch64,
}

impl Architecture {
    /// By the name that `uname -m` gives.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "x86_64" => Some(Self::X86_64),
            "aarch64" | "arm64" => Some(Self::Aarch64),
            _ => None,
        }
    }
}

/// The registers from which unwinding starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer.
    pub fp: u64,
    /// Link register, where the architecture has one.
    pub lr: u64,
}

/// The unwind tables of a file.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    frames: Option<(Range<u64>, Arc<[u8]>)>,
    index: Option<(Range<u64>, Arc<[u8]>)>,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
}

impl Tables {
    /// Reads them from an ELF file; empty if it has none or cannot be read.
    pub fn of(path: &Path) -> Self {
        if !path.is_file() {
            return Self::default();
        }
        let Ok(bytes) = Mapped::open(path) else { return Self::default() };
        let Ok(file) = object::File::parse(bytes.bytes()) else { return Self::default() };
        let range = |name: &str| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let section = |name: &str| {
            let data = file.section_by_name(name)?.uncompressed_data().ok()?;
            Some((range(name)?, Arc::from(&*data)))
        };
        Self {
            frames: section(".eh_frame"),
            index: section(".eh_frame_hdr"),
            text: range(".text"),
            got: range(".got"),
        }
    }
}

enum Inner {
    X86_64(UnwinderX86_64<Arc<[u8]>>, Box<CacheX86_64>),
    Aarch64(UnwinderAarch64<Arc<[u8]>>, Box<CacheAarch64>),
}

/// Unwinds the stacks of one process.
pub struct Unwinder(Inner);

impl Unwinder {
    /// For a process without mappings.
    pub fn new(architecture: Architecture) -> Self {
        Self(match architecture {
            Architecture::X86_64 => Inner::X86_64(UnwinderX86_64::new(), Box::default()),
            Architecture::Aarch64 => Inner::Aarch64(UnwinderAarch64::new(), Box::default()),
        })
    }

    /// Adds the mapping of a file; `bias` is what its own addresses were moved by.
    pub fn add(&mut self, name: &str, addresses: Range<u64>, bias: u64, tables: &Tables) {
        let frames = tables.frames.clone();
        let index = tables.index.clone();
        let sections = ExplicitModuleSectionInfo {
            text_svma: tables.text.clone(),
            got_svma: tables.got.clone(),
            eh_frame_svma: frames.as_ref().map(|(range, _)| range.clone()),
            eh_frame: frames.map(|(_, data)| data),
            eh_frame_hdr_svma: index.as_ref().map(|(range, _)| range.clone()),
            eh_frame_hdr: index.map(|(_, data)| data),
            ..ExplicitModuleSectionInfo::default()
        };
        let module = Module::new(name.to_owned(), addresses, bias, sections);
        match &mut self.0 {
            Inner::X86_64(unwinder, _) => unwinder.add_module(module),
            Inner::Aarch64(unwinder, _) => unwinder.add_module(module),
        }
    }

    /// The addresses, innermost first; `stack` are the bytes from the stack pointer up. Returns
    /// whether the outermost function was reached.
    pub fn unwind(&mut self, start: Registers, stack: &[u8], into: &mut Vec<u64>) -> bool {
        let mut read = |address: u64| {
            let at = address.checked_sub(start.sp).and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| u64_at(stack, at)).ok_or(())
        };
        macro_rules! frames {
            ($unwinder:ident, $cache:ident, $registers:expr) => {{
                let mut frames = $unwinder.iter_frames(start.ip, $registers, $cache, &mut read);
                for _ in 0..MOST_FRAMES {
                    match frames.next() {
                        Ok(Some(frame)) => into.push(frame.address()),
                        Ok(None) => return true,
                        Err(_) => return false,
                    }
                }
                false
            }};
        }
        match &mut self.0 {
            Inner::X86_64(unwinder, cache) => {
                frames!(unwinder, cache, UnwindRegsX86_64::new(start.ip, start.sp, start.fp))
            }
            Inner::Aarch64(unwinder, cache) => {
                let mask = PtrAuthMask::new_24_40();
                let registers =
                    UnwindRegsAarch64::new_with_ptr_auth_mask(mask, start.lr, start.sp, start.fp);
                frames!(unwinder, cache, registers)
            }
        }
    }
}

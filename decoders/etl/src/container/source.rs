//! The bytes of a log: a mapped file whose pages are released once read.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};
use schedlens_input::files::Spill;

use crate::error::Error;

/// Bytes of a log, mapped or in memory.
pub(crate) enum Source {
    /// A file.
    Mapped(Mmap),
    /// Any other source.
    Owned(Vec<u8>),
}

impl Source {
    /// Maps a file.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Self::of_file(&file);
        }
        // A fifo or a terminal cannot be mapped.
        let mut spill = Spill::new()?;
        std::io::copy(&mut file, &mut spill)?;
        Self::of_file(&spill.into_file()?)
    }

    /// Maps an open file.
    pub(crate) fn of_file(file: &File) -> Result<Self, Error> {
        if file.metadata()?.len() == 0 {
            return Ok(Self::Owned(Vec::new()));
        }
        // SAFETY: the mapping is private and only read. If another process truncates the file
        // meanwhile, this process ends, as does every program that maps files.
        Ok(Self::Mapped(unsafe { MmapOptions::new().map(file)? }))
    }

    /// All of it.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => mapped,
            Self::Owned(bytes) => bytes,
        }
    }

    /// Fetches pages together, because a fault per page is slow.
    pub(crate) fn fetch(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Self::Mapped(mapped) = self {
            // Older kernels do not support this; then the pages fault in one by one.
            let _ = mapped.advise_range(memmap2::Advice::PopulateRead, range.start, range.len());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    /// Releases pages, so that memory does not grow with the file. They can be read again.
    pub(crate) fn let_go(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Self::Mapped(mapped) = self {
            // SAFETY: the mapping is private and never written, so its pages can be reloaded from
            // the file.
            let _ = unsafe {
                mapped.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.len(),
                )
            };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }
}

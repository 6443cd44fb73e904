//! The pages of a PDB file in memory.

use std::fmt;
use std::io;

use pdb_addr2line::pdb::{Source, SourceSlice, SourceView};

/// All bytes of the file.
pub(super) struct Pages<'a>(pub(super) &'a [u8]);

impl fmt::Debug for Pages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pages({} bytes)", self.0.len())
    }
}

#[derive(Debug)]
struct Stream(Vec<u8>);

impl SourceView<'_> for Stream {
    fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl<'s> Source<'s> for Pages<'_> {
    fn view(
        &mut self,
        slices: &[SourceSlice],
    ) -> Result<Box<dyn SourceView<'s> + Send + Sync>, io::Error> {
        let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "the file is cut off");
        let mut stream = Vec::new();
        for slice in slices {
            let start = usize::try_from(slice.offset).map_err(|_| cut())?;
            let end = start.checked_add(slice.size).ok_or_else(cut)?;
            let part = self.0.get(start..end).ok_or_else(cut)?;
            // A page belongs to one stream, once. More would allocate more than the file has.
            if part.len() > self.0.len() - stream.len() {
                let what = "its streams overlap";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            stream.extend_from_slice(part);
        }
        Ok(Box::new(Stream(stream)))
    }
}

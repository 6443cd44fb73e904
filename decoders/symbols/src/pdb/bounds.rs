//! Whether the types of a PDB end: names are put together from types that refer to each other, and
//! a crafted file must not make that endless, exhaust the stack, or fill the memory.

use pdb_addr2line::pdb::{FallibleIterator, IdData, PDB, StreamIndex, TypeData, TypeIndex};
use schedlens_input::bytes::{u16_at, u32_at};

use super::source::Pages;

/// Deeper than any type of a real program.
const DEEPEST: u16 = 256;
/// Bytes of the records from which one name may be put together. A record has at most 64 KiB.
const LARGEST: u64 = 4 << 20;
const TYPES: &str = "its types refer to each other endlessly";

/// Field lists, classes and enumerations: to others they are only a name. Most records are these.
const NAMED: [u16; 7] = [0x1203, 0x1206, 0x1504, 0x1505, 0x1506, 0x1507, 0x1519];
const INCOMPLETE: &str = "its types are incomplete";
const FUNCTION_ID: u16 = 0x1601;

/// The streams of types and of identifiers.
const STREAMS: [StreamIndex; 2] = [StreamIndex(2), StreamIndex(4)];
/// `LF_ARGLIST`, `LF_SUBSTR_LIST`: a number of entries, then four bytes for each.
const LISTS: [u16; 2] = [0x1201, 0x1604];
const LONG_LISTS: &str = "a list of its types is longer than its record";

/// How deep the records of a stream refer to earlier ones, and of how many bytes all of these
/// consist, where each counts as often as it is referred to; types before the first are built in.
#[derive(Default)]
struct Extents {
    first: Option<u32>,
    known: Vec<(u16, u32)>,
}

impl Extents {
    /// Adds a record that refers to others, which must be earlier and not too deep or large.
    fn push(
        &mut self,
        own: u32,
        bytes: usize,
        to: impl IntoIterator<Item = u32>,
    ) -> Result<(), String> {
        let first = *self.first.get_or_insert(own);
        let mut depth = 0;
        let mut size = bytes as u64;
        for index in to {
            let Some(place) = index.checked_sub(first) else { continue };
            let (deep, large) = self.known.get(place as usize).ok_or_else(|| TYPES.to_owned())?;
            depth = depth.max(deep + 1);
            size += u64::from(*large);
        }
        if depth > DEEPEST || size > LARGEST {
            return Err(TYPES.to_owned());
        }
        self.known.push((depth, size as u32));
        Ok(())
    }

    /// A count that is wrong would be believed when memory is reserved.
    fn ended(&self, count: usize) -> Result<(), String> {
        if count == self.known.len() { Ok(()) } else { Err(INCOMPLETE.to_owned()) }
    }
}

/// An error says what is wrong with the file.
pub(super) fn check<'a>(pdb: &mut PDB<'a, Pages<'a>>) -> Result<(), String> {
    // First, so that only one copy of the types is in memory at a time.
    for stream in STREAMS {
        let stream = pdb.raw_stream(stream).map_err(|error| error.to_string())?;
        if !stream.is_none_or(|stream| lists_fit(&stream)) {
            return Err(LONG_LISTS.to_owned());
        }
    }
    let types = pdb.type_information().map_err(|error| error.to_string())?;
    let mut extents = Extents::default();
    let mut all = types.iter();
    while let Some(item) = all.next().map_err(|error| error.to_string())? {
        let refers = match NAMED.contains(&item.raw_kind()) {
            true => Vec::new(),
            false => item.parse().map(|data| references(&data)).unwrap_or_default(),
        };
        extents.push(item.index().0, item.len(), refers)?;
    }
    extents.ended(types.len())?;
    let ids = pdb.id_information().map_err(|error| error.to_string())?;
    let mut extents = Extents::default();
    let mut all = ids.iter();
    while let Some(item) = all.next().map_err(|error| error.to_string())? {
        let scope = match item.raw_kind() {
            FUNCTION_ID => match item.parse() {
                Ok(IdData::Function(function)) => function.scope.map(|scope| scope.0),
                _ => None,
            },
            _ => None,
        };
        extents.push(item.index().0, item.len(), scope)?;
    }
    extents.ended(ids.len())?;
    Ok(())
}

/// Whether all lists of a stream end within their records. `pdb2` reserves memory for as many entries
/// as a list claims to have, up to 16 GiB.
fn lists_fit(stream: &[u8]) -> bool {
    let mut at = u32_at(stream, 4).unwrap_or_default() as usize;
    while let (Some(length), Some(kind)) = (u16_at(stream, at), u16_at(stream, at + 2)) {
        // The kind is part of the length, the length itself is not.
        let room = usize::from(length).saturating_sub(6) / 4;
        let claimed = u32_at(stream, at + 4).unwrap_or_default() as usize;
        if LISTS.contains(&kind) && claimed > room {
            return false;
        }
        at += 2 + usize::from(length);
    }
    true
}

/// The types whose names are part of a type's name.
fn references(data: &TypeData<'_>) -> Vec<u32> {
    let number = |index: &TypeIndex| index.0;
    match data {
        TypeData::Pointer(pointer) => {
            let of = pointer.containing_class.iter().map(number);
            of.chain([pointer.underlying_type.0]).collect()
        }
        TypeData::Modifier(modifier) => vec![modifier.underlying_type.0],
        TypeData::Array(array) => vec![array.element_type.0, array.indexing_type.0],
        TypeData::Bitfield(bits) => vec![bits.underlying_type.0],
        TypeData::Procedure(procedure) => {
            let returns = procedure.return_type.iter().map(number);
            returns.chain([procedure.argument_list.0]).collect()
        }
        TypeData::MemberFunction(function) => {
            let this = function.this_pointer_type.iter().map(number);
            let others = [function.return_type, function.class_type, function.argument_list];
            this.chain(others.map(|index| index.0)).collect()
        }
        TypeData::ArgumentList(list) => list.arguments.iter().map(number).collect(),
        _ => Vec::new(),
    }
}

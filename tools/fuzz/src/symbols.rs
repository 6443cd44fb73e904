//! Files that name functions: PDB files, libraries of Windows, and dumps of just-in-time compilers.

use schedlens_symbols::exports::{self, Recorded};
use schedlens_symbols::{LONGEST_NAME, Missing, jit_dump, pdb};

use crate::bytes::Bytes;
use crate::caught;

/// `MSF 7.00`
const MAGIC: &[u8; 32] = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0";
const PAGE: usize = 512;
/// The header, and two pages that say which ones are free.
const FIRST_PAGE: usize = 3;
/// The code of the seeds.
const CODE: std::ops::Range<u64> = 0x1000..0x1080;

/// A whole PDB file.
pub fn pdb_file(data: &[u8]) {
    caught::only_what_leaves(|| look_up(data));
}

/// The streams of a PDB file, each after its length.
pub fn pdb_streams(data: &[u8]) {
    let mut data = Bytes(data);
    let mut streams = Vec::new();
    while !data.is_empty() {
        streams.push(data.part());
    }
    let file = container(&streams);
    caught::only_what_leaves(|| look_up(&file));
}

fn look_up(file: &[u8]) {
    let addresses: Vec<u64> = CODE.step_by(3).chain([0, u64::from(u32::MAX), u64::MAX]).collect();
    let Ok(found) = pdb::functions_in(file, None, &addresses) else { return };
    assert_eq!(found.len(), addresses.len());
    for functions in found {
        assert!(functions.len() <= pdb::MOST_FUNCTIONS);
        for function in functions {
            for text in [Some(function.name), function.file].into_iter().flatten() {
                assert!(text.len() <= LONGEST_NAME + '…'.len_utf8(), "a text that is not bounded");
            }
        }
    }
}

/// A file with these streams, each in pages of its own.
fn container(streams: &[&[u8]]) -> Vec<u8> {
    let pages = |bytes: usize| bytes.div_ceil(PAGE);
    let word = |value: usize| (value as u32).to_le_bytes();
    let mut next = FIRST_PAGE;
    let mut taken = |bytes: usize| {
        let first = next;
        next += pages(bytes);
        first..next
    };
    let mut directory = word(streams.len()).to_vec();
    streams.iter().for_each(|stream| directory.extend(word(stream.len())));
    for stream in streams {
        taken(stream.len()).for_each(|page| directory.extend(word(page)));
    }
    let of_directory = taken(directory.len());
    let list: Vec<u8> = of_directory.clone().flat_map(word).collect();
    let of_list = taken(list.len());
    let mut file = MAGIC.to_vec();
    for value in [PAGE, 1, of_list.end, directory.len(), 0] {
        file.extend(word(value));
    }
    of_list.clone().for_each(|page| file.extend(word(page)));
    file.resize(FIRST_PAGE * PAGE, 0);
    for content in streams.iter().copied().chain([&directory[..], &list[..]]) {
        file.extend(content);
        file.resize(file.len().next_multiple_of(PAGE), 0);
    }
    file
}

/// A library of Windows: its exports, if the recording states the same stamp and size as the file.
pub fn exports(data: &[u8]) {
    let addresses: Vec<u64> = (0..0x8000).step_by(0x151).chain([u64::MAX]).collect();
    caught::only_what_leaves(|| {
        let other = Recorded { stamp: 0, size: u64::MAX, pdb: None };
        let Err(Missing::OtherBuild(id)) = exports::nearest_in(data, &other, &addresses) else {
            return;
        };
        let Some((stamp, size)) = id.split_at_checked(8) else { return };
        let stamp = u32::from_str_radix(stamp, 16).expect("a stamp");
        let size = u64::from_str_radix(size, 16).expect("a size");
        let own = Recorded { stamp, size, pdb: None };
        let Ok(found) = exports::nearest_in(data, &own, &addresses) else { return };
        assert_eq!(found.len(), addresses.len());
        for name in found.into_iter().flatten() {
            assert!(!name.is_empty() && name.len() <= LONGEST_NAME + '…'.len_utf8(), "{name}");
        }
    });
}

/// A dump of a just-in-time compiler.
pub fn jit_dump(data: &[u8]) {
    let Some(found) = jit_dump::functions(data) else { return };
    let mut lines = 0;
    for made in &found {
        assert!(made.size > 0 && made.start.checked_add(made.size).is_some());
        assert!(made.lines.is_sorted_by_key(|(distance, ..)| *distance));
        assert!(made.lines.iter().all(|(distance, ..)| *distance < made.size));
        lines += if made.from.is_none() { made.lines.len() } else { 0 };
    }
    // Each has at least a header of 16 bytes.
    assert!(16 * (found.len() + lines) <= data.len());
}

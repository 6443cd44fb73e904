//! Small files cut at every length, and with every byte changed: rows or an error, never a panic.

use schedlens_trace_dat::Recording;
use schedlens_trace_dat::merge::{Merge, Scope};

/// The same schedule in version 6, and in version 7 with zstd (tools/fuzz/seeds.py).
const SOUND: [&[u8]; 2] = [
    include_bytes!("../../../fixtures/fuzz/sound.dat"),
    include_bytes!("../../../fixtures/fuzz/sound_7.dat"),
];

/// Number of records that are read, checking their order; `None` if the file is refused.
fn read(file: Vec<u8>) -> Option<usize> {
    let recording = match Recording::from_bytes(file) {
        Ok(recording) => recording,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return None;
        }
    };
    let mut merge = Merge::new(&recording, Scope::Schedule).expect("a decompressor");
    let mut reached = (0, 0);
    let mut records = 0;
    while let Some(record) = merge.peek() {
        assert!((record.ts, record.cpu) >= reached, "records are in order");
        assert!(recording.first.is_some_and(|first| record.ts >= first));
        assert!(recording.last.is_some_and(|last| record.ts <= last));
        reached = (record.ts, record.cpu);
        records += 1;
        merge.advance();
    }
    for gap in &recording.gaps {
        assert!(gap.before.zip(gap.until).is_none_or(|(before, until)| before <= until), "{gap:?}");
    }
    Some(records)
}

/// The file of version 6 with these pages of CPU 0, and none of CPU 1.
fn with_pages(pages: &[u8]) -> Vec<u8> {
    let mut file = SOUND[0].to_vec();
    let list = file.windows(10).rposition(|bytes| bytes == b"flyrecord\0").expect("a list") + 10;
    let (place, size) = (file.len() as u64, pages.len() as u64);
    file.extend(pages);
    file[list..list + 32].fill(0);
    file[list..list + 8].copy_from_slice(&place.to_le_bytes());
    file[list + 8..list + 16].copy_from_slice(&size.to_le_bytes());
    file
}

#[test]
fn sound_files_have_all_records() {
    assert_eq!(SOUND.map(|file| read(file.to_vec())), [Some(14), Some(15)]);
}

// A record, which is not read, and two whose absolute times are before it.
#[test]
fn a_time_that_steps_back_in_a_page_is_within_the_recording() {
    let stamp = |time: u64| [31 | ((time & 0x7ff_ffff) << 5) as u32, (time >> 27) as u32];
    let idle = |delta: u32| [3 | delta << 5, 8, 0, 1];
    let mut words = Vec::from(idle(0));
    // An event that the file does not describe.
    words[1] = 0;
    words.extend(stamp(1 << 30));
    words.extend(idle(0));
    words.extend(stamp(7));
    words.extend(idle(0));
    let mut page = 5_000_000_000_u64.to_le_bytes().to_vec();
    page.extend((4 * words.len() as u64).to_le_bytes());
    page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    page.resize(1024, 0);
    assert!(read(with_pages(&page)).is_some());
}

// Two pages; the second begins 0.5 ms before the first one, whose record is not read.
#[test]
fn a_page_that_begins_early_is_within_the_recording() {
    let page = |ts: u64, id: u32| {
        let words = [3, id, 0, 0];
        let mut page = ts.to_le_bytes().to_vec();
        page.extend(16_u64.to_le_bytes());
        page.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
        page.resize(1024, 0);
        page
    };
    assert!(read(with_pages(&[page(5_000_000, 0), page(4_500_000, 8)].concat())).is_some());
}

#[test]
fn a_file_cut_at_any_length_is_read_in_part_or_refused() {
    for file in SOUND {
        for length in 0..file.len() {
            read(file[..length].to_vec());
        }
    }
}

#[test]
fn a_file_with_any_changed_byte_is_read_or_refused() {
    for file in SOUND {
        for place in 0..file.len() {
            for mask in [0xff, 1 << (place % 8)] {
                let mut changed = file.to_vec();
                changed[place] ^= mask;
                read(changed);
            }
        }
    }
}

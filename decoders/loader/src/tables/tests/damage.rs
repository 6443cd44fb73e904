//! Damaged Arrow files: one error each, and never a panic or an allocation of a claimed size.

use super::super::file::ArrowFile;
use super::*;
use crate::error::ErrorKind;

/// A folder with a few rows.
fn folder() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("folder");
    write_folder(home.path(), &small_tables(&[1, 2, 3, 4, 5]), (0, 9), 2);
    home
}

/// The error of a folder, in one line.
fn refusal(folder: &Path) -> String {
    let error = answers_of_folder(folder, 3).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// Reads a file to its end; returns the reason if it is refused.
fn read(path: &Path) -> Option<String> {
    let all = || {
        let mut file = ArrowFile::open(path)?;
        while file.next_batch()?.is_some() {}
        Ok(())
    };
    all().err().map(|fault: super::super::TableFault| fault.to_string())
}

#[test]
fn every_truncated_file_is_refused() {
    let home = folder();
    let path = home.path().join("context_switch.arrow");
    let whole = std::fs::read(&path).expect("read");
    for length in (0..whole.len()).step_by(7) {
        std::fs::write(&path, &whole[..length]).expect("written");
        let line = refusal(home.path());
        assert!(line.starts_with("context_switch.arrow is not a complete Arrow file ("), "{line}");
    }
}

// 0x7f: the largest positive numbers as lengths and offsets; 0xff: negative ones.
#[test]
fn damaged_bytes_are_refused_or_harmless() {
    let home = folder();
    let path = home.path().join("context_switch.arrow");
    let whole = std::fs::read(&path).expect("read");
    let mut refused = 0;
    for damage in [[0xff_u8; 8], [0x7f; 8], [0; 8]] {
        for place in (0..whole.len()).step_by(8) {
            let mut bytes = whole.clone();
            let end = (place + damage.len()).min(bytes.len());
            bytes[place..end].copy_from_slice(&damage[..end - place]);
            std::fs::write(&path, bytes).expect("written");
            refused += usize::from(read(&path).is_some());
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn footer_that_repeats_a_block_is_refused() {
    let home = tempfile::tempdir().expect("folder");
    // Batches as large as these cannot be in the file twice.
    let times: Vec<i64> = (0..2000).collect();
    write_folder(home.path(), &small_tables(&times), (0, 9), 1000);
    let path = home.path().join("context_switch.arrow");
    let mut bytes = std::fs::read(&path).expect("read");
    let footer = bytes.len() - 10;
    let length = i32::from_le_bytes(bytes[footer..footer + 4].try_into().expect("4 bytes"));
    let begin = footer - length as usize;
    let blocks = {
        let footer = arrow_ipc::root_as_footer(&bytes[begin..footer]).expect("footer");
        footer.recordBatches().expect("batches").iter().copied().collect::<Vec<_>>()
    };
    let raw = |block: &arrow_ipc::Block| block.0;
    let second = bytes.windows(24).rposition(|found| found == raw(&blocks[1])).expect("block");
    // The first batch, with a body that covers both.
    let size = blocks[0].bodyLength() * 2;
    let double = arrow_ipc::Block::new(blocks[0].offset(), blocks[0].metaDataLength(), size);
    bytes[second..second + 24].copy_from_slice(&raw(&double));
    std::fs::write(&path, bytes).expect("written");
    let line = refusal(home.path());
    assert!(line.contains("(blocks of "), "{line}");
}

#[test]
fn file_without_a_trailer_is_refused() {
    let home = folder();
    std::fs::write(home.path().join("thread.arrow"), b"ARROW1\0\0").expect("written");
    assert!(refusal(home.path()).starts_with("thread.arrow is not a complete Arrow file (8 bytes"));
}

// Its states would have lengths that do not fit into 64 bits, and lack the rest without a word.
#[test]
fn a_recording_of_centuries_is_refused() {
    let home = tempfile::tempdir().expect("folder");
    let batcher = Batcher::new(1);
    for (first, is_read) in [(-1, true), (i64::MIN + 42_919, false)] {
        write_folder(home.path(), &small_tables(&[1, 2]), (first, i64::MAX - 1), 2);
        let folder = Folder::open(home.path()).expect("opened");
        let mut chunks = Chunks::new(&folder, &batcher, 2);
        while chunks.next_chunk(&mut |_| true).expect("chunk").is_some() {}
        match chunks.finish() {
            Ok(finished) => assert!(is_read && finished.first_ns == Some(first)),
            Err(error) => {
                assert!(!is_read);
                assert!(error.to_string().contains("more than 292 years"), "{error}");
            }
        }
    }
}

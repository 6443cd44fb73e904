//! perf.data: the header, the features, the tracepoint formats, and the records.

use schedlens_input::event::Wanted;
use schedlens_perf_data::{Recording, fuzzing};

use crate::bytes::{Bytes, one_in_eight};
use crate::loaded;

/// A recording with all events that become rows, from tools/fuzz/seeds.py.
const SOUND: &[u8] = include_bytes!("../../../fixtures/fuzz/sound.perf.data");

/// A whole file.
pub fn file(data: &[u8]) {
    read(data.to_vec());
}

/// A sound file whose records are these bytes.
pub fn records(data: &[u8]) {
    let word = |at: usize| {
        let bytes = SOUND.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.expect("a header")) as usize
    };
    // `perf_file_header.data`
    let (offset, size) = (word(40), word(48));
    let (before, after) = (&SOUND[..offset], &SOUND[offset + size..]);
    let mut file = [before, data, after].concat();
    file[48..56].copy_from_slice(&(data.len() as u64).to_le_bytes());
    // The sections of the features move with the end of the records.
    let count: u32 = SOUND[72..104].iter().map(|byte| byte.count_ones()).sum();
    for rank in 0..count as usize {
        let at = offset + data.len() + 16 * rank;
        let section = word(offset + size + 16 * rank) - size + data.len();
        file[at..at + 8].copy_from_slice(&(section as u64).to_le_bytes());
    }
    read(file);
}

fn read(file: Vec<u8>) {
    let is_inspected = one_in_eight(&file);
    let Ok(recording) = Recording::from_bytes(file) else { return };
    recording.events(&Wanted::default(), |event| !event.text().is_empty());
    if is_inspected {
        schedlens_loader::perf::inspect(&recording);
    }
    loaded::check(&recording);
}

/// Feature sections: a number, a length, and as many bytes.
pub fn features(data: &[u8]) {
    let mut data = Bytes(data);
    let mut sections = Vec::new();
    while !data.is_empty() {
        let number = u32::from(data.u8());
        sections.push((number, data.part()));
    }
    fuzzing::features(sections.into_iter());
}

/// `HEADER_TRACING_DATA`.
pub fn formats(data: &[u8]) {
    fuzzing::formats(data);
}

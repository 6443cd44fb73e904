//! trace.dat: the header, options, sections, and the pages of the ring buffer.

use schedlens_input::event::Wanted;
use schedlens_trace_dat::Recording;

use crate::bytes::one_in_eight;
use crate::loaded;

/// A recording with all events that become rows, of two CPUs, from tools/fuzz/seeds.py.
const SOUND: &[u8] = include_bytes!("../../../fixtures/fuzz/sound.dat");
/// In front of the list of CPUs: offset and size of the data of each.
const LIST: &[u8] = b"flyrecord\0";

/// A whole file.
pub fn file(data: &[u8]) {
    read(data.to_vec());
}

/// A sound file whose pages are these bytes, half of them of each CPU.
pub fn pages(data: &[u8]) {
    let list = SOUND.windows(LIST.len()).rposition(|bytes| bytes == LIST);
    let list = list.expect("a list of CPUs") + LIST.len();
    let mut file = SOUND.to_vec();
    let (one, other) = data.split_at(data.len() / 2);
    for (at, part) in [(list, one), (list + 16, other)] {
        let place = file.len() as u64;
        file[at..at + 8].copy_from_slice(&place.to_le_bytes());
        file[at + 8..at + 16].copy_from_slice(&(part.len() as u64).to_le_bytes());
        file.extend(part);
    }
    read(file);
}

fn read(file: Vec<u8>) {
    let is_inspected = one_in_eight(&file);
    let Ok(recording) = Recording::from_bytes(file) else { return };
    // Reading a file in memory cannot fail.
    let _ = recording.events(&Wanted::default(), |event| !event.text().is_empty());
    if is_inspected {
        schedlens_loader::trace_dat::inspect(&recording);
    }
    loaded::check(&recording);
}

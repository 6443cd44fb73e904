//! Manifests that EventSource providers write into a recording in chunks.

use std::collections::{BTreeMap, HashMap};

use schedlens_input::bytes::u16_at;

use crate::guid::Guid;
use crate::payload::value::{Fields, Value};
use crate::records::{Id, Record};

/// `ManifestEnvelope`: the number of the event that carries a chunk.
pub(crate) const CHUNK: u16 = 0xfffe;
const HEADER: usize = 8;
/// `ManifestFormats.SimpleXmlFormat`
const SIMPLE_XML: u8 = 1;
const MAGIC: u8 = 0x5b;
/// Maximum bytes of incomplete manifests.
const MOST_BYTES: usize = 32 << 20;
/// Maximum number of incomplete manifests.
const MOST_OPEN: usize = 1 << 12;
/// Memory overhead of a chunk, in addition to its text.
const OF_A_CHUNK: usize = 64;

/// A chunk of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk<'a> {
    version: (u8, u8),
    total: u16,
    number: u16,
    text: &'a [u8],
}

impl<'a> Chunk<'a> {
    fn of(payload: &'a [u8]) -> Option<Self> {
        let [format, major, minor, magic] = *payload.first_chunk()?;
        let (total, number) = (u16_at(payload, 4)?, u16_at(payload, 6)?);
        let text = payload.get(HEADER..)?;
        let is_chunk = format == SIMPLE_XML && magic == MAGIC && number < total;
        is_chunk.then_some(Self { version: (major, minor), total, number, text })
    }
}

/// An incomplete manifest.
#[derive(Debug)]
struct Open {
    version: (u8, u8),
    total: u16,
    chunks: BTreeMap<u16, Vec<u8>>,
}

/// Manifests seen so far, by provider and process.
#[derive(Debug, Default)]
pub struct Manifests {
    open: HashMap<(Guid, Option<u32>), Open>,
    bytes: usize,
    /// Invalid chunks, or chunks over the limits.
    pub refused: i64,
}

impl Manifests {
    /// Adds a chunk; returns the whole text with the last one.
    pub(crate) fn take(&mut self, record: &Record<'_>) -> Option<(Guid, String)> {
        let Id::Event { provider, .. } = record.id else { return None };
        let Some(chunk) = Chunk::of(record.payload) else {
            self.refused += 1;
            return None;
        };
        let key = (provider, record.pid);
        if self.open.get(&key).is_some_and(|open| !open.fits(&chunk)) {
            self.forget(key);
        }
        let room = self.open.len() < MOST_OPEN || self.open.contains_key(&key);
        if !room || self.bytes + chunk.text.len() + OF_A_CHUNK > MOST_BYTES {
            self.refused += 1;
            return None;
        }
        let (version, total) = (chunk.version, chunk.total);
        let fresh = || Open { version, total, chunks: BTreeMap::new() };
        let open = self.open.entry(key).or_insert_with(fresh);
        self.bytes += OF_A_CHUNK + chunk.text.len();
        if let Some(before) = open.chunks.insert(chunk.number, chunk.text.to_vec()) {
            self.bytes -= OF_A_CHUNK + before.len();
        }
        if open.chunks.len() < usize::from(total) {
            return None;
        }
        let whole: Vec<u8> = open.chunks.values().flatten().copied().collect();
        self.forget(key);
        Some((provider, String::from_utf8_lossy(&whole).into_owned()))
    }

    fn forget(&mut self, key: (Guid, Option<u32>)) {
        if let Some(open) = self.open.remove(&key) {
            self.bytes -= open.chunks.values().map(|text| OF_A_CHUNK + text.len()).sum::<usize>();
        }
    }

    /// Number of incomplete manifests.
    pub fn not_whole(&self) -> i64 {
        self.open.len() as i64
    }
}

impl Open {
    fn fits(&self, chunk: &Chunk<'_>) -> bool {
        (self.version, self.total) == (chunk.version, chunk.total)
    }
}

/// The fields of the event that contains a chunk, without the text.
pub(crate) fn fields(payload: &[u8]) -> Option<Fields> {
    let chunk = Chunk::of(payload)?;
    let number = Value::Unsigned;
    Some(Fields(vec![
        ("Format".into(), number(SIMPLE_XML.into())),
        ("MajorVersion".into(), number(chunk.version.0.into())),
        ("MinorVersion".into(), number(chunk.version.1.into())),
        ("Magic".into(), number(MAGIC.into())),
        ("TotalChunks".into(), number(chunk.total.into())),
        ("ChunkNumber".into(), number(chunk.number.into())),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Place;
    use crate::records::head::Head;

    /// Header, then the text, as an event of provider 1.
    fn event(pid: u32, (total, number): (u16, u16), magic: u8, text: &[u8]) -> Vec<u8> {
        let size = (80 + HEADER + text.len()) as u16;
        let mut bytes = size.to_le_bytes().to_vec();
        bytes.extend([19, 0xc0, 0, 0, 0, 0, 7, 0, 0, 0]);
        bytes.extend(pid.to_le_bytes());
        bytes.resize(24, 0);
        bytes.extend([1; 16]);
        bytes.extend(CHUNK.to_le_bytes());
        bytes.resize(80, 0);
        bytes.extend([SIMPLE_XML, 1, 0, magic]);
        bytes.extend(total.to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(text);
        bytes
    }

    fn take(manifests: &mut Manifests, bytes: &[u8]) -> Option<String> {
        let head = Head::at(bytes, 0, 0).expect("an event");
        let place = Place { file: 0, buffer: 0, at: 72 };
        let record = head.record(bytes, 0, (Some(0), place));
        manifests.take(&record).map(|(_, text)| text)
    }

    #[test]
    fn chunks_of_several_processes_in_any_order_make_whole_texts() {
        let mut all = Manifests::default();
        assert_eq!(take(&mut all, &event(8, (3, 2), MAGIC, b"c")), None);
        assert_eq!(take(&mut all, &event(9, (2, 0), MAGIC, b"x")), None);
        assert_eq!(take(&mut all, &event(8, (3, 0), MAGIC, b"a")), None);
        assert_eq!(take(&mut all, &event(8, (3, 0), MAGIC, b"A")), None);
        assert_eq!(all.not_whole(), 2);
        assert_eq!(take(&mut all, &event(8, (3, 1), MAGIC, b"b")).as_deref(), Some("Abc"));
        assert_eq!(take(&mut all, &event(9, (2, 1), MAGIC, b"y")).as_deref(), Some("xy"));
        assert_eq!((all.not_whole(), all.bytes, all.refused), (0, 0, 0));
        assert_eq!(take(&mut all, &event(8, (1, 0), MAGIC, b"one")).as_deref(), Some("one"));
    }

    #[test]
    fn another_chunk_count_starts_a_new_manifest() {
        let mut all = Manifests::default();
        assert_eq!(take(&mut all, &event(8, (3, 0), MAGIC, b"a")), None);
        assert_eq!(take(&mut all, &event(8, (2, 1), MAGIC, b"z")), None);
        assert_eq!(take(&mut all, &event(8, (2, 0), MAGIC, b"y")).as_deref(), Some("yz"));
        assert_eq!(all.bytes, 0);
    }

    #[test]
    fn invalid_chunks_are_refused_and_memory_is_bounded() {
        let mut all = Manifests::default();
        for wrong in [
            event(8, (1, 0), 0, b"a"),
            event(8, (1, 1), MAGIC, b"a"),
            event(8, (0, 0), MAGIC, b"a"),
        ] {
            assert_eq!(take(&mut all, &wrong), None);
        }
        assert_eq!(all.refused, 3);
        let text = vec![b'x'; 60_000];
        for number in 0..1_000 {
            take(&mut all, &event(8, (2_000, number), MAGIC, &text));
        }
        assert!(all.bytes <= MOST_BYTES);
        assert_eq!(all.refused, 3 + 1_000 - (MOST_BYTES / (text.len() + OF_A_CHUNK)) as i64);
        let mut many = Manifests::default();
        for pid in 0..2 * MOST_OPEN as u32 {
            take(&mut many, &event(pid, (2, 0), MAGIC, b""));
        }
        assert_eq!((many.not_whole(), many.refused), (MOST_OPEN as i64, MOST_OPEN as i64));
    }
}

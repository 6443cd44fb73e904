//! The lines of a text in UTF-8 or UTF-16, one at a time.

use std::io::{self, BufRead, BufReader, Read};

/// Bytes of a line from which on it counts as damage. Command lines of Windows have up to 32 KiB.
pub const LONGEST_LINE: usize = 1 << 16;

const UTF_8: &[u8] = b"\xef\xbb\xbf";
const UTF_16_LITTLE: &[u8] = b"\xff\xfe";
const UTF_16_BIG: &[u8] = b"\xfe\xff";

/// A line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes; empty if it is too long.
    pub bytes: &'a [u8],
    /// Its number, from 1.
    pub number: u64,
    /// It ends with a newline.
    pub is_whole: bool,
    /// It has more than [`LONGEST_LINE`] bytes.
    pub is_too_long: bool,
}

/// Reads a text line by line.
pub struct Lines<R: Read> {
    input: BufReader<Decoded<R>>,
    line: Vec<u8>,
    number: u64,
    read: u64,
}

impl<R: Read> Lines<R> {
    /// Starts at the first line; a byte order mark decides the encoding, without one it is UTF-8.
    ///
    /// # Errors
    /// Reading fails.
    pub fn new(input: R) -> io::Result<Self> {
        let input = BufReader::with_capacity(BUFFER, Decoded::new(input)?);
        Ok(Self { input, line: Vec::new(), number: 0, read: 0 })
    }

    /// Bytes read so far, in UTF-8.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The next line; `None` after the last.
    ///
    /// # Errors
    /// Reading fails.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let most = LONGEST_LINE as u64 + 1;
        let mut size = (&mut self.input).take(most).read_until(b'\n', &mut self.line)? as u64;
        if size == 0 {
            return Ok(None);
        }
        let mut is_whole = self.line.last() == Some(&b'\n');
        let is_too_long = !is_whole && size == most;
        if is_too_long {
            self.line.clear();
            (size, is_whole) = self.skip(size)?;
        }
        self.number += 1;
        self.read += size;
        let end = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let bytes = end.strip_suffix(b"\r").unwrap_or(end);
        Ok(Some(Line { bytes, number: self.number, is_whole, is_too_long }))
    }

    /// Skips the rest of a line; returns its size, and whether it ends.
    fn skip(&mut self, mut size: u64) -> io::Result<(u64, bool)> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok((size, false));
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(count);
            size += count as u64;
            if end.is_some() {
                return Ok((size, true));
            }
        }
    }
}

/// Bytes that are read at once: in fuzz targets so few that lines and characters cross their ends.
pub(crate) const BUFFER: usize = if cfg!(feature = "fuzzing") { 1 << 9 } else { 1 << 18 };

#[derive(Clone, Copy)]
enum Encoding {
    Bytes,
    Utf16 { little: bool },
}

/// Bytes as they are, or UTF-16 as UTF-8.
pub(crate) struct Decoded<R> {
    input: R,
    encoding: Encoding,
    /// Bytes to return before any other.
    ready: Vec<u8>,
    at: usize,
    /// The first byte of half a unit, and the first half of a pair.
    odd: Option<u8>,
    high: Option<u16>,
}

impl<R: Read> Decoded<R> {
    pub(crate) fn new(mut input: R) -> io::Result<Self> {
        let mut begin = Vec::new();
        (&mut input).take(UTF_8.len() as u64).read_to_end(&mut begin)?;
        let (encoding, mark) = if begin.starts_with(UTF_16_LITTLE) {
            (Encoding::Utf16 { little: true }, 2)
        } else if begin.starts_with(UTF_16_BIG) {
            (Encoding::Utf16 { little: false }, 2)
        } else {
            (Encoding::Bytes, if begin.starts_with(UTF_8) { UTF_8.len() } else { 0 })
        };
        let rest = begin.split_off(mark.min(begin.len()));
        let mut decoded = Self { input, encoding, ready: Vec::new(), at: 0, odd: None, high: None };
        match encoding {
            Encoding::Bytes => decoded.ready = rest,
            Encoding::Utf16 { little } => decoded.units(&rest, little),
        }
        Ok(decoded)
    }

    /// Adds the text of these bytes of UTF-16.
    fn units(&mut self, bytes: &[u8], little: bool) {
        for byte in bytes {
            let Some(first) = self.odd.take() else {
                self.odd = Some(*byte);
                continue;
            };
            let pair = [first, *byte];
            let unit = if little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) };
            let high = self.high.take();
            if (0xd800..0xdc00).contains(&unit) {
                if high.is_some() {
                    self.push(char::REPLACEMENT_CHARACTER);
                }
                self.high = Some(unit);
                continue;
            }
            for found in char::decode_utf16(high.into_iter().chain([unit])) {
                self.push(found.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
    }

    fn push(&mut self, found: char) {
        self.ready.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let ready = self.ready.get(self.at..).unwrap_or_default();
            if !ready.is_empty() {
                let count = ready.len().min(out.len());
                out[..count].copy_from_slice(&ready[..count]);
                self.at += count;
                return Ok(count);
            }
            let Encoding::Utf16 { little } = self.encoding else { return self.input.read(out) };
            (self.at, self.ready) = (0, Vec::new());
            let mut bytes = vec![0; BUFFER];
            let count = self.input.read(&mut bytes)?;
            if count == 0 {
                return Ok(0);
            }
            self.units(&bytes[..count], little);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<(String, bool, bool)> {
        let mut lines = Lines::new(bytes).expect("opened");
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().expect("read") {
            let text = String::from_utf8_lossy(line.bytes).into_owned();
            found.push((text, line.is_whole, line.is_too_long));
        }
        found
    }

    fn utf_16(text: &str, little: bool) -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        let bytes = |unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
        units.flat_map(bytes).collect()
    }

    #[test]
    fn every_encoding_gives_the_same_lines() {
        let text = "a,\u{b5}s\r\n\u{1f3ae}\n\nend";
        let wanted: Vec<_> = [("a,\u{b5}s", true), ("\u{1f3ae}", true), ("", true), ("end", false)]
            .map(|(line, whole)| (line.to_owned(), whole, false))
            .into();
        let mut marked = b"\xef\xbb\xbf".to_vec();
        marked.extend(text.as_bytes());
        for bytes in [text.as_bytes().to_vec(), marked, utf_16(text, true), utf_16(text, false)] {
            assert_eq!(lines(&bytes), wanted);
        }
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\xff\xfe"), []);
    }

    #[test]
    fn long_lines_are_skipped_without_keeping_them() {
        let mut bytes = vec![b'x'; LONGEST_LINE];
        bytes.push(b'\n');
        bytes.extend(vec![b'y'; 3 * LONGEST_LINE]);
        bytes.extend(b"\nz\n");
        let found = lines(&bytes);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].0.len(), found[0].2), (LONGEST_LINE, false));
        assert_eq!((found[1].0.len(), found[1].1, found[1].2), (0, true, true));
        assert_eq!(found[2].0, "z");
    }

    #[test]
    fn half_of_a_surrogate_pair_is_a_replacement() {
        let bytes = [0xff, 0xfe, 0x00, 0xd8, b'a', 0, 0x00, 0xdc, 0x0a, 0];
        assert_eq!(lines(&bytes), [("\u{fffd}a\u{fffd}".to_owned(), true, false)]);
    }
}

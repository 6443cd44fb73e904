//! A page of the kernel's ring buffer (a sub-buffer): its header, and the records in it.

use schedlens_input::bytes::{u32_at, u64_at};
use schedlens_tracepoints::formats::Format;

use crate::error::Error;

/// The last type with a length in it, in words of 4 bytes.
const TYPE_DATA_MAX: u32 = 28;
/// `RINGBUF_TYPE_PADDING`
const PADDING: u32 = 29;
/// `RINGBUF_TYPE_TIME_EXTEND`
const TIME_EXTEND: u32 = 30;
/// Bits of the type, in front of those of the time.
const TYPE_BITS: u32 = 5;
/// Bits of the time in the first word of a record.
const TIME_BITS: u32 = 27;
/// The bits of a time that `RINGBUF_TYPE_TIME_STAMP` has no room for.
const TIME_TOP: u64 = 0xf8 << 56;
/// `RB_MISSED_EVENTS`: records before this page were overwritten.
const MISSED_EVENTS: u64 = 1 << 31;
/// `RB_MISSED_STORED`: their number follows the records.
const MISSED_STORED: u64 = 1 << 30;
/// The bits of `commit` that are a size.
const COMMIT_MASK: u64 = (1 << 27) - 1;

/// Where a page has its parts, as `header_page` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    commit_size: usize,
    data: usize,
}

impl Layout {
    /// # Errors
    /// No kernel has pages like these.
    pub(crate) fn of(header_page: &Format) -> Result<Self, Error> {
        // Kernels before 2.6.30 had no such file; those since write these two fields.
        let commit_size = header_page.field("commit").map_or(8, |field| field.size);
        let data = header_page.field("data").map_or(8 + commit_size, |field| field.offset);
        if !matches!(commit_size, 4 | 8) || data != 8 + commit_size {
            let found = commit_size as u64;
            return Err(Error::Size { what: "commit of header_page", found, least: 4, most: 8 });
        }
        Ok(Self { commit_size, data })
    }

    /// The header of a page; `None` if its records do not fit into the page.
    pub(crate) fn header(&self, page: &[u8]) -> Option<Header> {
        let ts = u64_at(page, 0)?;
        let long = |at| match self.commit_size {
            8 => u64_at(page, at),
            _ => u32_at(page, at).map(u64::from),
        };
        let commit = long(8)?;
        let end = self.data + (commit & COMMIT_MASK) as usize;
        if end > page.len() {
            return None;
        }
        let missed = if commit & MISSED_EVENTS == 0 {
            Missed::None
        } else if commit & MISSED_STORED != 0 {
            long(end).map_or(Missed::Some, Missed::Count)
        } else {
            Missed::Some
        };
        Some(Header { position: Position { at: self.data, end, ts }, missed })
    }
}

/// Whether records before a page were overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    None,
    /// Some; their number is not stored.
    Some,
    Count(u64),
}

/// The header of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// In front of its first record.
    pub(crate) position: Position,
    pub(crate) missed: Missed,
}

/// A place between two records of a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// Offset of the next record.
    pub(crate) at: usize,
    /// Offset after the last one.
    pub(crate) end: usize,
    /// Time of the record before it.
    pub(crate) ts: u64,
}

/// What follows a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The data of a record, from and to these offsets; the position has its time.
    Record(usize, usize),
    /// No further record.
    End,
    /// Bytes that are no record.
    Damaged,
}

impl Position {
    /// Advances behind the next record with data.
    #[inline(always)]
    pub(crate) fn step(&mut self, page: &[u8]) -> Step {
        loop {
            if self.at >= self.end {
                return Step::End;
            }
            let Some(word) = u32_at(page, self.at) else { return Step::Damaged };
            let (kind, delta) = (word & ((1 << TYPE_BITS) - 1), u64::from(word >> TYPE_BITS));
            if kind.wrapping_sub(1) < TYPE_DATA_MAX {
                let from = self.at + 4;
                let to = from + 4 * kind as usize;
                if to > self.end {
                    return Step::Damaged;
                }
                self.at = to;
                self.ts = self.ts.wrapping_add(delta);
                return Step::Record(from, to);
            }
            let Some(next) = u32_at(page, self.at + 4).filter(|_| self.at + 8 <= self.end) else {
                // The filler of a page's last bytes may be shorter.
                return if kind == PADDING { Step::End } else { Step::Damaged };
            };
            if let Some(step) = self.rare(kind, delta, next) {
                return step;
            }
        }
    }

    #[inline(never)]
    fn rare(&mut self, kind: u32, delta: u64, next: u32) -> Option<Step> {
        match kind {
            0 => {
                // The length counts its own 4 bytes, and the record is filled up to a word.
                let from = self.at + 8;
                let Some(length) = (next as usize).checked_sub(4) else {
                    return Some(Step::Damaged);
                };
                let to = from + length.next_multiple_of(4);
                if to > self.end {
                    return Some(Step::Damaged);
                }
                self.at = to;
                self.ts = self.ts.wrapping_add(delta);
                Some(Step::Record(from, to))
            }
            // Filler up to the end of the page; otherwise a record that was discarded.
            PADDING if delta == 0 => Some(Step::End),
            PADDING => {
                self.at += 4 + next as usize;
                self.ts = self.ts.wrapping_add(delta);
                if next < 4 || self.at > self.end { Some(Step::Damaged) } else { None }
            }
            kind => {
                let time = (u64::from(next) << TIME_BITS) + delta;
                self.at += 8;
                self.ts = if kind == TIME_EXTEND {
                    self.ts.wrapping_add(time)
                } else {
                    self.ts & TIME_TOP | time
                };
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { commit_size: 8, data: 16 };

    fn page(ts: u64, commit: u64, words: &[u32]) -> Vec<u8> {
        let mut page = ts.to_le_bytes().to_vec();
        page.extend(commit.to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page
    }

    fn word(kind: u32, delta: u32) -> u32 {
        kind | delta << TYPE_BITS
    }

    fn times(page: &[u8]) -> (Vec<(u64, usize)>, Step) {
        let mut position = LAYOUT.header(page).expect("a header").position;
        let mut found = Vec::new();
        loop {
            match position.step(page) {
                Step::Record(from, to) => found.push((position.ts, to - from)),
                other => return (found, other),
            }
        }
    }

    #[test]
    fn each_type_of_record_has_its_length_and_time() {
        let stamp = 1_u64 << 40 | 5;
        let words = [
            word(1, 0),
            7,
            // A length of its own: 4 and 5 bytes, filled up to 8.
            word(0, 10),
            9,
            1,
            2,
            // A discarded record of 8 bytes takes time too.
            word(PADDING, 3),
            8,
            0,
            // 2 << 27 later
            word(TIME_EXTEND, 0),
            2,
            word(1, 1),
            7,
            word(31, (stamp & 0x7ff_ffff) as u32),
            (stamp >> 27) as u32,
            word(1, 0),
            7,
            word(PADDING, 0),
            0,
        ];
        let page = page(1000, 4 * words.len() as u64, &words);
        let later = 1013 + (2 << 27) + 1;
        assert_eq!(times(&page), (vec![(1000, 4), (1010, 8), (later, 4), (stamp, 4)], Step::End));
    }

    #[test]
    fn the_top_bits_of_an_absolute_time_are_those_of_the_page() {
        let words = [word(31, 1), 0, word(1, 0), 7];
        let top = 0x10 << 56;
        assert_eq!(times(&page(top + 99, 16, &words)).0, [(top + 1, 4)]);
    }

    #[test]
    fn lost_events_are_counted_where_their_number_is_stored() {
        let missed = |commit: u64, words: &[u32]| {
            LAYOUT.header(&page(0, commit, words)).map(|header| header.missed)
        };
        assert_eq!(missed(4, &[0]), Some(Missed::None));
        assert_eq!(missed(4 | MISSED_EVENTS, &[0]), Some(Missed::Some));
        assert_eq!(missed(4 | MISSED_EVENTS | MISSED_STORED, &[0, 12, 0]), Some(Missed::Count(12)));
        assert_eq!(missed(4 | MISSED_EVENTS | MISSED_STORED, &[0, 12]), Some(Missed::Some));
        assert_eq!(missed(8, &[0]), None);
    }

    #[test]
    fn bytes_that_are_no_record_end_the_page() {
        for words in [
            vec![word(2, 0), 7],
            vec![word(0, 0), 3],
            vec![word(0, 0), 99],
            vec![word(30, 0)],
            vec![word(PADDING, 1), 0],
            vec![word(PADDING, 1), 64],
        ] {
            let page = page(0, 4 * words.len() as u64, &words);
            assert_eq!(times(&page), (vec![], Step::Damaged), "{words:?}");
        }
    }
}

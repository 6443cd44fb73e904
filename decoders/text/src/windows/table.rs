//! A CSV file record by record, with bounded memory.

use std::io::{self, BufRead, BufReader, Read};

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::lines::{BUFFER, Decoded};

/// Bytes of a record from which on it counts as damage. Stacks are long.
const LONGEST: usize = 1 << 20;
/// Cells of a record, likewise.
const MOST_CELLS: usize = 1 << 12;

/// A record. Without its cells if it is too long.
pub(super) struct Record<'a> {
    bytes: &'a [u8],
    ends: &'a [usize],
    /// Its number, from 1; the header is the first.
    pub(super) number: u64,
    /// It ends with a newline.
    pub(super) is_whole: bool,
    pub(super) is_too_long: bool,
}

impl<'a> Record<'a> {
    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A cell without the spaces around it.
    pub(super) fn cell(&self, at: usize) -> Option<&'a [u8]> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        Some(self.bytes.get(start..end)?.trim_ascii())
    }
}

/// Reads records.
pub(super) struct Table<R: Read> {
    input: BufReader<Decoded<R>>,
    reader: Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    number: u64,
    read: u64,
    /// The last byte taken.
    last: u8,
}

impl<R: Read> Table<R> {
    pub(super) fn new(input: R, delimiter: u8) -> io::Result<Self> {
        Ok(Self {
            input: BufReader::with_capacity(BUFFER, Decoded::new(input)?),
            reader: ReaderBuilder::new().delimiter(delimiter).build(),
            bytes: vec![0; 1 << 12],
            ends: vec![0; 1 << 8],
            number: 0,
            read: 0,
            last: 0,
        })
    }

    /// Bytes read so far.
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// The next record; `None` after the last.
    pub(super) fn next_record(&mut self) -> io::Result<Option<Record<'_>>> {
        let (mut size, mut cells, mut is_too_long) = (0, 0, false);
        loop {
            let input = self.input.fill_buf()?;
            let is_end = input.is_empty();
            let (result, taken, written, ended) = self.reader.read_record(
                input,
                self.bytes.get_mut(size..).unwrap_or_default(),
                self.ends.get_mut(cells..).unwrap_or_default(),
            );
            if let Some(last) = taken.checked_sub(1).and_then(|at| input.get(at)) {
                self.last = *last;
            }
            self.input.consume(taken);
            self.read += taken as u64;
            (size, cells) = (size + written, cells + ended);
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.bytes.len() < LONGEST => {
                    let more = self.bytes.len() * 2;
                    self.bytes.resize(more, 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() < MOST_CELLS => {
                    let more = self.ends.len() * 2;
                    self.ends.resize(more, 0);
                }
                // The rest of the record overwrites its beginning.
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    (size, cells, is_too_long) = (0, 0, true);
                }
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(None),
            }
            if is_end && matches!(result, ReadRecordResult::InputEmpty) {
                return Ok(None);
            }
        }
        self.number += 1;
        let cells = if is_too_long { 0 } else { cells };
        Ok(Some(Record {
            bytes: &self.bytes,
            ends: self.ends.get(..cells).unwrap_or_default(),
            number: self.number,
            is_whole: matches!(self.last, b'\n' | b'\r'),
            is_too_long,
        }))
    }
}

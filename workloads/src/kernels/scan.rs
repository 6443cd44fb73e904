//! scan: a query over a column of 16 Mi numbers: the sum of those below a bound.
//!
//! The column is far larger than a core's own caches, so the kernel waits for loads from beyond
//! them. Which rows match looks random.

use std::hint::black_box;

use super::register_loop::ODD;
use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work};
use crate::os::{self, Memory};

const COLUMN_BYTES: usize = 64 << 20;
/// Bytes of rows per iteration: 4 KiB.
const CHUNK_BYTES: usize = 4096;
const CHUNK_ROWS: u64 = CHUNK_BYTES as u64 / 4;
/// A quarter of the rows match.
const BOUND: u32 = u32::MAX / 4;
/// Memory to leave to the rest of the machine.
const SPARE_BYTES: u64 = 256 << 20;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "scan",
    summary: "sum of the numbers below a bound in a column of 64 MiB, 4 KiB an iteration",
    note: "bound by memory beyond the core's own caches; each worker has its own column",
    unit: Unit::Bytes,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: |threads| refusal(threads, os::available_memory_bytes()),
        crew: |threads, _| Crew::alone(threads, |_| Scanning::new(COLUMN_BYTES)),
    }],
    usual_cycles: None,
    instructions: None,
};

fn refusal(threads: usize, available: Option<u64>) -> Option<String> {
    let Some(available) = available else {
        return Some("the available memory is unknown".to_owned());
    };
    let needed = (COLUMN_BYTES as u64).saturating_mul(threads as u64).saturating_add(SPARE_BYTES);
    (available < needed).then(|| {
        let (needed, available) = (needed >> 20, available >> 20);
        format!("{threads} worker(s) need {needed} MiB of memory, {available} MiB are available")
    })
}

/// The number in a row.
fn row(number: u64) -> u32 {
    (number.wrapping_add(1).wrapping_mul(ODD) >> 29) as u32
}

struct Scanning {
    column: Memory,
    chunk: u64,
    iterations: u64,
    sum: u64,
}

impl Scanning {
    fn new(bytes: usize) -> Result<Scanning, String> {
        let mut column =
            Memory::new(bytes).map_err(|error| format!("no memory for {bytes} bytes: {error}"))?;
        for (number, place) in column.bytes_mut().chunks_exact_mut(4).enumerate() {
            place.copy_from_slice(&row(number as u64).to_ne_bytes());
        }
        Ok(Scanning { column, chunk: 0, iterations: 0, sum: 0 })
    }

    fn chunks(&self) -> u64 {
        (self.column.bytes().len() / CHUNK_BYTES) as u64
    }
}

fn matching(rows: &[u8]) -> u64 {
    rows.chunks_exact(4)
        .map(|row| u32::from_ne_bytes([row[0], row[1], row[2], row[3]]))
        .map(|number| if number < BOUND { u64::from(number) } else { 0 })
        .sum()
}

impl Work for Scanning {
    fn batch(&mut self, iterations: u64) -> u64 {
        let chunks = self.chunks();
        for _ in 0..iterations {
            let begin = self.chunk as usize * CHUNK_BYTES;
            let rows = &self.column.bytes()[begin..begin + CHUNK_BYTES];
            self.sum = self.sum.wrapping_add(matching(black_box(rows)));
            self.chunk = (self.chunk + 1) % chunks;
        }
        self.iterations += iterations;
        iterations
    }

    fn bytes_per_iteration(&self) -> u64 {
        CHUNK_BYTES as u64
    }

    fn prove(&mut self) -> Vec<Proof> {
        let chunks = self.chunks();
        let (passes, rest) = (self.iterations / chunks, self.iterations % chunks);
        // Compute the numbers again instead of reading the memory.
        let sum = |chunks: u64| -> u64 {
            (0..chunks * CHUNK_ROWS).map(row).filter(|row| *row < BOUND).map(u64::from).sum()
        };
        let expected = sum(chunks).wrapping_mul(passes).wrapping_add(sum(rest));
        vec![Proof::new(format!("sum over {} chunks", self.iterations), expected, self.sum)]
    }

    fn sizes(&self) -> Vec<(&'static str, u64)> {
        vec![("memory_bytes_per_worker", self.column.bytes().len() as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scan_goes_round_and_a_wrong_row_is_found() {
        let mut work = Scanning::new(4 * CHUNK_BYTES).expect("16 KiB are free");
        work.batch(0);
        work.batch(3);
        work.batch(6);
        assert_eq!((work.chunk, work.iterations), (1, 9));
        assert!(work.prove().iter().all(Proof::holds));
        work.column.bytes_mut()[CHUNK_BYTES..CHUNK_BYTES + 4].copy_from_slice(&7_u32.to_ne_bytes());
        work.batch(1);
        assert!(!work.prove().iter().any(Proof::holds));
    }

    #[test]
    fn a_quarter_of_the_rows_match() {
        let matching = (0..1 << 16).filter(|number| row(*number) < BOUND).count();
        assert!((15_884..=16_884).contains(&matching), "{matching}");
    }

    #[test]
    fn it_is_refused_where_memory_is_short_or_unknown() {
        assert_eq!(refusal(1, Some(320 << 20)), None);
        let short = "2 worker(s) need 384 MiB of memory, 320 MiB are available";
        assert_eq!(refusal(2, Some(320 << 20)), Some(short.to_owned()));
        assert_eq!(refusal(1, None), Some("the available memory is unknown".to_owned()));
    }
}

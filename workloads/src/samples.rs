//! `samples.bin`: one record per batch.

use std::io::{self, Write};

/// The first bytes of the file.
pub const MAGIC: &[u8; 8] = b"SLSAMP1\0";
/// Size of one record in bytes.
pub const RECORD_BYTES: usize = 48;
/// Flag: the batch ended on another CPU than it started on.
pub const CPU_CHANGED: u32 = 1;

/// One batch of one worker. Times are ns of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub worker: u32,
    pub cpu_at_start: u16,
    pub cpu_at_end: u16,
    pub start_mono_ns: i64,
    pub end_mono_ns: i64,
    pub iterations: u64,
    pub bytes: u64,
}

impl Sample {
    /// The record's flags.
    pub fn flags(&self) -> u32 {
        if self.cpu_at_start == self.cpu_at_end { 0 } else { CPU_CHANGED }
    }

    fn record(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[0..4].copy_from_slice(&self.worker.to_le_bytes());
        record[4..6].copy_from_slice(&self.cpu_at_start.to_le_bytes());
        record[6..8].copy_from_slice(&self.cpu_at_end.to_le_bytes());
        record[8..12].copy_from_slice(&self.flags().to_le_bytes());
        record[16..24].copy_from_slice(&self.start_mono_ns.to_le_bytes());
        record[24..32].copy_from_slice(&self.end_mono_ns.to_le_bytes());
        record[32..40].copy_from_slice(&self.iterations.to_le_bytes());
        record[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        record
    }
}

/// Writes the whole file.
///
/// # Errors
/// Those of the writer.
pub fn write(out: &mut impl Write, samples: &[Sample]) -> io::Result<()> {
    out.write_all(MAGIC)?;
    for sample in samples {
        out.write_all(&sample.record())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        bytes[at..at + N].try_into().expect("N bytes were sliced")
    }

    fn read(bytes: &[u8]) -> Vec<(u32, Sample)> {
        assert_eq!(&bytes[..8], MAGIC);
        assert_eq!((bytes.len() - 8) % RECORD_BYTES, 0);
        bytes[8..]
            .chunks(RECORD_BYTES)
            .map(|record| {
                assert_eq!(array::<4>(record, 12), [0; 4]);
                let sample = Sample {
                    worker: u32::from_le_bytes(array(record, 0)),
                    cpu_at_start: u16::from_le_bytes(array(record, 4)),
                    cpu_at_end: u16::from_le_bytes(array(record, 6)),
                    start_mono_ns: i64::from_le_bytes(array(record, 16)),
                    end_mono_ns: i64::from_le_bytes(array(record, 24)),
                    iterations: u64::from_le_bytes(array(record, 32)),
                    bytes: u64::from_le_bytes(array(record, 40)),
                };
                (u32::from_le_bytes(array(record, 8)), sample)
            })
            .collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let still = Sample {
            worker: 3,
            cpu_at_start: 7,
            cpu_at_end: 7,
            start_mono_ns: 1_000_000_007,
            end_mono_ns: 1_000_500_009,
            iterations: u64::MAX,
            bytes: 65_536,
        };
        let moved = Sample { worker: u32::MAX, cpu_at_end: 4095, start_mono_ns: -5, ..still };
        let mut bytes = Vec::new();
        write(&mut bytes, &[still, moved]).expect("a Vec takes all bytes");
        assert_eq!(bytes.len(), 8 + 2 * 48);
        assert_eq!(read(&bytes), vec![(0, still), (1, moved)]);
    }
}

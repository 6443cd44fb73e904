//! Parses what `NtQuerySystemInformation` returns on a 64-bit system.

use std::fmt;

/// `SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION`.
const PROCESSOR_BYTES: usize = 48;
/// `SYSTEM_PROCESS_INFORMATION` up to its threads.
const PROCESS_BYTES: usize = 256;
/// `SYSTEM_THREAD_INFORMATION`.
const THREAD_BYTES: usize = 80;

/// A buffer that is too short for its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Short {
    pub at: usize,
    pub needed: usize,
    pub size: usize,
}

impl fmt::Display for Short {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Short { at, needed, size } = self;
        write!(out, "the entry at byte {at} needs {needed} bytes of a buffer of {size}")
    }
}

/// Times of a logical CPU since boot, in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessorTimes {
    pub user_ns: i64,
    /// Without idle time, interrupts and deferred procedure calls.
    pub system_ns: i64,
    pub idle_ns: i64,
    pub interrupt_ns: i64,
    pub dpc_ns: i64,
}

/// A thread as the system lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub pid: u32,
    pub tid: u32,
    /// Name of the process's image.
    pub name: String,
    /// `KTHREAD_STATE`.
    pub state: u32,
    pub user_ns: i64,
    pub system_ns: i64,
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&self, at: usize, count: usize) -> Result<&'a [u8], Short> {
        let end = at.saturating_add(count);
        self.0.get(at..end).ok_or(Short { at, needed: count, size: self.0.len() })
    }

    fn word(&self, at: usize, count: usize) -> Result<u64, Short> {
        let bytes = self.take(at, count)?;
        Ok(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// A time, which the system counts in units of 100 ns.
    fn ns(&self, at: usize) -> Result<i64, Short> {
        Ok(self.word(at, 8)?.cast_signed().saturating_mul(100))
    }
}

/// `SystemProcessorPerformanceInformation`: a row for each CPU of a processor group.
///
/// # Errors
/// A truncated last row.
pub fn processor_times(bytes: &[u8]) -> Result<Vec<ProcessorTimes>, Short> {
    let all = Bytes(bytes);
    let mut rows = Vec::new();
    for at in (0..bytes.len()).step_by(PROCESSOR_BYTES) {
        all.take(at, PROCESSOR_BYTES)?;
        let (idle_ns, kernel_ns) = (all.ns(at)?, all.ns(at + 8)?);
        let (dpc_ns, interrupt_ns) = (all.ns(at + 24)?, all.ns(at + 32)?);
        // The kernel time includes the other three.
        let system_ns = kernel_ns
            .saturating_sub(idle_ns)
            .saturating_sub(dpc_ns)
            .saturating_sub(interrupt_ns)
            .max(0);
        rows.push(ProcessorTimes {
            user_ns: all.ns(at + 16)?,
            system_ns,
            idle_ns,
            interrupt_ns,
            dpc_ns,
        });
    }
    Ok(rows)
}

/// `SystemProcessInformation`: all threads. `address` is where the buffer was, because names are
/// given by address.
///
/// # Errors
/// An entry that extends beyond the buffer.
pub fn threads(bytes: &[u8], address: u64) -> Result<Vec<Thread>, Short> {
    let all = Bytes(bytes);
    let mut rows = Vec::new();
    let mut at = 0;
    loop {
        all.take(at, PROCESS_BYTES)?;
        let next = all.word(at, 4)? as usize;
        let count = all.word(at + 4, 4)? as usize;
        let name = image_name(&all, at, address)?;
        let own = count.saturating_mul(THREAD_BYTES);
        all.take(at + PROCESS_BYTES, own)?;
        for index in 0..count {
            let row = at + PROCESS_BYTES + index * THREAD_BYTES;
            rows.push(Thread {
                system_ns: all.ns(row)?,
                user_ns: all.ns(row + 8)?,
                pid: all.word(row + 40, 8)? as u32,
                tid: all.word(row + 48, 8)? as u32,
                state: all.word(row + 68, 4)? as u32,
                name: name.clone(),
            });
        }
        if next == 0 {
            return Ok(rows);
        }
        at = at.saturating_add(next);
    }
}

/// The `UNICODE_STRING` of a process; the idle process has none.
fn image_name(all: &Bytes<'_>, at: usize, address: u64) -> Result<String, Short> {
    let length = all.word(at + 56, 2)? as usize;
    let text = all.word(at + 64, 8)?;
    if length == 0 || text < address {
        return Ok(String::new());
    }
    let bytes = all.take(usize::try_from(text - address).unwrap_or(usize::MAX), length)?;
    let (letters, _) = bytes.as_chunks::<2>();
    let letters: Vec<u16> = letters.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    Ok(String::from_utf16_lossy(&letters))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    #[test]
    fn times_of_a_cpu_are_divided_so_that_they_sum() {
        let mut bytes = vec![0; 2 * PROCESSOR_BYTES];
        for (index, hundreds) in [700_i64, 900, 50, 30, 20].iter().enumerate() {
            put(&mut bytes, PROCESSOR_BYTES + 8 * index, &hundreds.to_le_bytes());
        }
        let rows = processor_times(&bytes).expect("two whole rows");
        let second = ProcessorTimes {
            user_ns: 5_000,
            system_ns: 15_000,
            idle_ns: 70_000,
            interrupt_ns: 2_000,
            dpc_ns: 3_000,
        };
        assert_eq!((rows.len(), &rows[1]), (2, &second));
        let cut = processor_times(&bytes[..90]);
        assert_eq!(cut, Err(Short { at: 48, needed: 48, size: 90 }));
    }

    /// Two processes: one with two threads and a name after them, one with none.
    fn processes() -> Vec<u8> {
        let first = PROCESS_BYTES + 2 * THREAD_BYTES + 16;
        let mut bytes = vec![0; first + PROCESS_BYTES];
        put(&mut bytes, 0, &(first as u32).to_le_bytes());
        put(&mut bytes, 4, &2_u32.to_le_bytes());
        put(&mut bytes, 56, &10_u16.to_le_bytes());
        put(&mut bytes, 64, &(0x1000_u64 + 416).to_le_bytes());
        for (index, letter) in "é.exe".encode_utf16().enumerate() {
            put(&mut bytes, 416 + 2 * index, &letter.to_le_bytes());
        }
        for (index, tid) in [71_u64, 72].iter().enumerate() {
            let row = PROCESS_BYTES + index * THREAD_BYTES;
            put(&mut bytes, row, &(10 * tid).to_le_bytes());
            put(&mut bytes, row + 8, &tid.to_le_bytes());
            put(&mut bytes, row + 40, &7_u64.to_le_bytes());
            put(&mut bytes, row + 48, &tid.to_le_bytes());
            put(&mut bytes, row + 68, &5_u32.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn threads_have_the_name_and_id_of_their_process() {
        let bytes = processes();
        let rows = threads(&bytes, 0x1000).expect("two whole entries");
        let second = Thread {
            pid: 7,
            tid: 72,
            name: "é.exe".to_owned(),
            state: 5,
            user_ns: 7_200,
            system_ns: 72_000,
        };
        assert_eq!((rows.len(), &rows[1]), (2, &second));
    }

    #[test]
    fn an_entry_beyond_the_buffer_is_named() {
        let whole = processes();
        for size in 0..whole.len() {
            assert!(threads(&whole[..size], 0x1000).is_err(), "{size}");
        }
        let mut many = whole.clone();
        put(&mut many, 4, &u32::MAX.to_le_bytes());
        let needed = u32::MAX as usize * THREAD_BYTES;
        let wrong = Short { at: PROCESS_BYTES, needed, size: whole.len() };
        assert_eq!(threads(&many, 0x1000), Err(wrong));
    }
}

//! `TRACE_LOGFILE_HEADER`: the first record of every log.

use schedlens_input::bytes::{u32_at, u64_at};

use crate::container::buffer::HEADER;
use crate::error::Error;
use crate::records::head::Head;
use crate::records::{Id, Place, Pointer};

/// `LogFileMode` bits.
pub mod mode {
    /// `EVENT_TRACE_FILE_MODE_CIRCULAR`.
    pub const CIRCULAR: u32 = 1 << 1;
    /// `EVENT_TRACE_FILE_MODE_APPEND`: a later session continued the file.
    pub const APPEND: u32 = 1 << 2;
    /// `EVENT_TRACE_FILE_MODE_NEWFILE`: when a file is full, the session continues in another.
    pub const NEW_FILE: u32 = 1 << 3;
    /// `EVENT_TRACE_BUFFERING_MODE`: a ring in memory, written on request.
    pub const BUFFERING: u32 = 1 << 10;
    /// `EVENT_TRACE_PRIVATE_LOGGER_MODE`: the program itself fills the buffers.
    pub const PRIVATE: u32 = 1 << 11;
    /// `EVENT_TRACE_RELOG_MODE`: merged or relogged.
    pub const RELOG: u32 = 1 << 16;
    /// `EVENT_TRACE_COMPRESSED_MODE`.
    pub const COMPRESSED: u32 = 1 << 26;
    /// `EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING`: a buffer contains records of several processors.
    pub const MIXED: u32 = 1 << 28;

    /// Documented names of the bits, without prefix and in lower case.
    pub(crate) const NAMES: [(u32, &str); 26] = [
        (0, "sequential"),
        (1, "circular"),
        (2, "append"),
        (3, "new_file"),
        (5, "preallocate"),
        (6, "nonstoppable"),
        (7, "secured"),
        (8, "real_time"),
        (9, "delay_open_file"),
        (10, "buffering"),
        (11, "private"),
        (12, "add_header"),
        (13, "use_kbytes_for_size"),
        (14, "global_sequence"),
        (15, "local_sequence"),
        (16, "relog"),
        (17, "private_in_proc"),
        (22, "stop_on_hybrid_shutdown"),
        (23, "persist_on_hybrid_shutdown"),
        (24, "paged_memory"),
        (25, "system_logger"),
        (26, "compressed"),
        (27, "independent_session"),
        (28, "no_per_processor_buffering"),
        (29, "blocking"),
        (31, "addto_triage_dump"),
    ];
}

/// The contents of a log's header; times are FILETIMEs, 100 ns since 1601.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHeader {
    /// Buffer size in bytes.
    pub buffer_size: u32,
    /// Windows version: major, minor.
    pub os_version: (u8, u8),
    /// Version of the layout: major, minor.
    pub layout: (u8, u8),
    /// Windows build.
    pub os_build: u32,
    /// Logical CPUs.
    pub num_processors: u32,
    /// End time; `None` for a log that was not closed.
    pub end_time: Option<u64>,
    /// Time between two timer interrupts, 100 ns.
    pub timer_resolution: u32,
    /// Maximum size, in the unit that the mode defines; 0: unlimited.
    pub max_file_size: u32,
    /// `LogFileMode`: see [`mode`].
    pub mode: u32,
    /// Buffers written by the session.
    pub buffers_written: u32,
    /// Pointer width of the traced system.
    pub pointer: Pointer,
    /// Events lost.
    pub events_lost: u32,
    /// Nominal frequency of the CPUs, MHz.
    pub cpu_mhz: u32,
    /// Boot time.
    pub boot_time: u64,
    /// Performance counter ticks per second.
    pub perf_freq: u64,
    /// Start time.
    pub start_time: u64,
    /// Which clock: `ReservedFlags`.
    pub clock_type: u32,
    /// Buffers lost.
    pub buffers_lost: u32,
    /// Minutes from local time to UTC.
    pub utc_bias_minutes: i32,
    /// Name of the session.
    pub session_name: String,
    /// Name of the log file.
    pub log_file_name: String,
    /// Raw time of the header record.
    pub start_clock: i64,
}

/// `TIME_ZONE_INFORMATION`.
const TIME_ZONE: usize = 172;

impl LogHeader {
    /// Reads the header from the first buffer's records.
    ///
    /// # Errors
    /// The record is not a header, or is truncated.
    pub(crate) fn read(records: &[u8]) -> Result<Self, Error> {
        let what = "the header of the log";
        let short = |needed: usize| Error::TooShort {
            what,
            needed: needed as u64,
            left: records.len() as u64,
        };
        let head = Head::at(records, 0, 0).map_err(|_| short(32 + 280))?;
        let place = Place { file: 0, buffer: 0, at: HEADER as u32 };
        let record = head.record(records, 0, (None, place));
        if record.id != Id::Hook(0) {
            return Err(short(32 + 280));
        }
        Self::of(record.payload, record.ts).ok_or_else(|| short(32 + 280))
    }

    fn of(payload: &[u8], start_clock: i64) -> Option<Self> {
        let int = |at| u32_at(payload, at);
        let byte = |at: usize| payload.get(at).copied();
        // The marker of this record need not match the traced system.
        let pointer = if int(44)? == 4 { Pointer::Four } else { Pointer::Eight };
        let zone = 56 + 2 * pointer.size();
        let times = (zone + TIME_ZONE).next_multiple_of(8);
        let (session_name, after) = utf16(payload, times + 32);
        let (log_file_name, _) = utf16(payload, after);
        Some(Self {
            buffer_size: int(0)?,
            os_version: (byte(4)?, byte(5)?),
            layout: (byte(6)?, byte(7)?),
            os_build: int(8)?,
            num_processors: int(12)?,
            end_time: Some(u64_at(payload, 16)?).filter(|time| *time != 0),
            timer_resolution: int(24)?,
            max_file_size: int(28)?,
            mode: int(32)?,
            buffers_written: int(36)?,
            pointer,
            events_lost: int(48)?,
            cpu_mhz: int(52)?,
            utc_bias_minutes: int(zone)?.cast_signed(),
            boot_time: u64_at(payload, times)?,
            perf_freq: u64_at(payload, times + 8)?,
            start_time: u64_at(payload, times + 16)?,
            clock_type: int(times + 24)?,
            buffers_lost: int(times + 28)?,
            session_name,
            log_file_name,
            start_clock,
        })
    }

    /// Whether a mode bit is set.
    pub fn has(&self, bit: u32) -> bool {
        self.mode & bit != 0
    }
}

/// Whether a file begins like a log: the first record of the first buffer is the header.
pub fn begins(file: &[u8]) -> bool {
    // The header need not be complete: session and file names make it long.
    let is_header = u64_at(file, HEADER).is_some_and(|word| {
        matches!((word >> 16) as u16, SYSTEM32 | SYSTEM64) && (word >> 48) as u16 == 0
    });
    is_header && u32_at(file, 0).is_some_and(|size| size as usize >= HEADER)
}

/// Type and flags of a `SYSTEM_TRACE_HEADER`.
const SYSTEM32: u16 = 0xc001;
/// The 64-bit type and flags.
const SYSTEM64: u16 = 0xc002;

/// A UTF-16 text up to its NUL or the end, and the position after it.
fn utf16(data: &[u8], at: usize) -> (String, usize) {
    let mut units = Vec::new();
    let mut after = at;
    for pair in data.get(at..).unwrap_or_default().chunks_exact(2) {
        after += 2;
        match u16::from_le_bytes([pair[0], pair[1]]) {
            0 => break,
            unit => units.push(unit),
        }
    }
    (String::from_utf16_lossy(&units), after)
}

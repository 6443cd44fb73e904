//! The options of a file: what trace-cmd states about the recording besides its records.

use schedlens_input::bytes::{Bytes, TooShort, text};

use crate::clock::{TimeShift, Tsc};

/// `TRACECMD_OPTION_DONE`, the end of a list of options.
const DONE: u16 = 0;
const DATE: u16 = 1;
const CPUSTAT: u16 = 2;
const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const OFFSET: u16 = 7;
const CPUCOUNT: u16 = 8;
const VERSION: u16 = 9;
const TRACEID: u16 = 11;
const TIME_SHIFT: u16 = 12;
const GUEST: u16 = 13;
const TSC2NSEC: u16 = 14;
pub(crate) const HEADER_INFO: u16 = 16;
pub(crate) const FTRACE_EVENTS: u16 = 17;
pub(crate) const EVENT_FORMATS: u16 = 18;
pub(crate) const CMDLINES: u16 = 21;
const BUFFER_TEXT: u16 = 22;

/// Most CPUs of a guest or a buffer: `NR_CPUS` is at most this.
const MOST_CPUS: u32 = 1 << 13;
/// Most buffers of a file, and most CPUs of all of them: few bytes may list very many. trace-cmd
/// creates the buffers that its user names.
const MOST_BUFFERS: usize = 1 << 10;
const MOST_LANES: usize = 1 << 17;
/// `NAME_MAX`: a buffer is a folder of tracefs.
const LONGEST_NAME: usize = 255;

/// The data of one CPU in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuData {
    /// Logical CPU.
    pub cpu: i32,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub size: u64,
}

/// A buffer (instance) of ftrace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Its name; empty for the one that always exists.
    pub name: String,
    /// Offset of its section, or of its list of CPUs in version 6.
    pub offset: u64,
    /// Its clock, if stated.
    pub clock: Option<String>,
    /// Size of its pages; `None`: that of the file.
    pub page_size: Option<u32>,
    /// The data of its CPUs.
    pub cpus: Vec<CpuData>,
    /// It contains the text of a latency tracer.
    pub is_text: bool,
}

/// A guest whose recording belongs to this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// Identifier of its recording.
    pub trace_id: u64,
    /// CPU of the guest, and the thread of the host that runs it.
    pub cpus: Vec<(i32, i32)>,
}

/// What the options state.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Difference of wall time and the recording's clock, ns.
    pub date_ns: Option<i64>,
    /// Added to every time, ns.
    pub offset_ns: i64,
    /// The counts of all buffers and CPUs at the end, as tracefs prints them.
    pub stats: String,
    /// The buffers, by their options.
    pub buffers: Vec<Buffer>,
    /// The clock is stated (version 6: after the list of CPUs).
    pub states_clock: bool,
    /// The file `trace_clock`.
    pub clocks: Option<String>,
    /// System, host, release and machine.
    pub uname: Option<String>,
    /// Number of CPUs.
    pub cpu_count: Option<u32>,
    /// Version of trace-cmd.
    pub version: Option<String>,
    /// Identifier of this recording.
    pub trace_id: Option<u64>,
    /// How times of a guest become times of its host.
    pub time_shift: Option<TimeShift>,
    /// Guests that were recorded at the same time.
    pub guests: Vec<Guest>,
    /// How ticks become nanoseconds.
    pub tsc: Option<Tsc>,
    /// Offsets of sections, by number of their option.
    pub(crate) sections: Vec<(u16, u64)>,
    /// Options that could not be read.
    pub(crate) damaged: Vec<u16>,
    /// Number of CPUs of all buffers.
    lanes: usize,
    /// Number of buffers that are left out because there are too many.
    pub(crate) surplus: u32,
    /// Buffers may be missing.
    pub(crate) is_incomplete: bool,
}

impl Options {
    /// Reads a list of options up to its end. With sections (version 7), returns the offset of the
    /// next list, if there is one.
    ///
    /// # Errors
    /// The data ends before the list does.
    pub(crate) fn add(
        &mut self,
        bytes: &mut Bytes<'_>,
        has_sections: bool,
    ) -> Result<Option<u64>, TooShort> {
        loop {
            let number = bytes.u16()?;
            if number == DONE && !has_sections {
                return Ok(None);
            }
            let size = bytes.u32()?;
            let data = bytes.take(u64::from(size))?;
            if number == DONE {
                return Ok(Bytes::new(data, "the last option").u64().ok().filter(|at| *at > 0));
            }
            if self.one(number, data, has_sections).is_err() {
                self.damaged.push(number);
                self.is_incomplete |= number == BUFFER;
            }
        }
    }

    fn one(&mut self, number: u16, data: &[u8], has_sections: bool) -> Result<(), TooShort> {
        let mut bytes = Bytes::new(data, "an option");
        match number {
            DATE => self.date_ns = integer(&text(data)).and_then(|us| us.checked_mul(1000)),
            OFFSET => {
                let more = integer(&text(data)).unwrap_or_default();
                self.offset_ns = self.offset_ns.saturating_add(more);
            }
            CPUSTAT => {
                self.stats.push_str(&text(data));
                self.stats.push('\n');
            }
            BUFFER | BUFFER_TEXT => {
                let buffer = buffer(&mut bytes, has_sections, number == BUFFER_TEXT)?;
                if self.buffers.len() < MOST_BUFFERS && self.take_room(buffer.cpus.len()) {
                    self.buffers.push(buffer);
                } else {
                    self.leave_out();
                }
            }
            TRACECLOCK => {
                self.states_clock = true;
                self.clocks = Some(text(data)).filter(|clocks| !clocks.is_empty());
            }
            UNAME => self.uname = Some(text(data)),
            CPUCOUNT => self.cpu_count = Some(bytes.u32()?),
            VERSION => self.version = Some(text(data)),
            TRACEID => self.trace_id = Some(bytes.u64()?),
            TIME_SHIFT => self.time_shift = Some(TimeShift::read(&mut bytes)?),
            GUEST => self.guests.push(guest(&mut bytes)?),
            TSC2NSEC => {
                self.tsc = Some(Tsc { multiplier: bytes.u32()?, shift: bytes.u32()? });
            }
            HEADER_INFO | FTRACE_EVENTS | EVENT_FORMATS | CMDLINES => {
                self.sections.push((number, bytes.u64()?));
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts the CPUs of another buffer; false if they are too many.
    pub(crate) fn take_room(&mut self, cpus: usize) -> bool {
        let fits = self.lanes + cpus <= MOST_LANES;
        self.lanes += if fits { cpus } else { 0 };
        fits
    }

    /// Counts a buffer that is not read.
    pub(crate) fn leave_out(&mut self) {
        self.surplus = self.surplus.saturating_add(1);
        self.is_incomplete = true;
    }

    /// The clock of the times: the one in brackets.
    pub(crate) fn clock(&self) -> Option<&str> {
        let (_, rest) = self.clocks.as_deref()?.split_once('[')?;
        let (name, _) = rest.split_once(']')?;
        Some(name)
    }
}

/// A number as `strtoll` reads it: decimal, or hexadecimal after `0x`.
fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let number = match digits.strip_prefix("0x") {
        // Differences of clocks are written as if they had no sign.
        Some(digits) => u64::from_str_radix(digits, 16).ok()?.cast_signed(),
        None => digits.parse().ok()?,
    };
    number.checked_mul(sign)
}

fn buffer(bytes: &mut Bytes<'_>, has_sections: bool, is_text: bool) -> Result<Buffer, TooShort> {
    let offset = bytes.u64()?;
    let name = bytes.zero_ended()?.chars().take(LONGEST_NAME).collect();
    let mut found = Buffer { offset, name, is_text, ..Buffer::default() };
    if !has_sections {
        return Ok(found);
    }
    found.clock = Some(bytes.zero_ended()?);
    if is_text {
        return Ok(found);
    }
    found.page_size = Some(bytes.u32()?);
    let cpus = bytes.u32()?.min(MOST_CPUS);
    for _ in 0..cpus {
        let cpu = cpu_number(bytes.u32()?);
        found.cpus.push(CpuData { cpu, offset: bytes.u64()?, size: bytes.u64()? });
    }
    Ok(found)
}

fn guest(bytes: &mut Bytes<'_>) -> Result<Guest, TooShort> {
    let mut found = Guest { name: bytes.zero_ended()?, trace_id: bytes.u64()?, ..Guest::default() };
    for _ in 0..bytes.u32()?.min(MOST_CPUS) {
        found.cpus.push((cpu_number(bytes.u32()?), bytes.u32()?.cast_signed()));
    }
    Ok(found)
}

/// -1 if it is none.
fn cpu_number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(number: u16, data: &[u8]) -> Vec<u8> {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn options_are_read_up_to_the_end_of_their_list() {
        let mut data = option(DATE, b"0x7b\0");
        data.extend(option(OFFSET, b"-40\0"));
        data.extend(option(TRACECLOCK, b"local global [mono] tai\n\0"));
        data.extend(option(999, b"of a later version"));
        data.extend(option(TRACEID, &7_u64.to_le_bytes()));
        data.extend(option(TRACEID, b"short"));
        let mut guest = b"vm\0".to_vec();
        guest.extend(9_u64.to_le_bytes());
        for number in [2_u32, 0, 501, 1, 502] {
            guest.extend(number.to_le_bytes());
        }
        data.extend(option(GUEST, &guest));
        let mut six = data.clone();
        six.extend([0, 0, b'f']);
        data.extend(option(DONE, &4096_u64.to_le_bytes()));
        for (bytes, has_sections, next) in [(&six, false, None), (&data, true, Some(4096))] {
            let mut options = Options::default();
            let mut bytes = Bytes::new(bytes, "options");
            assert_eq!(options.add(&mut bytes, has_sections), Ok(next));
            assert_eq!(bytes.left(), usize::from(!has_sections));
            assert_eq!((options.date_ns, options.offset_ns), (Some(123_000), -40));
            assert_eq!((options.clock(), options.trace_id), (Some("mono"), Some(7)));
            assert_eq!(options.damaged, [TRACEID]);
            let vm = Guest { name: "vm".into(), trace_id: 9, cpus: vec![(0, 501), (1, 502)] };
            assert_eq!(options.guests, [vm]);
        }
        for cut in 0..data.len() {
            let mut bytes = Bytes::new(&data[..cut], "options");
            assert!(Options::default().add(&mut bytes, true).is_err(), "{cut}");
        }
    }

    #[test]
    fn differences_of_clocks_may_be_negative() {
        assert_eq!(integer("0xffffffffffffffff"), Some(-1));
        assert_eq!(integer("-0x10"), Some(-16));
        assert_eq!(integer("12 "), Some(12));
        assert_eq!(integer("-0x8000000000000000"), None);
        assert_eq!(integer("now"), None);
    }
}

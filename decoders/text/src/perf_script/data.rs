//! Writes a perf.data: records in one pass, the description behind them.

use std::io::{self, Seek, SeekFrom, Write};

use super::described::Described;
use super::events::{self, Shown};

/// Size of `perf_file_header`.
const HEADER: u64 = 104;
/// `PERF_ATTR_SIZE_VER7`
const ATTR: u32 = 128;

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;
const COMM_EXEC: u16 = 1 << 13;
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// `PERF_SAMPLE_TID | TIME | CPU | RAW | IDENTIFIER`
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 7 | 1 << 10 | 1 << 16;
const FLAG_COMM: u64 = 1 << 9;
const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
const FLAG_TASK: u64 = 1 << 13;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;

const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_COUNT_SW_DUMMY`
const DUMMY: u64 = 9;
/// `config` of tracepoints whose fields are not read: no format has it.
const UNREAD: u64 = 1 << 20;

/// When, where and in which thread a record was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// `None`: not printed.
    pub(super) pid: Option<i32>,
    pub(super) tid: i32,
    pub(super) ns: u64,
    pub(super) cpu: Option<u32>,
}

impl Stamp {
    fn ids(self) -> [[u8; 4]; 2] {
        [self.pid.unwrap_or(-1).to_le_bytes(), self.tid.to_le_bytes()]
    }

    fn cpu(self) -> [u8; 8] {
        // perf writes -1 for a CPU that is not known.
        u64::from(self.cpu.unwrap_or(u32::MAX)).to_le_bytes()
    }
}

/// A record that is not a sample.
pub(super) enum Side<'a> {
    Comm { pid: i32, tid: i32, name: &'a [u8], exec: bool },
    Task { born: bool, own: (i32, i32), parent: (i32, i32) },
    Switch { out: bool, preempted: bool, other: Option<(i32, i32)> },
    Lost(u64),
}

/// A perf.data under construction.
pub(super) struct Data<W> {
    out: W,
    size: u64,
    /// Names of the events; their place is their id.
    names: Vec<Vec<u8>>,
    flags: u64,
    /// A record with a time was written.
    is_timed: bool,
    record: Vec<u8>,
}

impl<W: Write + Seek> Data<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&[0; HEADER as usize])?;
        let (names, record) = (Vec::new(), Vec::new());
        Ok(Self { out, size: 0, names, flags: FLAG_SAMPLE_ID_ALL, is_timed: false, record })
    }

    /// Number of the event of that name; `None` if there are more than a recording has.
    pub(super) fn event(&mut self, name: &[u8]) -> Option<u64> {
        if let Some(at) = self.names.iter().position(|known| known == name) {
            return Some(at as u64);
        }
        const MOST: usize = 4096;
        let more = self.names.len() < MOST;
        more.then(|| {
            self.names.push(name.to_owned());
            self.names.len() as u64 - 1
        })
    }

    /// Writes a sample with its raw data.
    pub(super) fn sample(&mut self, event: u64, stamp: Stamp, raw: &[u8]) -> io::Result<()> {
        self.is_timed |= stamp.ns > 0;
        let record = &mut self.record;
        record.clear();
        record.extend(event.to_le_bytes());
        record.extend(stamp.ids().as_flattened());
        record.extend(stamp.ns.to_le_bytes());
        record.extend(stamp.cpu());
        // The size counts the padding.
        let size = (4 + raw.len()).next_multiple_of(8) - 4;
        record.extend((size as u32).to_le_bytes());
        record.extend(raw);
        record.resize(record.len() + size - raw.len(), 0);
        self.write(SAMPLE, 0)
    }

    /// Writes a record that is not a sample.
    pub(super) fn side(&mut self, side: &Side<'_>, stamp: Stamp) -> io::Result<()> {
        let record = &mut self.record;
        record.clear();
        let mut ints = |numbers: &[i32]| {
            numbers.iter().for_each(|number| record.extend(number.to_le_bytes()));
        };
        let (kind, misc) = match side {
            Side::Comm { pid, tid, name, exec } => {
                ints(&[*pid, *tid]);
                record.extend(*name);
                record.resize((record.len() + 1).next_multiple_of(8), 0);
                self.flags |= FLAG_COMM;
                // perf -a records first that its own threads appear.
                if *exec && stamp.ns > 0 && !self.is_timed {
                    self.flags |= FLAG_ENABLE_ON_EXEC;
                }
                (COMM, if *exec { COMM_EXEC } else { 0 })
            }
            Side::Task { born, own, parent } => {
                ints(&[own.0, parent.0, own.1, parent.1]);
                record.extend(stamp.ns.to_le_bytes());
                self.flags |= FLAG_TASK;
                (if *born { FORK } else { EXIT }, 0)
            }
            Side::Switch { out, preempted, other } => {
                if let Some((pid, tid)) = other {
                    ints(&[*pid, *tid]);
                }
                self.flags |= FLAG_CONTEXT_SWITCH;
                let misc = if *out { SWITCH_OUT } else { 0 };
                let kind = if other.is_some() { SWITCH_CPU_WIDE } else { SWITCH };
                (kind, misc | if *preempted { SWITCH_OUT_PREEMPT } else { 0 })
            }
            Side::Lost(count) => {
                record.extend(0_u64.to_le_bytes());
                record.extend(count.to_le_bytes());
                (LOST, 0)
            }
        };
        record.extend(stamp.ids().as_flattened());
        record.extend(stamp.ns.to_le_bytes());
        record.extend(stamp.cpu());
        record.extend(0_u64.to_le_bytes());
        self.is_timed |= stamp.ns > 0;
        self.write(kind, misc)
    }

    fn write(&mut self, kind: u32, misc: u16) -> io::Result<()> {
        // Lines have at most 64 KiB, but a record's size has 16 bits.
        let Ok(size) = u16::try_from(8 + self.record.len()) else { return Ok(()) };
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&misc.to_le_bytes())?;
        self.out.write_all(&size.to_le_bytes())?;
        self.out.write_all(&self.record)?;
        self.size += u64::from(size);
        Ok(())
    }

    /// Writes the features, the events and the header.
    pub(super) fn finish(mut self, described: &Described, shown: Shown) -> io::Result<()> {
        for name in &described.events {
            self.event(name.as_bytes());
        }
        if self.names.is_empty() {
            self.event(b"dummy");
        }
        let features = self.features(described, shown);
        let table = HEADER + self.size;
        let mut at = table + 16 * features.len() as u64;
        let mut bytes = Vec::new();
        for (_, feature) in &features {
            bytes.extend(at.to_le_bytes());
            bytes.extend((feature.len() as u64).to_le_bytes());
            at += feature.len() as u64;
        }
        features.iter().for_each(|(_, feature)| bytes.extend(feature));
        let ids_at = at;
        (0..self.names.len() as u64).for_each(|id| bytes.extend(id.to_le_bytes()));
        let attrs_at = ids_at + 8 * self.names.len() as u64;
        for (id, name) in self.names.iter().enumerate() {
            bytes.extend(self.attr(id, name, described));
            bytes.extend((ids_at + 8 * id as u64).to_le_bytes());
            bytes.extend(8_u64.to_le_bytes());
        }
        self.out.write_all(&bytes)?;
        let entry = u64::from(ATTR) + 16;
        let mut header = b"PERFILE2".to_vec();
        let bits = features.iter().fold(0_u64, |bits, (number, _)| bits | 1 << number);
        for word in [
            HEADER,
            entry,
            attrs_at,
            entry * self.names.len() as u64,
            HEADER,
            self.size,
            0,
            0,
            bits,
            0,
            0,
            0,
        ] {
            header.extend(word.to_le_bytes());
        }
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header)?;
        self.out.flush()
    }

    /// `perf_event_attr`
    fn attr(&self, id: usize, name: &[u8], described: &Described) -> Vec<u8> {
        let read = events::known(name).map(|number| u64::from(events::FIRST_ID) + number as u64);
        let is_tracepoint =
            read.is_some() || name.split(|byte| *byte == b':').filter(|p| p.len() > 1).count() > 1;
        let (kind, config) = match read {
            Some(config) => (TYPE_TRACEPOINT, config),
            None if is_tracepoint => (TYPE_TRACEPOINT, UNREAD + id as u64),
            None => (TYPE_SOFTWARE, DUMMY),
        };
        let mut flags = self.flags;
        flags |= if described.clockid.is_some() { FLAG_USE_CLOCKID } else { 0 };
        let mut out = Vec::new();
        out.extend(kind.to_le_bytes());
        out.extend(ATTR.to_le_bytes());
        for word in [config, 1, SAMPLE_TYPE, 0, flags] {
            out.extend(word.to_le_bytes());
        }
        out.resize(92, 0);
        out.extend(described.clockid.unwrap_or_default().to_le_bytes());
        out.resize(ATTR as usize, 0);
        out
    }

    /// Number and bytes of each feature, by number.
    fn features(&self, described: &Described, shown: Shown) -> Vec<(u32, Vec<u8>)> {
        let string = |text: &[u8]| {
            let mut out = (text.len() as u32 + 1).to_le_bytes().to_vec();
            out.extend(text);
            out.push(0);
            out
        };
        let mut found = vec![(1, events::tracing_data(shown))];
        let texts = [
            (3, &described.host),
            (4, &described.os_release),
            (5, &described.perf_version),
            (6, &described.arch),
            (8, &described.cpu_model),
        ];
        for (number, text) in texts {
            found.extend(text.as_ref().map(|text| (number, string(text.as_bytes()))));
        }
        if let (Some(all), Some(online)) = (described.cpus_available, described.cpus_online) {
            found.push((7, [all.to_le_bytes(), online.to_le_bytes()].concat()));
        }
        let mut listed = (self.names.len() as u32).to_le_bytes().to_vec();
        listed.extend(ATTR.to_le_bytes());
        for (id, name) in self.names.iter().enumerate() {
            listed.extend(self.attr(id, name, described));
            listed.extend(1_u32.to_le_bytes());
            listed.extend(string(name));
            listed.extend((id as u64).to_le_bytes());
        }
        found.push((12, listed));
        if let (Some((wall, clock)), Some(clockid)) = (described.clock, described.clockid) {
            let mut data = 1_u32.to_le_bytes().to_vec();
            data.extend(clockid.to_le_bytes());
            data.extend(wall.to_le_bytes());
            data.extend(clock.to_le_bytes());
            found.push((29, data));
        }
        found.sort_by_key(|(number, _)| *number);
        found
    }
}

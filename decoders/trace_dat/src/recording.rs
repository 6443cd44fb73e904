//! A whole recording: its description, and where its records are.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use schedlens_input::files::{Mapped, Segment, map};
use schedlens_input::problem::Problems;
use schedlens_tracepoints::events::{Event, Family};
use schedlens_tracepoints::formats::Format;

use crate::clock::{self, Clock};
use crate::error::Error;
use crate::lane::{self, Lane, of_buffer};
use crate::loss::{CPU_STATS, LostRecords, TRUNCATED};
use crate::options::{Guest, Options};
use crate::packing::{Packing, Unpacker};
use crate::page::Layout;
use crate::pages::Pages;
use crate::parts::Parts;
use crate::scan::{self, Described, Judge, Scanned, UNKNOWN};
use crate::slots::Slots;
use crate::{selection, stats, versions};

/// Events of records that the file does not describe are damage if they are at most this share.
const UNKNOWN_SHARE: u64 = 100;
/// The clock of files that do not name one: trace-cmd's default.
const DEFAULT_CLOCK: &str = "local";

/// A recording with everything that is known before its records are read one by one.
pub struct Recording {
    file: Segment,
    /// Version of its format: 6 or 7.
    pub version: u32,
    /// What trace-cmd states about it.
    pub options: Options,
    /// The tracepoints that the file describes.
    pub formats: Vec<Format>,
    /// Their families, in the same order.
    pub events: Vec<Event>,
    /// Names of threads by id, as they were when the recording ended.
    pub names: Vec<(i32, String)>,
    /// Where records are missing, by CPU.
    pub gaps: Vec<LostRecords>,
    /// What could not be read.
    pub problems: Problems,
    /// Number of records by event.
    pub counts: Vec<u64>,
    /// Number of records of all buffers.
    pub records: u64,
    /// Time of the earliest record, ns.
    pub first: Option<u64>,
    /// Time of the latest record, ns.
    pub last: Option<u64>,
    /// The file ends before the data of a CPU does.
    pub cut_off: bool,
    pub(crate) packing: Packing,
    pub(crate) layout: Layout,
    pub(crate) clock: Clock,
    /// Number of the event of each id in records.
    pub(crate) ids: Vec<u16>,
    pub(crate) slots: Slots,
    pub(crate) lanes: Vec<Lane>,
}

impl Recording {
    /// Opens a file, reads the description of the recording and passes over its records once.
    ///
    /// # Errors
    /// Nothing can be read. Damage to a part is a problem, not an error.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::of(map(path)?)
    }

    /// A file in memory.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::of(Arc::new(Mapped::Memory(bytes)))
    }

    fn of(file: Segment) -> Result<Self, Error> {
        let mut problems = Problems::default();
        let bytes = (*file).as_ref();
        let parts = versions::read(bytes, &mut problems)?;
        let layout = Layout::of(&parts.header_page)?;
        let lanes = lane::lanes(bytes, &parts, &mut problems)?;
        if lanes.is_empty() {
            return Err(Error::NoData);
        }
        let clock = clock(&parts.options)?;
        let events: Vec<Event> =
            parts.formats.iter().map(|format| Event::of(format, &mut problems)).collect();
        let ids = numbers_by_id(&parts.formats);
        let slots = Slots::new(&events, &ids);
        let Parts { version, packing, formats, names, options, .. } = parts;
        let mut recording = Self {
            file: Arc::clone(&file),
            version,
            counts: vec![0; formats.len()],
            formats,
            events,
            names,
            gaps: Vec::new(),
            problems,
            records: 0,
            first: None,
            last: None,
            cut_off: options.is_incomplete || lanes.iter().any(|lane| lane.is_cut_off),
            options,
            packing,
            layout,
            clock,
            ids,
            slots,
            lanes,
        };
        recording.scan()?;
        Ok(recording)
    }

    /// The pages of a lane.
    pub(crate) fn pages<'a>(&'a self, lane: &'a Lane) -> Pages<'a> {
        Pages::new((*self.file).as_ref(), lane, self.lanes.len())
    }

    fn scan(&mut self) -> Result<(), Error> {
        let mut unpacker = Unpacker::new(self.packing)?;
        let mut problems = std::mem::take(&mut self.problems);
        let mut counts = std::mem::take(&mut self.counts);
        let mut scans: Vec<Scanned> = Vec::new();
        let places: Vec<String> = self.lanes.iter().map(|lane| self.place(lane)).collect();
        let described = Described {
            layout: self.layout,
            clock: &self.clock,
            ids: &self.ids,
            slots: &self.slots,
        };
        for (lane, place) in self.lanes.iter().zip(&places) {
            let sums = (&mut unpacker, counts.as_mut_slice());
            scans.push(scan::scan(
                self.pages(lane),
                lane.cpu,
                described,
                sums,
                place,
                &mut problems,
            ));
        }
        let unknown: u64 = scans.iter().map(|scan| scan.unknown_records).sum();
        self.records = counts.iter().sum::<u64>() + unknown;
        self.counts = counts;
        if unknown > 0 {
            let what = "records of events that the file does not describe";
            problems.add_many("event formats", what, unknown.cast_signed());
        }
        let clocks = self.usable_buffers(&scans, &mut problems);
        for lane in &mut self.lanes {
            lane.is_usable = clocks.get(lane.buffer).copied().unwrap_or_default();
        }
        self.settle(&mut scans, &places, unknown, &mut problems);
        self.problems = problems;
        Ok(())
    }

    /// Finds damaged pages, gaps, and the window.
    fn settle(
        &mut self,
        scans: &mut [Scanned],
        places: &[String],
        unknown: u64,
        problems: &mut Problems,
    ) {
        let with_lanes = self.lanes.iter().zip(&*scans);
        let usable = with_lanes.filter(|(lane, _)| lane.is_usable).map(|(_, scan)| scan);
        let median = scan::median_time(usable);
        let stats = stats::read(&self.options.stats);
        let mut lanes = std::mem::take(&mut self.lanes);
        let (mut windows, mut gaps) = (Vec::new(), Vec::new());
        for ((lane, scan), place) in lanes.iter_mut().zip(scans.iter_mut()).zip(places) {
            let name = self.options.buffers.get(lane.buffer).map(|buffer| buffer.name.as_str());
            let cpus = stats.get(name.unwrap_or_default());
            let judge = Judge {
                median,
                stats: cpus.and_then(|cpus| cpus.get(&lane.cpu)).copied().unwrap_or_default(),
                unknown_is_damage: unknown.saturating_mul(UNKNOWN_SHARE) <= self.records,
            };
            let mut own = Vec::new();
            let window = scan.settle(lane, judge, (place, problems), &mut own);
            lane.first = window.map_or(0, |window| window.first);
            gaps.push(own);
            windows.push(window);
        }
        let events =
            self.slots.events.iter().filter_map(|event| self.events.get(usize::from(*event)));
        let names: Vec<&str> = events.map(|event| event.name.as_str()).collect();
        let found = (&*scans, windows.as_slice());
        selection::select(&mut lanes, found, &names, &mut self.gaps, problems);
        let read: Vec<bool> = lanes.iter().map(Lane::is_read).collect();
        let with_schedule: HashSet<i32> =
            lanes.iter().zip(&read).filter(|(_, read)| **read).map(|(lane, _)| lane.cpu).collect();
        for (((lane, is_read), own), window) in lanes.iter().zip(read).zip(gaps).zip(windows) {
            // What is lost in a buffer with other events does not concern the schedule; what was in
            // one that cannot be read at all is not known.
            let is_alone = !with_schedule.contains(&lane.cpu);
            let concerns = |gap: &LostRecords| {
                is_read || is_alone || (window.is_none() && gap.signalled_by != CPU_STATS)
            };
            if lane.is_usable {
                self.gaps.extend(own.into_iter().filter(concerns));
            }
            let Some(window) = window.filter(|_| lane.is_usable) else { continue };
            self.first = Some(self.first.map_or(window.first, |first| first.min(window.first)));
            self.last = Some(self.last.map_or(window.last, |last| last.max(window.last)));
        }
        self.lanes = lanes;
        if self.options.is_incomplete {
            // Whatever is in a buffer that is not described.
            let all = self.cpus().into_iter().map(|cpu| LostRecords {
                cpu,
                before: None,
                until: None,
                events: None,
                signalled_by: TRUNCATED,
            });
            self.gaps.extend(all);
        }
        self.gaps.sort_by_key(|gap| (gap.cpu, gap.before));
    }

    /// By buffer: whether its times are those of the buffer with most of the schedule.
    fn usable_buffers(&self, scans: &[Scanned], problems: &mut Problems) -> Vec<bool> {
        let buffers = &self.options.buffers;
        let mut weights = vec![0_u64; buffers.len()];
        for (lane, scan) in self.lanes.iter().zip(scans) {
            weights[lane.buffer] += scan.counts.iter().sum::<u64>();
        }
        let clock_of = |at: usize| buffers.get(at).and_then(|buffer| buffer.clock.as_deref());
        let main = (0..buffers.len()).rev().max_by_key(|at| weights[*at]).unwrap_or_default();
        let is_usable = |at: usize| clock_of(at) == clock_of(main);
        for (at, buffer) in buffers.iter().enumerate() {
            if !is_usable(at) && weights[at] > 0 {
                let what = "has another clock than the rest: left out";
                problems.add_many(
                    format!("buffer {}", buffer.name),
                    what,
                    weights[at].cast_signed(),
                );
            }
        }
        (0..buffers.len()).map(is_usable).collect()
    }

    fn place(&self, lane: &Lane) -> String {
        let buffer = self.options.buffers.get(lane.buffer).map(of_buffer);
        format!("CPU {}{}", lane.cpu, buffer.unwrap_or_default())
    }

    /// Whether records of an event of that family exist.
    pub fn has(&self, wanted: impl Fn(&Family) -> bool) -> bool {
        let all = self.events.iter().zip(&self.counts);
        all.into_iter().any(|(event, count)| *count > 0 && wanted(&event.family))
    }

    /// The CPUs with data, in order.
    pub fn cpus(&self) -> Vec<i32> {
        let mut cpus: Vec<i32> = self.lanes.iter().map(|lane| lane.cpu).collect();
        cpus.dedup();
        cpus
    }

    /// Number of records by name of the event, for events that were recorded.
    pub fn counts_by_name(&self) -> Vec<(String, u64)> {
        let all = self.events.iter().zip(&self.counts).filter(|(_, count)| **count > 0);
        all.map(|(event, count)| (event.name.clone(), *count)).collect()
    }

    /// Number of lost events: at least those that pages or the kernel count; `None` if some were
    /// lost and none was counted.
    pub fn events_lost(&self) -> Option<u64> {
        let in_pages = self.gaps.iter().filter_map(|gap| gap.events);
        let in_pages = in_pages.fold(0_u64, u64::saturating_add);
        let stats = stats::read(&self.options.stats);
        let all = stats.values().flat_map(HashMap::values);
        let counted = all.map(|one| one.overwritten.saturating_add(one.dropped));
        let most = in_pages.max(counted.fold(0_u64, u64::saturating_add));
        (most > 0 || self.gaps.is_empty()).then_some(most)
    }

    /// Name of the clock, as in the recordings of other programs.
    pub fn clock_name(&self) -> &str {
        match clock_of(&self.options) {
            "mono" => "monotonic",
            "mono_raw" => "monotonic_raw",
            "boot" => "boottime",
            other => other,
        }
    }

    /// Wall time at the earliest record in ns since 1970, if the file relates its clock to wall
    /// time.
    pub fn wall_start_ns(&self) -> Option<i64> {
        let wall = i128::from(self.options.date_ns?) + i128::from(self.first?);
        i64::try_from(wall).ok()
    }

    /// Host name.
    pub fn host(&self) -> Option<&str> {
        self.uname(1)
    }

    /// Operating system and kernel release.
    pub fn os(&self) -> Option<String> {
        Some(format!("{} {}", self.uname(0)?, self.uname(2)?))
    }

    /// The machine's architecture.
    pub fn arch(&self) -> Option<&str> {
        self.uname(3)
    }

    fn uname(&self, word: usize) -> Option<&str> {
        self.options.uname.as_deref()?.split_whitespace().nth(word)
    }

    /// Name of the compression; `None` if there is none.
    pub fn compression(&self) -> Option<&'static str> {
        match self.packing {
            Packing::None => None,
            Packing::Zlib => Some("zlib"),
            Packing::Zstd => Some("zstd"),
        }
    }

    /// Guests that were recorded at the same time.
    pub fn guests(&self) -> &[Guest] {
        &self.options.guests
    }
}

/// The number of the format with each id of records, up to the largest id.
fn numbers_by_id(formats: &[Format]) -> Vec<u16> {
    let mut ids = Vec::new();
    for (number, format) in (0..UNKNOWN).zip(formats) {
        let Ok(id) = u16::try_from(format.id) else { continue };
        let id = usize::from(id);
        ids.resize(ids.len().max(id + 1), UNKNOWN);
        ids[id] = number;
    }
    ids
}

fn clock_of(options: &Options) -> &str {
    let of_buffer = options.buffers.iter().find_map(|buffer| buffer.clock.as_deref());
    options.clock().or(of_buffer).unwrap_or(DEFAULT_CLOCK)
}

/// # Errors
/// The times are no nanoseconds, and the file does not state how they become some.
fn clock(options: &Options) -> Result<Clock, Error> {
    let tsc = options.tsc.filter(|tsc| tsc.multiplier > 0);
    let name = clock_of(options);
    if tsc.is_none() && !clock::is_in_ns(name) {
        return Err(Error::Clock { clock: name.escape_default().to_string() });
    }
    Ok(Clock { shift: options.time_shift.clone(), tsc, offset_ns: options.offset_ns })
}

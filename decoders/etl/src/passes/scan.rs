//! The first pass over a recording: counts, times, damage, loss, and the chosen records.

use schedlens_input::problem::{Problem, Problems};

use crate::compression::Unpacker;
use crate::container::buffer::HEADER;
use crate::container::clock::Clock;
use crate::container::header::mode;
use crate::container::log::{Log, LogFile, STRETCH};
use crate::passes::chosen::Chosen;
use crate::passes::counts::{Counts, Event, Key, SelfDescribed};
use crate::passes::coverage;
use crate::passes::lanes::{Lane, lanes};
use crate::passes::loss::{self, Gap, Signs};
use crate::passes::notes;
use crate::passes::outliers;
use crate::passes::walk::Walk;
use crate::records::{Place, Record};

/// A recording whose records have all been read once.
pub struct Scan {
    pub(crate) log: Log,
    pub(crate) lanes: Vec<Lane>,
    counts: Vec<(Key, u64)>,
    described: Vec<SelfDescribed>,
    records: u64,
    window: Option<(i64, i64)>,
    gaps: Vec<Gap>,
    problems: Problems,
}

/// Problems by kind; only the first few have their locations.
#[derive(Default)]
pub(crate) struct Troubles {
    /// Kind, number of listed locations, and number of other occurrences.
    counts: Vec<(&'static str, i64, i64)>,
    problems: Problems,
}

/// Maximum listed locations of each kind of problem.
const PLACES: i64 = 16;

impl Troubles {
    pub(crate) fn add(&mut self, what: &'static str, place: impl FnOnce() -> String) {
        self.add_many(what, 1, place);
    }

    /// Several at one location.
    fn add_many(&mut self, what: &'static str, times: i64, place: impl FnOnce() -> String) {
        let known = self.counts.iter().position(|(known, ..)| *known == what);
        let at = known.unwrap_or_else(|| {
            self.counts.push((what, 0, 0));
            self.counts.len() - 1
        });
        let (_, places, elsewhere) = &mut self.counts[at];
        if *places < PLACES {
            *places += 1;
            self.problems.add_many(place(), what, times);
        } else {
            *elsewhere += times;
        }
    }

    fn finish(mut self) -> Problems {
        for (what, _, elsewhere) in self.counts.into_iter().filter(|(.., count)| *count > 0) {
            self.problems.add_many("elsewhere", what, elsewhere);
        }
        self.problems
    }
}

const CUT_OFF: &str = "a buffer that the end of the file cuts off";
const NOT_WHOLE: &str = "a packed buffer that does not unpack to its size";
const NO_BUFFER: &str = "bytes that are no buffer";
const UNSORTED: &str = "a buffer whose records are not in time order";
const TOO_MUCH: &str = "a packed buffer that unpacks far too large: skipped";
/// Bytes packed buffers may unpack to, in addition to [`UNPACKED_RATIO`] times the file's size.
const UNPACKED: u64 = 64 << 20;
/// Real logs compress to about a tenth; a higher ratio is an attempt to exhaust readers.
const UNPACKED_RATIO: u64 = 200;
const NO_START: &str = "the time of the header's record does not fit the others: times are \
                        counted from the earliest record, and the wall time is unknown";
const TOO_MANY: &str = "a packed buffer that overlaps too many others in time: skipped";

impl Log {
    /// Reads all records once in file order and passes on the chosen ones.
    ///
    /// `keep_going` receives the number of bytes read; if it returns `false`, reading ends early.
    pub fn scan(
        self,
        chosen: &Chosen,
        visit: impl FnMut(&Record<'_>),
        keep_going: impl FnMut(u64) -> bool,
    ) -> Scan {
        scan(self, chosen, visit, keep_going)
    }
}

fn scan(
    mut log: Log,
    chosen: &Chosen,
    mut visit: impl FnMut(&Record<'_>),
    mut keep_going: impl FnMut(u64) -> bool,
) -> Scan {
    let clock = log.clock();
    let mut reading = Reading {
        clock,
        chosen,
        watched: chosen.and(&[loss::LAST_DROPPED]),
        counts: Counts::default(),
        troubles: Troubles::default(),
        signs: Signs::default(),
        records: 0,
        unpacker: Unpacker::default(),
        room: Vec::new(),
    };
    let mut done = 0;
    let mut files = std::mem::take(&mut log.files);
    for number in 0..files.len() {
        let many = files.len() > 1;
        let file = &mut files[number];
        reading.file(number as u16, many, file, &mut visit, &mut |bytes| keep_going(done + bytes));
        done += file.source.bytes().len() as u64;
    }
    log.files = files;
    let first = log.files.iter().flat_map(|file| &file.buffers);
    let first = first.filter_map(|buffer| buffer.window).map(|(first, _)| first).min();
    let start_left_out = log.files.iter().any(|file| {
        let header = file.left_out.get(&0).is_some_and(|places| places.contains(&0));
        header && file.header.start_clock == clock.start
    });
    if let Some(first) = first.filter(|_| start_left_out) {
        log.count_from(first);
        reading.troubles.add(NO_START, || "header".to_owned());
    }
    let (lanes, left_out) = lanes(&log.files);
    for (file, buffer) in left_out {
        let offset = log.files[file].buffers[buffer].offset;
        reading.troubles.add(TOO_MANY, || log.place_text(file, buffer as u32, offset, 0));
        reading.signs.damaged(file as u16, buffer as u32, None, None);
    }
    let buffers = || log.files.iter().flat_map(|file| &file.buffers);
    let first = buffers().filter_map(|buffer| buffer.window).map(|(first, _)| first).min();
    let last = buffers().filter_map(|buffer| buffer.window).map(|(_, last)| last).max();
    let window = first.zip(last);
    let described = std::mem::take(&mut reading.counts.described);
    let counts = reading.counts.into_sorted();
    let mut cpus: Vec<u16> = lanes.iter().filter_map(|lane| lane.cpu).collect();
    cpus.dedup();
    let has_switches = counts.iter().any(|(key, _)| key.event == Event::Hook(coverage::CSWITCH));
    let uncovered = match window.filter(|_| has_switches) {
        Some(window) => coverage::gaps(&log.files, &clock, &cpus, window),
        None => Vec::new(),
    };
    let (gaps, left_out) = loss::gaps(&log.files, &reading.signs, uncovered, window);
    let mut problems = reading.troubles.finish();
    notes::add(&log, &mut problems);
    if left_out > 0 {
        problems.add_many("loss", "further gaps, not listed", left_out as i64);
    }
    Scan { lanes, described, counts, records: reading.records, window, gaps, problems, log }
}

struct Reading<'c> {
    clock: Clock,
    chosen: &'c Chosen,
    /// The chosen records and those that report loss.
    watched: Chosen,
    counts: Counts,
    troubles: Troubles,
    signs: Signs,
    records: u64,
    unpacker: Unpacker,
    room: Vec<u8>,
}

impl Reading<'_> {
    fn file(
        &mut self,
        number: u16,
        many: bool,
        file: &mut LogFile,
        visit: &mut impl FnMut(&Record<'_>),
        keep_going: &mut dyn FnMut(u64) -> bool,
    ) {
        let prefix = if many { format!("{}, ", file.name) } else { String::new() };
        for (offset, bytes, buffer) in &file.damage {
            self.troubles.add(NO_BUFFER, || {
                format!(
                    "{prefix}bytes {offset:#x} to {:#x}, before buffer {buffer}",
                    offset + bytes
                )
            });
        }
        let mut fetched = 0;
        let mut budget = UNPACKED + UNPACKED_RATIO * file.source.bytes().len() as u64;
        let mut buffers = std::mem::take(&mut file.buffers);
        let mut unsorted = Vec::new();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let range = file.range(buffer);
            if range.end > fetched {
                let end = (range.start + STRETCH).max(range.end).min(file.source.bytes().len());
                file.source.fetch(range.start..end);
                file.source.let_go(range.start.saturating_sub(2 * STRETCH)..range.start);
                fetched = end;
                if !keep_going(range.start as u64) {
                    break;
                }
            }
            if buffer.packed {
                let Some(left) = budget.checked_sub(u64::from(buffer.filled)) else {
                    let at = buffer.offset;
                    self.troubles.add(TOO_MUCH, || format!("{prefix}buffer {index} at {at:#x}"));
                    self.signs.damaged(number, index as u32, None, None);
                    continue;
                };
                budget = left;
            }
            let mut room = std::mem::take(&mut self.room);
            let (records, whole) = file.records(buffer, &mut self.unpacker, &mut room);
            let place = |at: usize| {
                let at = at + HEADER;
                format!("{prefix}buffer {index} at {:#x}, offset {at:#x}", buffer.offset)
            };
            if !whole {
                let what = if buffer.packed { NOT_WHOLE } else { CUT_OFF };
                self.troubles.add(what, || place(records.len()));
            }
            let facts = self.buffer((number, index as u32, buffer.cpu), records, place, visit);
            // If processors share buffers, nothing keeps their records in order.
            if facts.unsorted && !file.header.has(mode::MIXED) {
                unsorted.push(index as u32);
            }
            buffer.records = facts.records;
            buffer.window = facts.window();
            buffer.sorted = !facts.unsorted;
            if !whole {
                let last = facts.window().map(|(_, last)| last);
                self.signs.damaged(number, index as u32, last, None);
            }
            self.room = room;
        }
        file.buffers = buffers;
        for found in outliers::leave_out(file, &self.clock, &mut unsorted) {
            let offset = file.buffers[found.buffer as usize].offset;
            let place = || {
                format!("{prefix}buffer {} at {offset:#x}, offset {:#x}", found.buffer, found.at)
            };
            self.troubles.add_many(found.what, found.records, place);
            self.signs.damaged(number, found.buffer, found.before, found.after);
        }
        for index in unsorted {
            let offset = file.buffers[index as usize].offset;
            let place = || format!("{prefix}buffer {index} at {offset:#x}, offset {HEADER:#x}");
            self.troubles.add(UNSORTED, place);
        }
        let length = file.source.bytes().len();
        file.source.let_go(length.saturating_sub(2 * STRETCH)..length);
    }

    #[inline(always)]
    fn buffer(
        &mut self,
        (file, index, cpu): (u16, u32, Option<u16>),
        records: &[u8],
        place: impl Fn(usize) -> String,
        visit: &mut impl FnMut(&Record<'_>),
    ) -> BufferFacts {
        let mut facts = BufferFacts::default();
        let mut walk = Walk::new(&self.clock);
        // Time before the current damaged bytes, if any.
        let mut damaged = None;
        loop {
            let (at, head) = if let Some((at, plain)) = walk.plain(records, &self.clock) {
                if damaged.is_none() && !self.watched.has_hook(plain.hook()) {
                    facts.add(plain.ts);
                    self.counts.begin_tally(plain);
                    let (mut before, mut passed) = (plain.ts, 0);
                    walk.tally(records, &self.clock, &mut self.counts, |ts| {
                        if ts < before {
                            facts.steps_back(before, ts);
                        }
                        before = ts;
                        passed += 1;
                    });
                    facts.records += passed;
                    facts.before = before;
                    continue;
                }
                (at, plain.head())
            } else {
                let troubles = &mut self.troubles;
                let next = walk.next(records, &self.clock, |from, what| {
                    troubles.add(what, || place(from));
                    damaged.get_or_insert(facts.before());
                });
                let Some(next) = next else { break };
                next
            };
            if let Some(from) = damaged.take() {
                self.signs.damaged(file, index, from, Some(head.ts));
            }
            facts.add(head.ts);
            let lost = if let Some(hook) = head.hook() {
                self.counts.add_hook(hook, &head);
                if !self.watched.has_hook(hook) {
                    continue;
                }
                hook == loss::LAST_DROPPED
            } else {
                self.counts.add_other(&head, records, at);
                loss::is_sign(&head, records, at)
            };
            let asked = self.chosen.has(&head, records, at);
            if lost || asked {
                let place = Place { file, buffer: index, at: (at + HEADER) as u32 };
                let record = head.record(records, at, (cpu, place));
                if lost {
                    self.signs.record(&record);
                }
                if asked {
                    visit(&record);
                }
            }
        }
        if let Some(from) = damaged {
            self.signs.damaged(file, index, from, None);
        }
        self.records += u64::from(facts.records);
        facts
    }
}

/// What a buffer was found to contain.
#[derive(Default)]
struct BufferFacts {
    records: u32,
    first: i64,
    /// Time of the last record, or a later one from before a step back.
    last: i64,
    before: i64,
    unsorted: bool,
}

impl BufferFacts {
    /// Another record, by its time.
    #[inline(always)]
    fn add(&mut self, ts: i64) {
        if self.records == 0 {
            (self.first, self.last) = (ts, ts);
        } else if ts < self.before {
            self.steps_back(self.before, ts);
        }
        self.before = ts;
        self.records += 1;
    }

    /// A record is earlier than the one before it.
    #[cold]
    fn steps_back(&mut self, before: i64, ts: i64) {
        self.unsorted = true;
        self.first = self.first.min(ts);
        self.last = self.last.max(before);
    }

    /// Time of the previous record.
    fn before(&self) -> Option<i64> {
        (self.records > 0).then_some(self.before)
    }

    /// Times of the earliest and the latest record.
    fn window(&self) -> Option<(i64, i64)> {
        (self.records > 0).then_some((self.first, self.last.max(self.before)))
    }
}

impl Scan {
    /// The recording.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Number of records of all kinds.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Size of all buffers once unpacked.
    pub fn content_bytes(&self) -> u64 {
        let buffers = self.log.files.iter().flat_map(|file| &file.buffers);
        buffers.map(|buffer| u64::from(buffer.filled)).sum()
    }

    /// Number of records by kind of event, sorted by key.
    pub fn counts(&self) -> &[(Key, u64)] {
        &self.counts
    }

    /// The provider name, if present, and the name of the TraceLogging event with that number.
    pub(crate) fn self_described(&self, number: u32) -> Option<(Option<&str>, &str)> {
        let (provider, event) = self.described.get(number as usize)?;
        Some((provider.as_deref(), event))
    }

    /// Raw times of the earliest and the latest record.
    pub fn window(&self) -> Option<(i64, i64)> {
        self.window
    }

    /// Periods in which records are known to be missing.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// What could not be read: location, description, count.
    pub fn problems(&self) -> impl Iterator<Item = (&str, &str, i64)> {
        let rows = self.problems.rows().iter();
        rows.map(|Problem { place, what, count }| (place.as_str(), what.as_str(), *count))
    }

    /// Processors that wrote records.
    pub fn cpus(&self) -> Vec<u16> {
        let mut cpus: Vec<u16> = self.lanes.iter().filter_map(|lane| lane.cpu).collect();
        cpus.dedup();
        cpus
    }
}

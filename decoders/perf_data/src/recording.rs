//! A whole perf.data recording: finds its parts and indexes its records.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use schedlens_input::bytes::{CPU_LIMIT, text, u32_at, u64_at};
use schedlens_input::files::{Mapped, Pages, Segment, Spill};
use schedlens_input::problem::Problems;
use schedlens_tracepoints::events::{Event, Family};

use crate::attrs::Attr;
use crate::compressed::{self, Unpacker};
use crate::error::Error;
use crate::features::{self, Features};
use crate::filter;
use crate::header::{Header, Section, feature_numbers};
use crate::hotplug::{self, Hotplug};
use crate::ids::Events;
use crate::index::Index;
use crate::input::Input;
use crate::named;
use crate::opened::Opened;
use crate::record::{self, Record};

/// `perf_event_update`: the name of an event, in pipe mode.
const EVENT_UPDATE_NAME: u64 = 2;

/// The form of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file with offsets in its header.
    File,
    /// Output of perf through a pipe: records only.
    Pipe,
    /// A folder, one stream of records per recorder thread.
    Directory,
}

/// A recording with everything that is known before its records are read one by one.
pub struct Recording {
    /// The bytes that contain records.
    pub segments: Vec<Segment>,
    /// The events as they were opened.
    pub events: Events,
    /// Their names and families.
    pub named: Vec<Event>,
    /// What the file states about the machine.
    pub features: Features,
    /// The positions of the records, and counts.
    pub index: Index,
    /// What could not be read.
    pub problems: Problems,
    /// Form of the file.
    pub form: Form,
    /// Some of its records were compressed.
    pub compressed: bool,
    /// The file ends before the recording did.
    pub cut_off: bool,
    /// Periods in which CPUs were offline.
    pub offline: Vec<hotplug::Span>,
    /// Only records of chosen threads: perf ran with a command or `-p`, and without `-a`. `None`:
    /// the file does not say.
    pub of_chosen_threads: Option<bool>,
}

/// The position of a segment's records.
struct Stream {
    name: String,
    segment: Segment,
    start: usize,
    end: usize,
}

impl Recording {
    /// Opens a file or folder, reads the description of the recording and indexes its records.
    ///
    /// # Errors
    /// Nothing can be read. Damage to a part is a problem, not an error.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let form = if path.is_dir() { Form::Directory } else { Form::File };
        Self::of(Input::open(path)?, form)
    }

    /// A file in memory.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::of(Input { main: Arc::new(Mapped::Memory(bytes)), streams: Vec::new() }, Form::File)
    }

    fn of(input: Input, form: Form) -> Result<Self, Error> {
        let main = (*input.main).as_ref();
        let mut problems = Problems::default();
        let mut features = Features::default();
        let mut cut_off = false;
        let (attrs, start, end, form) = match Header::read(main)? {
            Header::Pipe { start } => {
                let attrs = pipe_descriptions(main, start as usize, &mut features, &mut problems);
                (attrs, start as usize, main.len(), Form::Pipe)
            }
            Header::File { attr_size, attrs, data, features: bits } => {
                let attrs = file_attrs(main, attr_size, attrs)?;
                cut_off = file_features(main, data, bits, &mut features, &mut problems);
                let length = main.len() as u64;
                let start = data.offset.min(length);
                let end = match data.size {
                    0 => length,
                    size => data.offset.saturating_add(size).min(length),
                };
                (attrs, start as usize, end as usize, form)
            }
        };
        let events = Events::new(named_attrs(attrs, &features))?;
        let named: Vec<Event> =
            events.attrs.iter().map(|attr| named::event(attr, &features, &mut problems)).collect();
        let mut streams = vec![Stream { name: "data".into(), segment: input.main, start, end }];
        for (name, segment) in input.streams {
            let end = (*segment).as_ref().len();
            streams.push(Stream { name, segment, start: 0, end });
        }
        let mut recording = Self {
            segments: Vec::new(),
            events,
            named,
            features,
            index: Index::default(),
            problems,
            form,
            compressed: false,
            cut_off,
            offline: Vec::new(),
            of_chosen_threads: None,
        };
        let available = recording.features.cpus_available.and_then(|cpus| i32::try_from(cpus).ok());
        recording.index.cpu_limit = available.filter(|cpus| (1..CPU_LIMIT).contains(cpus));
        recording.index.expect_backward(&recording.events);
        let mut opened = Opened::new(&recording.events, &recording.named);
        recording.add_streams(streams, &mut opened)?;
        let Self { index, segments, events, problems, .. } = &mut recording;
        let data = |segment: u32| {
            let segment = segments.get(segment as usize);
            segment.map(|segment| (**segment).as_ref()).unwrap_or_default()
        };
        index.leave_out(events, data, problems);
        index.start_at_first_event(events, data);
        let Self { segments, events, named, index, .. } = &recording;
        let hotplug = Hotplug::of(hotplug::Records { segments, events, named, index });
        let Self { events, features, index, of_chosen_threads, .. } = &recording;
        let of_chosen_threads = of_chosen_threads.unwrap_or_default();
        let closed = opened.not_recorded(events, features, index, of_chosen_threads);
        recording.index.gaps.extend(closed);
        recording.index.gaps.extend(hotplug.gaps);
        recording.offline = hotplug.offline;
        recording.index.finish(recording.cut_off);
        recording.explain_unnamed();
        let command = recording.features.command.as_deref().unwrap_or_default();
        if let Some(filter) = filter::of_switches(command) {
            let what = format!("recorded with a filter: {filter}");
            recording.problems.add("sched:sched_switch", what);
        }
        Ok(recording)
    }

    fn add_streams(&mut self, streams: Vec<Stream>, opened: &mut Opened) -> Result<(), Error> {
        for stream in streams {
            let mut unpacking = Unpacking::default();
            let data = (*stream.segment).as_ref().get(..stream.end).unwrap_or_default();
            let number = self.segments.len() as u32;
            // Offsets in problems are those of the file, so the records before `start` are blank.
            let skipped = stream.start.min(data.len());
            self.index.add(
                &self.events,
                (number, &stream.name, data),
                (skipped, Pages::new(&stream.segment)),
                &mut self.problems,
                |record, problems| {
                    self.of_chosen_threads =
                        self.of_chosen_threads.max(record::names_threads(record));
                    opened.take(record, &self.events);
                    unpacking.take(record, &stream.name, problems);
                },
            );
            self.segments.push(stream.segment);
            let Some(unpacked) = unpacking.finish()? else { continue };
            self.compressed = true;
            let name = format!("{}, unpacked", stream.name);
            let number = self.segments.len() as u32;
            let data = (*unpacked).as_ref();
            self.index.add(
                &self.events,
                (number, &name, data),
                (0, Pages::new(&unpacked)),
                &mut self.problems,
                |_, _| {},
            );
            self.segments.push(unpacked);
        }
        Ok(())
    }

    /// Tracepoints without a format cannot be distinguished.
    fn explain_unnamed(&mut self) {
        for (attr, count) in self.events.attrs.iter().zip(&self.index.samples) {
            let unnamed = attr.kind == crate::attrs::TYPE_TRACEPOINT
                && self.features.format(attr.config).is_none();
            if unnamed && *count > 0 {
                self.problems.add_many(
                    "HEADER_TRACING_DATA",
                    "the formats of the tracepoints are missing, so samples of tracepoints are \
                     counted and not read",
                    *count as i64,
                );
            }
        }
    }

    /// Number of records, including those of the recorder.
    pub fn records(&self) -> u64 {
        self.index.records
    }

    /// Whether an event of that family is described.
    pub fn has(&self, wanted: impl Fn(&Family) -> bool) -> bool {
        self.named.iter().any(|event| wanted(&event.family))
    }
}

/// Unpacks the compressed records of a stream into an unnamed temporary file.
#[derive(Default)]
struct Unpacking {
    state: Option<(Unpacker, Spill)>,
    failed: Option<Error>,
    broken: bool,
}

impl Unpacking {
    fn take(&mut self, record: &Record<'_>, name: &str, problems: &mut Problems) {
        let Some(packed) = compressed::packed(record) else { return };
        if self.failed.is_some() {
            return;
        }
        if self.broken {
            problems.add(name, "a compressed record after one that could not be unpacked");
            return;
        }
        if self.state.is_none() {
            match Unpacker::new().and_then(|unpacker| Ok((unpacker, Spill::new()?))) {
                Ok(state) => self.state = Some(state),
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            }
        }
        let Some((unpacker, spill)) = self.state.as_mut() else { return };
        match unpacker.unpack(packed, spill) {
            Ok(()) => {}
            Err(Error::Compression { what }) => {
                self.broken = true;
                let place = format!("{name}, unpacked byte {}", spill.length());
                problems.add(place, format!("compressed records cannot be read: {what}"));
            }
            Err(error) => self.failed = Some(error),
        }
    }

    fn finish(self) -> Result<Option<Segment>, Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let Some((_, mut spill)) = self.state else { return Ok(None) };
        spill.flush()?;
        Ok(Some(spill.into_segment()?))
    }
}

/// `perf_file_attr`: the attribute and the section of its ids.
fn file_attrs(file: &[u8], attr_size: u64, attrs: Section) -> Result<Vec<Attr>, Error> {
    const SECTION: u64 = 16;
    if attr_size <= SECTION {
        return Err(Error::Size { what: "perf_file_attr", found: attr_size, least: 80 });
    }
    let found = attrs.cut_from(file);
    if found.is_empty() {
        return Err(Error::NoEvents);
    }
    let Ok(step) = usize::try_from(attr_size) else { return Err(Error::NoEvents) };
    if found.len() < step {
        let left = found.len() as u64;
        return Err(Error::TooShort { what: "perf_file_attr", needed: attr_size, left });
    }
    // The lists of ids do not overlap, so together they are no longer than the file.
    let mut left = file.len() as u64;
    found
        .chunks_exact(step)
        .map(|entry| {
            let (body, section) = entry.split_at(step - SECTION as usize);
            let mut attr = Attr::read(body)?;
            let section = Section {
                offset: u64_at(section, 0).unwrap_or_default(),
                size: u64_at(section, 8).unwrap_or_default(),
            };
            if section.size > left {
                let needed = section.size;
                return Err(Error::TooShort { what: "ids of perf_file_attr", needed, left });
            }
            left -= section.size;
            attr.ids = features::ids(section.cut_from(file));
            Ok(attr)
        })
        .collect()
}

/// Reads the features after the data; returns whether the file ends before them.
fn file_features(
    file: &[u8],
    data: Section,
    bits: [u64; 4],
    features: &mut Features,
    problems: &mut Problems,
) -> bool {
    if data.size == 0 {
        problems.add("perf_file_header", "the recorder was killed before it finished the file");
        return true;
    }
    let table = data.offset.saturating_add(data.size);
    if table > file.len() as u64 {
        let missing = table - file.len() as u64;
        problems.add(
            format!("byte {}", file.len()),
            format!("the file is cut off: {missing} bytes of records and all features are missing"),
        );
        return true;
    }
    let mut cut_off = false;
    for (rank, number) in feature_numbers(bits).enumerate() {
        let entry = Section { offset: table + rank as u64 * 16, size: 16 };
        let Some(entry) = entry.whole_from(file) else {
            problems.add(features::name(number), "the file is cut off before this feature");
            cut_off = true;
            continue;
        };
        let section = Section {
            offset: u64_at(entry, 0).unwrap_or_default(),
            size: u64_at(entry, 8).unwrap_or_default(),
        };
        let Some(bytes) = section.whole_from(file) else {
            problems.add(features::name(number), "the file is cut off before this feature ends");
            cut_off = true;
            continue;
        };
        if let Err(error) = features.add(number, bytes) {
            problems.add(features::name(number), error.to_string());
        }
    }
    cut_off
}

/// Pipe mode: the same descriptions as records among the others.
fn pipe_descriptions(
    file: &[u8],
    start: usize,
    features: &mut Features,
    problems: &mut Problems,
) -> Vec<Attr> {
    let mut attrs: Vec<Attr> = Vec::new();
    // The event of each id, the first one that has it.
    let mut by_id: HashMap<u64, usize> = HashMap::new();
    let mut position = start;
    while let Some(found) = record::at(file, position) {
        let place = position;
        position += found.length;
        match found.kind {
            record::HEADER_ATTR => {
                let size = u32_at(found.bytes, 12).unwrap_or_default() as usize;
                let body = found.bytes.get(8..8_usize.saturating_add(size));
                match body.map(Attr::read) {
                    Some(Ok(mut attr)) => {
                        attr.ids = features::ids(found.bytes.get(8 + size..).unwrap_or_default());
                        for id in &attr.ids {
                            by_id.entry(*id).or_insert(attrs.len());
                        }
                        attrs.push(attr);
                    }
                    _ => problems.add(format!("byte {place}"), "an event that cannot be read"),
                }
            }
            record::HEADER_FEATURE => {
                let number = u64_at(found.bytes, 8).unwrap_or(u64::MAX);
                let body = found.bytes.get(16..).unwrap_or_default();
                if let Ok(number) = u32::try_from(number)
                    && !body.is_empty()
                    && let Err(error) = features.add(number, body)
                {
                    problems.add(features::name(number), error.to_string());
                }
            }
            record::HEADER_TRACING_DATA => {
                let size = u32_at(found.bytes, 8).unwrap_or_default() as usize;
                let from = place + found.bytes.len();
                let body = file.get(from..from.saturating_add(size)).unwrap_or_default();
                if let Err(error) = features.add(1, body) {
                    problems.add(features::name(1), error.to_string());
                }
            }
            record::EVENT_UPDATE if u64_at(found.bytes, 8) == Some(EVENT_UPDATE_NAME) => {
                let id = u64_at(found.bytes, 16);
                let name = text(found.bytes.get(24..).unwrap_or_default());
                let at = id.and_then(|id| by_id.get(&id));
                if let Some(attr) = at.and_then(|at| attrs.get_mut(*at)) {
                    attr.name = Some(name);
                }
            }
            _ => {}
        }
    }
    attrs
}

/// Sets the event names from `HEADER_EVENT_DESC`.
fn named_attrs(mut attrs: Vec<Attr>, features: &Features) -> Vec<Attr> {
    if attrs.is_empty() {
        let described = features.described.iter();
        attrs = described
            .map(|d| Attr { ids: d.ids.clone(), name: Some(d.name.clone()), ..d.attr.clone() })
            .collect();
    }
    for (rank, attr) in attrs.iter_mut().enumerate() {
        let by_id = features
            .described
            .iter()
            .find(|described| described.ids.first().is_some_and(|first| attr.ids.contains(first)));
        let described = by_id.or_else(|| features.described.get(rank));
        let alike = described.filter(|d| d.attr.kind == attr.kind && d.attr.config == attr.config);
        if let Some(described) = alike {
            attr.name = Some(described.name.clone());
        }
    }
    attrs
}

#[cfg(test)]
mod tests {
    use super::*;

    // 40 events whose ids each cover the whole file
    #[test]
    fn ids_that_overlap_are_refused_before_they_fill_the_memory() {
        let mut entry = vec![0_u8; 64];
        entry.extend(0_u64.to_le_bytes());
        entry.extend(3200_u64.to_le_bytes());
        let file = entry.repeat(40);
        let attrs = Section { offset: 0, size: file.len() as u64 };
        match file_attrs(&file, 80, attrs) {
            Err(Error::TooShort { needed: 3200, left: 0, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

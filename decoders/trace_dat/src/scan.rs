//! One pass over all pages: their times, their losses, and the number of records of each event.

use schedlens_input::bytes::u16_at;
use schedlens_input::problem::Problems;

use crate::clock::Clock;
use crate::lane::Lane;
use crate::loss::{CPU_STATS, DAMAGED, LostRecords, MISSED_EVENTS, TRUNCATED};
use crate::order::{self, FAR_NS, Span};
use crate::packing::Unpacker;
use crate::page::{Layout, Missed, Step};
use crate::pages::Pages;
use crate::slots::{NO_SLOT, Slots};
use crate::stats::Stats;
use crate::window::Window;

/// The number of records whose event the file does not describe.
pub(crate) const UNKNOWN: u16 = u16::MAX;
/// Pages from which the approximate time is found.
const CLOCK_PAGES: usize = 1001;

/// Records missing in front of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    page: u32,
    events: Option<u64>,
    signalled_by: &'static str,
}

/// What a pass over a lane finds.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    /// Earliest and latest time of each page.
    spans: Vec<Option<Span>>,
    holes: Vec<Hole>,
    /// Number of records by slot of the event; empty without pages.
    pub(crate) counts: Vec<u64>,
    /// Pages with a record of an unknown event, and the number of these records.
    unknown: Vec<u32>,
    pub(crate) unknown_records: u64,
}

/// What a pass needs to know of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described<'a> {
    pub(crate) layout: Layout,
    pub(crate) clock: &'a Clock,
    /// The number of the event for each id in records.
    pub(crate) ids: &'a [u16],
    pub(crate) slots: &'a Slots,
}

/// Passes over the pages of a lane, and adds its records to the number of each event.
pub(crate) fn scan(
    mut pages: Pages<'_>,
    cpu: i32,
    Described { layout, clock, ids, slots }: Described<'_>,
    (unpacker, totals): (&mut Unpacker, &mut [u64]),
    place: &str,
    problems: &mut Problems,
) -> Scanned {
    let mut found = Scanned::default();
    let mut hole =
        |page, events, signalled_by| found.holes.push(Hole { page, events, signalled_by });
    while pages.advance(unpacker) {
        let number = pages.number();
        found.counts.resize(slots.events.len(), 0);
        if let Some(why) = pages.take_broken() {
            problems.add(place, format!("pages cannot be unpacked: {why}"));
            hole(number, None, DAMAGED);
        }
        found.spans.resize(number as usize, None);
        let page = pages.page();
        let Some(header) = layout.header(page) else {
            problems.add(place, "a page whose header does not fit it: left out");
            hole(number + 1, None, DAMAGED);
            found.spans.push(None);
            continue;
        };
        match header.missed {
            Missed::None => {}
            Missed::Some => hole(number, None, MISSED_EVENTS),
            Missed::Count(events) => hole(number, Some(events), MISSED_EVENTS),
        }
        let mut position = header.position;
        let mut span: Option<Span> = None;
        loop {
            match position.step(page) {
                Step::Record(from, _) => {
                    let ts = clock.ns(position.ts, cpu);
                    // Damage may set a time back, and so may a correction of a guest's clock.
                    span =
                        Some(span.map_or((ts, ts), |(first, last)| (first.min(ts), last.max(ts))));
                    let id = usize::from(u16_at(page, from).unwrap_or_default());
                    let event = ids.get(id).map(|event| usize::from(*event));
                    let Some(total) = event.and_then(|event| totals.get_mut(event)) else {
                        found.unknown_records += 1;
                        if found.unknown.last() != Some(&number) {
                            found.unknown.push(number);
                        }
                        continue;
                    };
                    *total += 1;
                    let slot = slots.by_id.get(id).copied().unwrap_or(NO_SLOT);
                    if let Some(count) = found.counts.get_mut(usize::from(slot)) {
                        *count += 1;
                    }
                }
                Step::End => break,
                Step::Damaged => {
                    problems.add(place, "bytes in a page that are no record");
                    hole(number + 1, None, DAMAGED);
                    break;
                }
            }
        }
        found.spans.push(span);
    }
    if let Some(why) = pages.take_broken() {
        problems.add(place, format!("pages cannot be unpacked: {why}"));
        hole(u32::MAX, None, DAMAGED);
    }
    found
}

/// The median of the pages' times; `None` without pages.
pub(crate) fn median_time<'a>(scans: impl Iterator<Item = &'a Scanned> + Clone) -> Option<u64> {
    let all = scans.flat_map(|scan| scan.spans.iter().flatten());
    let step = all.clone().count().div_ceil(CLOCK_PAGES).max(1);
    let mut times: Vec<u64> = all.step_by(step).map(|(first, _)| *first).collect();
    let middle = times.len() / 2;
    (!times.is_empty()).then(|| *times.select_nth_unstable(middle).1)
}

/// What the whole file says about a lane's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    /// The approximate time of the recording.
    pub(crate) median: Option<u64>,
    /// Lost events that the kernel counted.
    pub(crate) stats: Stats,
    /// Records of unknown events are damage, since there are few of them.
    pub(crate) unknown_is_damage: bool,
}

impl Scanned {
    /// Finds the pages to leave out and the gaps, and returns the window of the other pages.
    pub(crate) fn settle(
        &mut self,
        lane: &mut Lane,
        judge: Judge,
        (place, problems): (&str, &mut Problems),
        gaps: &mut Vec<LostRecords>,
    ) -> Option<Window> {
        let near = |time: u64| judge.median.is_none_or(|median| time.abs_diff(median) < FAR_NS);
        lane.left_out = order::misfits(&self.spans, |(first, last)| near(first) && near(last));
        for number in &lane.left_out {
            problems.add(place, "a page whose time does not fit those around it: left out");
            self.holes.push(Hole { page: *number, events: None, signalled_by: DAMAGED });
            if let Some(span) = self.spans.get_mut(*number as usize) {
                *span = None;
            }
        }
        if judge.unknown_is_damage {
            let damage = |page: &u32| {
                [*page, page + 1].map(|page| Hole { page, events: None, signalled_by: DAMAGED })
            };
            self.holes.extend(self.unknown.iter().flat_map(damage));
        }
        if lane.is_cut_off {
            self.holes.push(Hole { page: u32::MAX, events: None, signalled_by: TRUNCATED });
        }
        self.unmarked(judge.stats);
        self.holes.sort_by_key(|hole| hole.page);
        self.gaps(lane, gaps)
    }

    /// Lost events that no page marks: they were lost between any two pages, because the kernel
    /// loses events where it needs another page.
    fn unmarked(&mut self, stats: Stats) {
        let marked = self.holes.iter().filter(|hole| hole.signalled_by == MISSED_EVENTS);
        let counted =
            marked.clone().try_fold(0_u64, |sum, hole| Some(sum.saturating_add(hole.events?)));
        let overwritten = counted.map_or(0, |counted| stats.overwritten.saturating_sub(counted));
        if overwritten.saturating_add(stats.dropped) > 0 {
            let all = (0..self.spans.len() as u32).chain([u32::MAX]);
            self.holes.extend(all.map(|page| Hole { page, events: None, signalled_by: CPU_STATS }));
        }
    }

    fn gaps(&self, lane: &mut Lane, gaps: &mut Vec<LostRecords>) -> Option<Window> {
        let cpu = lane.cpu;
        let mut window: Option<Window> = None;
        let mut holes = self.holes.iter().peekable();
        let mut open: Option<LostRecords> = None;
        let pages = (0_u32..).zip(&self.spans).map(|(number, span)| (number, *span));
        // The end counts as a page, so that what is missing there is found.
        for (number, span) in pages.chain([(u32::MAX, None)]) {
            while let Some(hole) = holes.next_if(|hole| hole.page <= number) {
                let gap = open.get_or_insert(LostRecords {
                    cpu,
                    before: window.map(|window| window.last),
                    until: None,
                    events: Some(0),
                    signalled_by: hole.signalled_by,
                });
                if hole.signalled_by == TRUNCATED {
                    gap.signalled_by = TRUNCATED;
                }
                gap.events =
                    gap.events.zip(hole.events).map(|(sum, more)| sum.saturating_add(more));
            }
            let Some((first, last)) = span else { continue };
            // A record's time is never earlier than that of the record before it.
            let reached = window.map_or(first, |window| window.last.max(first));
            if let Some(gap) = open.take() {
                lane.after_gap.push(number);
                gaps.push(LostRecords { until: Some(reached), ..gap });
            }
            let begin = window.map_or(reached, |window| window.first);
            window = Some(Window { first: begin, last: last.max(reached) });
        }
        gaps.extend(open);
        window
    }
}

//! The times that an index accepts at the start of a recording.

use schedlens_input::files::Mapped;

use super::*;
use crate::attrs::Attr;

/// The records of these tests are in memory.
static NO_FILE: Mapped = Mapped::Memory(Vec::new());

const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_ID_ALL: u64 = 1 << 18;

fn gap(before: Option<u64>, until: Option<u64>) -> LostRecords {
    LostRecords { cpu: 0, before, until, events: None, signalled_by: DAMAGED }
}

#[test]
fn bounds_of_gaps_at_skipped_records_move_into_the_recording() {
    let mut index = Index { first: Some(100), last: Some(200), ..Index::default() };
    index.gaps = vec![
        gap(Some(150), Some(9_000)),
        gap(Some(9_000), None),
        gap(Some(50), Some(160)),
        gap(None, Some(50)),
        gap(Some(170), Some(160)),
    ];
    index.limit_gaps();
    let expected = [
        gap(Some(150), None),
        gap(Some(200), None),
        gap(None, Some(160)),
        gap(None, Some(100)),
        gap(Some(160), Some(170)),
    ];
    assert_eq!(index.gaps, expected);
}

/// A sample with only a time and a CPU.
fn sample(ts: u64) -> Vec<u8> {
    let mut bytes = record::SAMPLE.to_le_bytes().to_vec();
    bytes.extend([0, 0, 24, 0]);
    bytes.extend(ts.to_le_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// The description of events whose samples are those of [`sample`].
fn events() -> Events {
    let mut attr = vec![0; 128];
    attr[24..32].copy_from_slice(&(SAMPLE_TIME | SAMPLE_CPU).to_le_bytes());
    attr[40..48].copy_from_slice(&SAMPLE_ID_ALL.to_le_bytes());
    Events::new(vec![Attr::read(&attr).expect("an event")]).expect("times")
}

/// `PERF_RECORD_LOST`: id, count, then time and CPU.
fn lost(ts: u64) -> Vec<u8> {
    lost_records(7, ts)
}

fn lost_records(count: u64, ts: u64) -> Vec<u8> {
    let mut bytes = record::LOST.to_le_bytes().to_vec();
    bytes.extend([0, 0, 40, 0]);
    for word in [0, count, ts, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

#[test]
fn lane_begins_with_its_earliest_record_and_not_with_a_later_lost_record() {
    let data = [lost(2_000), sample(1_000), sample(3_000)].concat();
    let (mut index, mut problems) = (Index::default(), Problems::default());
    index.add(&events(), (0, "data", &data), (0, Pages::new(&NO_FILE)), &mut problems, |_, _| {});
    let lanes: Vec<_> = index.lanes.iter().map(|lane| (lane.first, lane.last)).collect();
    assert_eq!(lanes, [(1_000, 3_000)]);
}

#[test]
fn lane_whose_impossible_first_record_is_left_out_does_not_begin_with_a_later_lost_record() {
    const HOUR: u64 = 3_600_000_000_000;
    let late = [lost(HOUR + 2_000), sample(HOUR + 1_000), sample(HOUR + 3_000)].concat();
    let data = [sample(1_000), late, sample(HOUR + 4_000)].concat();
    let (events, mut index, mut problems) = (events(), Index::default(), Problems::default());
    index.add(&events, (0, "data", &data), (0, Pages::new(&NO_FILE)), &mut problems, |_, _| {});
    index.leave_out(&events, |_| &data, &mut problems);
    assert_eq!((index.first, index.last), (Some(HOUR + 1_000), Some(HOUR + 4_000)));
    assert!(index.gaps.contains(&gap(None, Some(HOUR + 1_000))), "{:?}", index.gaps);
}

#[test]
fn impossible_counts_of_lost_records_do_not_wrap_around() {
    let half = 1_u64 << 63;
    // `PERF_RECORD_LOST_SAMPLES`: a count, then time and CPU.
    let mut samples = record::LOST_SAMPLES.to_le_bytes().to_vec();
    samples.extend([0, 0, 32, 0]);
    for word in [half, 1_000, 0] {
        samples.extend(word.to_le_bytes());
    }
    let twice = [lost_records(half, 1_000), samples, sample(1_000)].concat().repeat(2);
    let (mut index, mut problems) = (Index::default(), Problems::default());
    index.add(&events(), (0, "data", &twice), (0, Pages::new(&NO_FILE)), &mut problems, |_, _| {});
    assert_eq!((index.lost, index.lost_samples), (u64::MAX, u64::MAX));
}

#[test]
fn damage_at_the_start_does_not_decide_which_times_are_possible() {
    let events = events();
    // Its size leads past the records that follow; its type is not documented.
    let mut unknown = vec![0xff, 0xff, 0, 0, 0, 0, 48, 0];
    unknown.resize(24, 0xff);
    for damage in [vec![0xff; 24], unknown] {
        let sound: Vec<u8> = (1..9).flat_map(|ts| sample(1_000 + ts)).collect();
        let data = [damage, sound, sample(u64::MAX - 7)].concat();
        assert_eq!(median_time(&events, &data, 0), Some(1_005));
        let (mut index, mut problems) = (Index::default(), Problems::default());
        index.add(&events, (0, "data", &data), (0, Pages::new(&NO_FILE)), &mut problems, |_, _| {});
        assert_eq!((index.first, index.last), (Some(1_001), Some(1_008)));
    }
}

#[test]
fn latest_possible_time_behind_a_step_back_is_no_overflow() {
    let data = [sample(9_000_000), sample(1_000), sample(u64::MAX), sample(9_000_001)].concat();
    let (mut index, mut problems) = (Index::default(), Problems::default());
    index.add(&events(), (0, "data", &data), (0, Pages::new(&NO_FILE)), &mut problems, |_, _| {});
    let apart: Vec<_> = index.misfits.iter().map(|misfit| misfit.earliest).collect();
    assert_eq!(apart.first(), Some(&1_000));
}

/// `PERF_RECORD_SWITCH_CPU_WIDE`: process, thread, then time and CPU.
fn switch(ts: u64, cpu: u64) -> Vec<u8> {
    let mut bytes = record::SWITCH_CPU_WIDE.to_le_bytes().to_vec();
    bytes.extend([0, 0, 32, 0]);
    for word in [7, ts, cpu] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

#[test]
fn switches_among_samples_are_runs_of_their_own() {
    // The last one is of another CPU, and the one before it steps back within the tolerance.
    let records = [
        sample(1_000),
        sample(1_100),
        switch(1_200, 0),
        sample(1_300),
        switch(1_250, 0),
        switch(1_400, 1),
    ];
    let data = records.concat();
    let (mut index, mut problems) = (Index::default(), Problems::default());
    index.add(&events(), (0, "data", &data), (0, Pages::new(&NO_FILE)), &mut problems, |_, _| {});
    assert_eq!((index.records, index.samples[0]), (6, 3));
    assert_eq!(index.few_kinds[record::SWITCH_CPU_WIDE as usize], 3);
    assert_eq!((index.first, index.last), (Some(1_000), Some(1_400)));
    let lanes = |lane: &Lane| {
        let run = lane.run.map(|run| (run.start, run.end));
        (lane.cpu, lane.first, lane.before, lane.last, run)
    };
    let found: Vec<_> = index.lanes.iter().map(lanes).collect();
    // Two samples of 24 bytes, a switch of 32, a sample: the run that was added last is the sample.
    assert_eq!(found[0], (0, 1_000, 1_200, 1_300, Some((80, 104))));
    assert_eq!(found[1], (0, 1_250, 0, 1_250, Some((104, 136))));
    assert_eq!(found[2], (1, 1_400, 0, 1_400, Some((136, 168))));
}

// The kernel fills an overwritten buffer backward: the newest record of each CPU comes first. CPU 1
// wrote more, so its buffer begins later.
#[test]
fn overwritten_buffers_are_read_backward_and_begin_with_a_gap() {
    let mut attr = vec![0; 128];
    attr[24..32].copy_from_slice(&(SAMPLE_TIME | SAMPLE_CPU).to_le_bytes());
    attr[40..48].copy_from_slice(&(SAMPLE_ID_ALL | 1 << 27).to_le_bytes());
    let events = Events::new(vec![Attr::read(&attr).expect("an event")]).expect("times");
    let on = |cpu: u32, ts: u64| {
        let mut bytes = sample(ts);
        bytes[16..20].copy_from_slice(&cpu.to_le_bytes());
        bytes
    };
    const MS: u64 = 1_000_000;
    let of_0 = (1..=100).rev().flat_map(|n| on(0, 1_000 * MS + n * 10 * MS));
    let of_1 = (1..=100).rev().flat_map(|n| on(1, 1_900 * MS + n * MS));
    let data: Vec<u8> = of_0.chain(of_1).collect();
    let (mut index, mut problems) = (Index::default(), Problems::default());
    index.expect_backward(&events);
    index.add(&events, (0, "data", &data), (0, Pages::new(&NO_FILE)), &mut problems, |_, _| {});
    index.leave_out(&events, |_| &data, &mut problems);
    index.finish(false);
    assert_eq!((index.first, index.last), (Some(1_010 * MS), Some(2_000 * MS)));
    let (before, until) = (None, Some(1_901 * MS));
    let expected = LostRecords { cpu: 1, before, until, events: None, signalled_by: "overwritten" };
    assert_eq!(index.gaps, [expected]);
    assert_eq!(problems.rows(), []);
}

//! What is missing, where, and the evidence.

use super::built::{Built, log, plain, scanned, with_hooks};
use crate::passes::loss::Signs;
use crate::records::head::Head;
use crate::{Gap, Guid, Place};

fn gaps(bytes: Vec<u8>) -> Vec<Gap> {
    scanned(bytes).gaps().to_vec()
}

fn gap(
    cpu: u16,
    start: impl Into<Option<i64>>,
    end: impl Into<Option<i64>>,
    signalled_by: &'static str,
) -> Gap {
    Gap { cpu: Some(cpu), start: start.into(), end: end.into(), events: None, signalled_by }
}

/// Two CPUs, two buffers each.
fn four() -> [Built; 4] {
    [
        Built::new(0, 1, &[1_010, 1_020]),
        Built::new(1, 2, &[1_015, 1_025]),
        Built::new(0, 3, &[1_030, 1_040]),
        Built::new(1, 4, &[1_035, 1_045]),
    ]
}

#[test]
fn without_evidence_nothing_is_missing() {
    assert_eq!(gaps(plain(&four())), []);
}

#[test]
fn flags_cover_the_time_since_the_previous_buffer() {
    let [a, b, c, d] = four();
    let bytes = plain(&[a, b.clone().flags(2), c.flags(4), d.flags(6)]);
    let expected = [
        gap(1, None, 1_015, "events_lost"),
        gap(0, 1_020, 1_030, "buffer_lost"),
        gap(1, 1_025, 1_035, "buffer_lost"),
        gap(1, 1_025, 1_035, "events_lost"),
        gap(0, 1_040, None, "stream_end"),
        gap(1, 1_045, None, "stream_end"),
    ];
    assert_eq!(gaps(bytes), expected);
}

#[test]
fn a_missing_number_may_be_of_any_cpu() {
    let [a, b, mut c, mut d] = four();
    (c.sequence, d.sequence) = (4, 5);
    // CPUs 2 and 3 have no buffer: the missing one may be theirs.
    let expected = [
        gap(0, 1_020, 1_030, "missing_buffer"),
        gap(1, 1_025, 1_035, "missing_buffer"),
        gap(2, None, None, "missing_buffer"),
        gap(3, None, None, "missing_buffer"),
    ];
    assert_eq!(gaps(plain(&[a, b, c, d])), expected);
}

#[test]
fn circular_file_starts_anywhere_but_has_no_holes() {
    let old = four().map(|mut built| {
        built.sequence += 100;
        built
    });
    // What was overwritten is unknown up to the first record of each CPU.
    let expected = [gap(0, None, 1_010, "overwritten"), gap(1, None, 1_015, "overwritten")];
    assert_eq!(gaps(log(2, true, 0, &old)), expected);
    // A file that continues a full one is not missing buffers either.
    assert_eq!(gaps(log(8, true, 0, &old)), []);
    let sequential = gaps(log(1, true, 0, &old));
    let expected = [
        gap(0, None, 1_010, "missing_buffer"),
        gap(1, None, 1_015, "missing_buffer"),
        gap(2, None, None, "missing_buffer"),
        gap(3, None, None, "missing_buffer"),
    ];
    assert_eq!(sequential, expected);
}

#[test]
fn a_log_that_was_not_closed_misses_its_end() {
    let expected = [gap(0, 1_040, None, "not_closed"), gap(1, 1_045, None, "not_closed")];
    assert_eq!(gaps(log(1, false, 0, &four())), expected);
}

#[test]
fn a_log_with_fewer_buffers_than_were_written_is_cut_off() {
    let mut bytes = plain(&four());
    bytes.truncate(bytes.len() - super::built::BUFFER);
    let expected = [
        gap(0, 1_040, None, "truncated"),
        gap(1, 1_025, None, "truncated"),
        gap(2, None, None, "missing_buffer"),
        gap(3, None, None, "missing_buffer"),
    ];
    let found = gaps(bytes);
    assert_eq!(found.len(), expected.len());
    for gap in expected {
        assert!(found.contains(&gap), "{found:?}");
    }
}

#[test]
fn log_with_only_its_first_buffer_is_cut_off_at_an_unknown_time() {
    let mut bytes = plain(&four());
    bytes.truncate(super::built::BUFFER);
    let expected =
        Gap { cpu: None, start: None, end: None, events: None, signalled_by: "truncated" };
    assert_eq!(gaps(bytes), [expected]);
    assert_eq!(gaps(log(1, true, 0, &[])), []);
}

#[test]
fn time_without_any_record_of_the_scheduler_is_unknown_on_every_cpu() {
    const SECOND: i64 = 10_000_000;
    const SWITCH: u16 = 0x0524;
    const READY: u16 = 0x0532;
    const IMAGE_END: u16 = 0x1404;
    const USER: u16 = 0x0f22;
    // The kernel's session lasts from 2 s to 7 s; another one starts before it, and code is listed
    // behind it.
    let first =
        [(USER, SECOND), (READY, 2 * SECOND), (SWITCH, 5 * SECOND), (IMAGE_END, 9 * SECOND)];
    let second = [(SWITCH, 3 * SECOND), (SWITCH, 7 * SECOND), (IMAGE_END, 8 * SECOND)];
    let expected = [
        gap(0, None, 2 * SECOND, "stream_start"),
        gap(1, None, 2 * SECOND, "stream_start"),
        gap(0, 7 * SECOND, None, "stream_end"),
        gap(1, 7 * SECOND, None, "stream_end"),
    ];
    assert_eq!(gaps(with_hooks(&[&first, &second])), expected);
    // Without switches there is nothing to know about the CPUs.
    let others: Vec<_> = first.into_iter().filter(|(hook, _)| *hook != SWITCH).collect();
    assert_eq!(gaps(with_hooks(&[&others])), []);
    // Any system pauses for up to a tenth of a second.
    let pauses = [(USER, 5_000), (SWITCH, SECOND / 10), (SWITCH, 3 * SECOND), (USER, 31_000_000)];
    assert_eq!(gaps(with_hooks(&[&pauses])), []);
}

#[test]
fn losses_only_in_the_header_have_no_time() {
    let nowhere =
        Gap { cpu: None, start: None, end: None, events: Some(7), signalled_by: "header" };
    // They may have been the last ones of any CPU.
    let last = [gap(0, 1_040, None, "stream_end"), gap(1, 1_045, None, "stream_end")];
    let found = gaps(log(1, true, 7, &four()));
    assert_eq!(found.len(), 3);
    assert!(found.contains(&nowhere) && last.iter().all(|gap| found.contains(gap)), "{found:?}");
    let [a, b, c, d] = four();
    let found = gaps(log(1, true, 7, &[a, b, c.flags(2), d]));
    assert_eq!(found, [gap(0, 1_020, 1_030, "events_lost"), last[0], last[1]]);
}

/// The gaps reported by one record.
fn reported(bytes: &[u8]) -> Vec<Gap> {
    reported_within(bytes, None)
}

/// The same in a recording with these times of its earliest and latest record.
fn reported_within(bytes: &[u8], window: Option<(i64, i64)>) -> Vec<Gap> {
    let head = Head::at(bytes, 0, 0).expect("a record");
    let place = Place { file: 0, buffer: 0, at: 72 };
    let mut signs = Signs::default();
    signs.record(&head.record(bytes, 0, (Some(3), place)));
    crate::passes::loss::gaps(&[], &signs, Vec::new(), window).0
}

#[test]
fn last_dropped_times_have_no_cpu() {
    // Hook 0052: three times, one of them never.
    let mut bytes = vec![2, 0, 2, 0xc0, 64, 0, 0x52, 0];
    bytes.extend([0; 8]);
    bytes.extend(1_500_i64.to_le_bytes());
    bytes.extend([0; 8]);
    for time in [3_i64, 1_200, 0, 1_100] {
        bytes.extend(time.to_le_bytes());
    }
    let gap = |time: i64| Gap {
        cpu: None,
        start: Some(time),
        end: Some(time),
        events: None,
        signalled_by: "last_dropped_times",
    };
    assert_eq!(reported(&bytes), [gap(1_100), gap(1_200)]);
    let early = Gap { start: None, end: Some(1_150), ..gap(0) };
    assert_eq!(reported_within(&bytes, Some((1_150, 1_300))), [early, gap(1_200)]);
    let late = Gap { start: Some(1_150), end: None, ..gap(0) };
    assert_eq!(reported_within(&bytes, Some((1_000, 1_150))), [gap(1_100), late]);
}

// cpu 0, buffer 1: 1000 .. 1040; buffer 3: 1010 .. 1050; the second one is missing
#[test]
fn loss_between_overlapping_buffers_covers_their_overlap() {
    let buffers = [Built::new(0, 1, &[1_000, 1_040]), Built::new(0, 3, &[1_010, 1_050])];
    let found = gaps(log(1 << 16 | 1, true, 0, &buffers));
    assert_eq!(found.first(), Some(&gap(0, 1_010, 1_040, "missing_buffer")));
}

#[test]
fn losses_of_a_real_time_session_are_reported() {
    for (opcode, signalled_by) in
        [(0x20, "rt_lost_event"), (0x21, "rt_lost_buffer"), (0x22, "rt_lost_file")]
    {
        let mut bytes = vec![48, 0, 20, 0xc0, opcode, 0, 0, 0];
        bytes.extend([0; 8]);
        bytes.extend(1_500_i64.to_le_bytes());
        bytes.extend([0xe0, 0x9a, 0x39, 0x6a, 0xc6, 0x4b, 0xe9, 0x4d]);
        bytes.extend([0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e]);
        bytes.extend([0; 8]);
        let class = Guid::from_text_order(0x6a399ae0_4bc6_4de9_870b_3657f8947e7e);
        assert_eq!(Guid::at(&bytes, 24), Some(class));
        let expected = Gap { cpu: None, start: None, end: Some(1_500), events: None, signalled_by };
        assert_eq!(reported(&bytes), [expected]);
    }
}

#[test]
fn a_buffer_that_is_in_the_file_twice_is_read_once() {
    let mut bytes = plain(&four());
    bytes.extend_from_within(3 * super::built::BUFFER..4 * super::built::BUFFER);
    let scan = scanned(bytes);
    assert_eq!(scan.gaps(), []);
    assert_eq!(scan.log().files[0].buffers.iter().filter(|buffer| !buffer.header).count(), 4);
    assert_eq!(scan.log().files[0].repeated, 1);
}

//! What is missing, where, and what says so.

use super::built::{Built, log, plain, scanned};
use crate::etl::Gap;

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
fn nothing_is_missing_where_nothing_says_so() {
    assert_eq!(gaps(plain(&four())), []);
}

#[test]
fn flags_tell_of_the_time_since_the_buffer_before() {
    let [a, b, c, d] = four();
    let bytes = plain(&[a, b.clone().flags(2), c.flags(4), d.flags(6)]);
    let expected = [
        gap(1, None, 1_015, "events_lost"),
        gap(0, 1_020, 1_030, "buffer_lost"),
        gap(1, 1_025, 1_035, "buffer_lost"),
        gap(1, 1_025, 1_035, "events_lost"),
    ];
    assert_eq!(gaps(bytes), expected);
}

#[test]
fn a_missing_number_may_be_of_any_cpu() {
    let [a, b, mut c, mut d] = four();
    (c.sequence, d.sequence) = (4, 5);
    let expected = [gap(0, 1_020, 1_030, "missing_buffer"), gap(1, 1_025, 1_035, "missing_buffer")];
    assert_eq!(gaps(plain(&[a, b, c, d])), expected);
}

#[test]
fn a_circular_file_begins_anywhere_but_has_no_holes() {
    let old = four().map(|mut built| {
        built.sequence += 100;
        built
    });
    assert_eq!(gaps(log(2, true, 0, &old)), []);
    let sequential = gaps(log(1, true, 0, &old));
    let expected = [gap(0, None, 1_010, "missing_buffer"), gap(1, None, 1_015, "missing_buffer")];
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
    let expected = [gap(0, 1_040, None, "truncated"), gap(1, 1_025, None, "truncated")];
    let found = gaps(bytes);
    assert_eq!(found.len(), 2);
    for gap in expected {
        assert!(found.contains(&gap), "{found:?}");
    }
}

#[test]
fn losses_that_only_the_header_tells_have_no_place() {
    let expected =
        Gap { cpu: None, start: None, end: None, events: Some(7), signalled_by: "header" };
    assert_eq!(gaps(log(1, true, 7, &four())), [expected]);
    let [a, b, c, d] = four();
    let told = gaps(log(1, true, 7, &[a, b, c.flags(2), d]));
    assert_eq!(told, [gap(0, 1_020, 1_030, "events_lost")]);
}

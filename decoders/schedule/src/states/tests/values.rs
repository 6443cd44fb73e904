//! Counter values, and interrupts in the idle thread.

use super::timeline::{Timeline, Value};
use super::{R, S};

// cpu0  10 |0 .. [30 .. 34] .. [40 ..... 46] ..|10
//       0  20        [32 .. 36]                50    100
#[test]
fn interrupt_work_in_the_idle_thread_is_separate() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .interrupt(10, 0, 5)
        .switch(20, 0, 10, 0, S)
        .interrupt(30, 0, 4)
        .interrupt(32, 0, 4)
        .interrupt(40, 0, 6)
        .switch(50, 0, 0, 10, R)
        .interrupt(60, 0, 5)
        .run();
    assert_eq!(
        answer.cpu(0),
        [
            "thread 0..20 10",
            "idle 20..30",
            "interrupt 30..34",
            "interrupt 34..36",
            "idle 36..40",
            "interrupt 40..46",
            "idle 46..50",
            "thread 50..100 10",
        ]
    );
}

// Before the first switch, at the very switch, and beyond the end.
#[test]
fn interrupts_are_cut_to_the_idle_slice() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .interrupt(5, 0, 5)
        .switch(20, 0, 0, 10, R)
        .switch(40, 0, 10, 0, S)
        .interrupt(40, 0, 3)
        .interrupt(95, 0, 50)
        .run();
    assert_eq!(
        answer.cpu(0),
        [
            "idle 0..5",
            "interrupt 5..10",
            "idle 10..20",
            "thread 20..40 10",
            "interrupt 40..43",
            "idle 43..95",
            "interrupt 95..100",
        ]
    );
}

// Interrupts where the chain breaks are not idle time.
#[test]
fn interrupts_in_lost_time_remain_unknown() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 0, S)
        .interrupt(30, 0, 5)
        .switch(50, 0, 11, 0, S)
        .run();
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "unknown 20..50", "idle 50..100"]);
}

// The value at 20 is the first of its CPU; each later one counts for the outgoing thread.
#[test]
fn deltas_belong_to_the_outgoing_thread() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .switch(20, 0, 10, 0, S)
        .count(20, 0, 10, 1000)
        .switch(30, 0, 0, 10, R)
        .count(30, 0, 0, 1005)
        .switch(60, 0, 10, 0, S)
        .count(60, 0, 10, 1905)
        .run();
    assert_eq!(answer.deltas(), ["0 cpu0 20..30 5", "10 cpu0 30..60 900"]);
}

// The switch at 30 has no value: the interval from 20 to 60 spans it and is dropped.
#[test]
fn an_interval_that_spans_a_switch_without_a_value_is_dropped() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .switch(20, 0, 10, 0, S)
        .count(20, 0, 10, 1000)
        .event(30, 0, Some(0), Some(10), false)
        .switch(60, 0, 10, 0, S)
        .count(60, 0, 10, 1905)
        .switch(70, 0, 0, 10, R)
        .count(70, 0, 0, 1907)
        .run();
    assert_eq!(answer.deltas(), ["0 cpu0 60..70 2"]);
}

// A pair that duplicates a record is not a switch of its own.
#[test]
fn duplicate_does_not_drop_an_interval() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .switch(20, 0, 10, 0, S)
        .count(20, 0, 10, 1000)
        .event(21, 0, Some(10), Some(0), false)
        .switch(60, 0, 0, 10, R)
        .count(60, 0, 0, 1100)
        .run();
    assert_eq!(answer.deltas(), ["0 cpu0 20..60 100"]);
}

#[test]
fn an_interval_across_a_gap_is_dropped() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .switch(20, 0, 10, 0, S)
        .count(20, 0, 10, 1000)
        .lost(0, Some(30), Some(40))
        .switch(60, 0, 0, 10, R)
        .count(60, 0, 0, 1100)
        .run();
    assert_eq!(answer.deltas(), Vec::<String>::new());
}

// The raw 64 bits change from positive to negative; then the counter falls.
#[test]
fn counters_wrap_and_may_not_fall() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 0, super::X)
        .count(20, 0, 10, i64::MAX)
        .switch(30, 0, 0, 11, R)
        .count(30, 0, 0, i64::MIN + 4)
        .switch(40, 0, 11, 0, S)
        .count(40, 0, 11, i64::MIN)
        .run();
    assert_eq!(answer.deltas(), ["0 cpu0 20..30 5"]);
    assert_eq!(answer.problems(), ["1 counter decreased: interval skipped"]);
}

// Two counters, by name and core type.
#[test]
fn counters_are_separate() {
    let sample = |ts: i64, counter: &'static str, value: i64, outgoing: i64| {
        vec![
            ("ts", Value::Long(ts)),
            ("cpu", Value::Long(0)),
            ("utid", Value::Long(super::timeline::utid(outgoing))),
            ("counter", Value::Text(counter)),
            ("core_type", Value::Text("E")),
            ("value", Value::Long(value)),
        ]
    };
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .switch(20, 0, 10, 0, S)
        .row("counter_sample", sample(20, "cycles", 10, 10))
        .row("counter_sample", sample(20, "instructions", 100, 10))
        .switch(30, 0, 0, 10, R)
        .row("counter_sample", sample(30, "cycles", 13, 0))
        .row("counter_sample", sample(30, "instructions", 105, 0))
        .run();
    assert_eq!(answer.deltas(), ["0 cpu0 20..30 3", "0 cpu0 20..30 5"]);
}

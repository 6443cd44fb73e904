//! Why slices end.

use super::timeline::Timeline;
use super::{D, R, R_PLUS, S, X, Z};

/// Thread 10 is switched in at 100, leaves at `at` in `state`, and 11 takes over.
fn slice(at: i64, state: i64) -> Timeline {
    Timeline::linux(2, 1_000_000)
        .thread(10)
        .thread(11)
        .thread(12)
        .switch(50, 0, 10, 12, R)
        .switch(100, 0, 12, 10, S)
        .switch(at, 0, 10, 11, state)
}

/// Why it left, with 11 woken or preempted before the switch at `at`.
fn reason(timeline: Timeline) -> String {
    let slices = timeline.run().slices_of(10);
    slices[1].split(' ').nth(2).expect("reason").to_owned()
}

#[test]
fn linux_state_shows_exit_and_sleep() {
    for (state, expected) in [
        (X, "exit"),
        (Z, "exit"),
        (S, "blocked"),
        (D, "blocked"),
        (4, "blocked"),
        (8, "blocked"),
        (0x40, "blocked"),
        (0x80, "blocked"),
    ] {
        assert_eq!(reason(slice(200, state)), expected, "{state}");
    }
}

// Reasons of the wait that follows: stopped, traced, parked and idle are distinct.
#[test]
fn state_letter_is_the_wait_reason() {
    for (state, letter) in [(S, "S"), (D, "D"), (4, "T"), (8, "t"), (0x40, "P"), (0x80, "I")] {
        let answer = slice(200, state).run();
        let expected = format!("waiting 200..1000000 {letter} >");
        assert_eq!(answer.states_of(10).last(), Some(&expected));
    }
}

#[test]
fn runnable_to_the_idle_thread_is_throttled_or_moved() {
    for state in [R, R_PLUS] {
        let timeline = Timeline::linux(1, 1000).thread(10).switch(300, 0, 10, 0, state);
        assert_eq!(timeline.run().slices()[0], "10 cpu0 0..300 throttled_or_moved <");
    }
}

// 11 is woken at 150, after the slice's start: preempted, regardless of the length.
#[test]
fn next_woken_after_the_start_is_preemption() {
    for at in [160, 500] {
        let timeline = slice(at, R_PLUS).wake(150, 1, "waking", 11, 12);
        assert_eq!(reason(timeline), "preempted", "{at}");
    }
}

// 11 is woken at or before the start of the slice: not a preemption.
#[test]
fn next_ready_at_the_start_is_a_quantum_end_from_nine_tenths_of_a_tick_on() {
    for wake in [60, 100] {
        for (at, expected) in
            [(189, "runnable_other"), (190, "quantum_end_or_yield"), (5000, "quantum_end_or_yield")]
        {
            let timeline = slice(at, R).wake(wake, 1, "waking", 11, 12);
            assert_eq!(reason(timeline), expected, "{wake} {at}");
        }
    }
}

// 11 left cpu1 runnable at 60, so it was ready without a wakeup.
#[test]
fn next_thread_preempted_before_the_start_counts_as_ready() {
    let timeline = slice(190, R).switch(60, 1, 11, 1, R_PLUS);
    assert_eq!(reason(timeline), "quantum_end_or_yield");
    let timeline = slice(190, R).switch(150, 1, 11, 1, R_PLUS);
    assert_eq!(reason(timeline), "runnable_other");
}

#[test]
fn with_yields_recorded_a_quantum_end_is_not_a_yield() {
    let timeline = slice(190, R).wake(60, 1, "waking", 11, 12).yields(55, 0, 12);
    assert_eq!(reason(timeline), "quantum_end");
}

// The last yield of this slice is less than 100 us before the switch.
#[test]
fn yield_shortly_before_the_switch_counts_at_any_length() {
    for (yielded, at, expected) in [
        (150, 160, "yield"),
        (150, 100_149, "yield"),
        (150, 100_150, "quantum_end"),
        (100, 190, "yield"),
    ] {
        let timeline = slice(at, R).wake(60, 1, "waking", 11, 12).yields(yielded, 0, 10);
        assert_eq!(reason(timeline), expected, "{yielded} {at}");
    }
    // Even with 11 woken after the start.
    let timeline = slice(160, R).wake(120, 1, "waking", 11, 12).yields(150, 0, 10);
    assert_eq!(reason(timeline), "yield");
    // A yield in the previous slice does not count.
    let timeline = slice(160, R).wake(60, 1, "waking", 11, 12).yields(40, 0, 10);
    assert_eq!(reason(timeline), "runnable_other");
}

// It was preempted in the kernel, on its way to yield.
#[test]
fn a_thread_that_leaves_as_r_plus_does_not_yield() {
    let timeline = slice(160, R_PLUS).wake(120, 1, "waking", 11, 12).yields(150, 0, 10);
    assert_eq!(reason(timeline), "preempted");
    let timeline = slice(160, R_PLUS).wake(60, 1, "waking", 11, 12).yields(150, 0, 10);
    assert_eq!(reason(timeline), "runnable_other");
}

// It is unknown when 11 became ready.
#[test]
fn everything_else_is_runnable_other() {
    assert_eq!(reason(slice(5000, R)), "runnable_other");
}

// 10 runs from before the trace to 95 (known length 95 of a tick of 100), 11 woken at 0.
#[test]
fn censored_slice_counts_with_its_known_length() {
    for (at, expected) in [(89, "runnable_other"), (90, "quantum_end_or_yield")] {
        let timeline = Timeline::linux(2, 1000)
            .thread(10)
            .thread(11)
            .thread(12)
            .wake(0, 1, "waking", 11, 12)
            .switch(at, 0, 10, 11, R);
        let expected = format!("10 cpu0 0..{at} {expected} <");
        assert_eq!(timeline.run().slices()[0], expected);
    }
}

// Without a known tick, 1 ms is assumed and reported.
#[test]
fn unknown_tick_counts_as_a_millisecond() {
    for (at, expected) in [(900_099, "runnable_other"), (900_100, "quantum_end_or_yield")] {
        let mut timeline = slice(at, R).wake(60, 1, "waking", 11, 12);
        timeline.settings.tick_ns = None;
        assert_eq!(
            timeline.run().problems(),
            [
                "1 switch-in without a waking since the switch-out: \
              how long it was ready is unknown",
                "1 tick unknown: quantum ends assume 1 ms"
            ][1..]
        );
        assert_eq!(reason(timeline), expected);
    }
}

#[test]
fn slice_open_at_the_end_ends_with_the_recording() {
    let answer = Timeline::linux(1, 100).thread(10).switch(30, 0, 0, 10, R).run();
    assert_eq!(answer.slices(), ["0 cpu0 0..30 - <", "10 cpu0 30..100 trace_end >"]);
}

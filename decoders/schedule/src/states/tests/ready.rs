//! When a thread is ready, and who woke it.

use super::timeline::Timeline;
use super::{R, R_PLUS, S};

fn quiet(timeline: Timeline) -> super::answer::Answer {
    let answer = timeline.run();
    assert!(answer.problems().is_empty(), "{:?}", answer.problems());
    answer
}

// cpu0  10 |10------|S   0        |10 ...... 100
//       0         20     30 wakeup 35
#[test]
fn ready_starts_at_the_wakeup_between_switch_out_and_switch_in() {
    let answer = quiet(
        Timeline::linux(1, 100)
            .thread(10)
            .thread(11)
            .switch(20, 0, 10, 0, S)
            .wake(30, 0, "waking", 10, 11)
            .switch(35, 0, 0, 10, R),
    );
    assert_eq!(
        answer.states_of(10),
        ["running 0..20 cpu0 <", "waiting 20..30 S", "ready 30..35 by11", "running 35..100 cpu0 >",]
    );
    assert_eq!(
        answer.slices(),
        [
            "10 cpu0 0..20 blocked <",
            "0 cpu0 20..35 -",
            "10 cpu0 35..100 trace_end ready=5 wait=10 prev=0 by11 >",
        ]
    );
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "idle 20..35", "thread 35..100 10"]);
    assert_eq!(answer.wakings(), [(30, true, Some(0))]);
}

// Wakeups at 15 (it runs), 30, 32 and 34: the one at 30 counts, the others change nothing.
#[test]
fn first_wakeup_after_the_switch_out_counts() {
    let answer = quiet(
        Timeline::linux(1, 100)
            .thread(10)
            .thread(11)
            .thread(12)
            .wake(15, 0, "waking", 10, 12)
            .switch(20, 0, 10, 0, S)
            .wake(22, 0, "wakeup", 10, 12)
            .wake(30, 0, "waking", 10, 11)
            .wake(32, 0, "waking", 10, 12)
            .wake(34, 0, "wakeup", 10, 12)
            .switch(35, 0, 0, 10, R),
    );
    assert_eq!(answer.slices_of(10)[1], "cpu0 35..100 trace_end ready=5 wait=10 prev=0 by11 >");
    let effective: Vec<i64> = answer.wakings().iter().filter(|w| w.1).map(|w| w.0).collect();
    assert_eq!(effective, [30]);
}

// Wakeups at 12 and 15 find it running: the last one explains the switch-out at 20. The
// sched_wakeup at 25 counts only if no sched_waking does.
#[test]
fn without_a_later_wakeup_the_last_one_in_the_slice_counts() {
    let answer = quiet(
        Timeline::linux(1, 100)
            .thread(10)
            .thread(11)
            .thread(12)
            .wake(12, 0, "waking", 10, 12)
            .wake(15, 0, "waking", 10, 11)
            .switch(20, 0, 10, 0, S)
            .wake(25, 0, "wakeup", 10, 12)
            .switch(35, 0, 0, 10, R),
    );
    assert_eq!(answer.states_of(10)[1..], ["ready 20..35 by11", "running 35..100 cpu0 >"]);
    assert_eq!(answer.slices_of(10)[1], "cpu0 35..100 trace_end ready=15 wait=0 prev=0 by11 >");
    assert_eq!(answer.wakings().iter().map(|w| w.1).collect::<Vec<_>>(), [false, true, false]);
}

// A wakeup during an earlier slice no longer explains anything.
#[test]
fn each_wakeup_explains_at_most_one_switch_out() {
    let timeline = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .wake(12, 0, "waking", 10, 11)
        .switch(20, 0, 10, 0, S)
        .switch(30, 0, 0, 10, R)
        .switch(40, 0, 10, 0, S)
        .switch(50, 0, 0, 10, R);
    let answer = timeline.run();
    assert_eq!(
        answer.slices_of(10)[1..],
        ["cpu0 30..40 blocked ready=10 wait=0 prev=0 by11", "cpu0 50..100 trace_end prev=0 >"]
    );
    assert_eq!(answer.states_of(10)[3..], ["waiting 40..50 S", "running 50..100 cpu0 >"]);
    assert_eq!(
        answer.problems(),
        ["1 switch-in without a waking since the switch-out: \
          how long it was ready is unknown"]
    );
}

// Only sched_wakeup was recorded: the same two rules.
#[test]
fn sched_wakeup_counts_only_without_sched_waking() {
    let answer = quiet(
        Timeline::linux(1, 100)
            .thread(10)
            .thread(11)
            .switch(20, 0, 10, 0, S)
            .wake(30, 0, "wakeup", 10, 11)
            .wake(31, 0, "wakeup", 10, 11)
            .switch(35, 0, 0, 10, R)
            .wake(40, 0, "wakeup", 10, 11)
            .wake(42, 0, "wakeup", 10, 11)
            .switch(50, 0, 10, 0, S)
            .switch(55, 0, 0, 10, R),
    );
    assert_eq!(
        answer.slices_of(10)[1..],
        [
            "cpu0 35..50 blocked ready=5 wait=10 prev=0 by11",
            "cpu0 55..100 trace_end ready=5 wait=0 prev=0 by11 >",
        ]
    );
    assert_eq!(
        answer.wakings(),
        [(30, true, Some(1)), (31, false, Some(1)), (40, false, Some(1)), (42, true, Some(1))]
    );
}

// cpu0  ... |20 new    ; created at 10, wakeup_new at 14, switched in at 20.
#[test]
fn a_new_thread_is_ready_from_its_wakeup_new() {
    let answer = quiet(
        Timeline::linux(1, 100)
            .thread(10)
            .life(20, Some(10), None)
            .wake(14, 0, "wakeup_new", 20, 10)
            .switch(20, 0, 10, 20, S),
    );
    assert_eq!(answer.states_of(20), ["new 10..14", "ready 14..20 by10", "running 20..100 cpu0 >"]);
    assert_eq!(answer.slices_of(20), ["cpu0 20..100 trace_end ready=6 wait=0 by10 >"]);
}

#[test]
fn new_thread_without_a_wakeup_is_new_until_its_switch_in() {
    let answer =
        quiet(Timeline::linux(1, 100).thread(10).life(20, Some(10), None).switch(20, 0, 10, 20, S));
    assert_eq!(answer.states_of(20), ["new 10..20", "running 20..100 cpu0 >"]);
    assert_eq!(answer.slices_of(20), ["cpu0 20..100 trace_end wait=0 >"]);
}

// It leaves runnable at 20 and returns at 30; a wakeup in between changes nothing.
#[test]
fn a_thread_that_leaves_runnable_is_ready_from_there() {
    for state in [R, R_PLUS] {
        let answer = quiet(
            Timeline::linux(1, 100)
                .thread(10)
                .thread(11)
                .switch(20, 0, 10, 11, state)
                .wake(25, 0, "waking", 10, 11)
                .switch(30, 0, 11, 10, S),
        );
        assert_eq!(
            answer.states_of(10),
            ["running 0..20 cpu0 <", "ready 20..30", "running 30..100 cpu0 >"]
        );
        assert_eq!(answer.slices_of(10)[1], "cpu0 30..100 trace_end ready=10 wait=0 prev=0 >");
        assert_eq!(answer.wakings(), [(25, false, Some(0))]);
    }
}

// A recording of switches only.
#[test]
fn without_wakeups_it_waits_until_the_switch_in() {
    let mut timeline = Timeline::linux(1, 100)
        .thread(10)
        .switch(20, 0, 10, 0, S)
        .switch(30, 0, 0, 10, R)
        .switch(40, 0, 10, 0, S)
        .switch(60, 0, 0, 10, R);
    timeline.settings.has_wakings = false;
    let answer = timeline.run();
    assert_eq!(
        answer.states_of(10),
        [
            "running 0..20 cpu0 <",
            "waiting 20..30 S",
            "running 30..40 cpu0",
            "waiting 40..60 S",
            "running 60..100 cpu0 >",
        ]
    );
    assert_eq!(
        answer.slices_of(10)[1..],
        ["cpu0 30..40 blocked prev=0", "cpu0 60..100 trace_end prev=0 >"]
    );
    assert_eq!(
        answer.problems(),
        ["2 switch-in without a waking since the switch-out: \
          how long it was ready is unknown"]
    );
}

// Idle slices have no ready time, wait, waker or previous CPU.
#[test]
fn idle_slices_have_no_ready_wait_waker_and_previous_cpu() {
    let answer = quiet(
        Timeline::linux(1, 100)
            .thread(10)
            .switch(20, 0, 10, 0, S)
            .wake(30, 0, "waking", 10, 0)
            .switch(35, 0, 0, 10, R)
            .switch(50, 0, 10, 0, S),
    );
    assert_eq!(answer.slices_of(0), ["cpu0 20..35 -", "cpu0 50..100 - >"]);
}

// Only pairs of PERF_RECORD_SWITCH: the preempt flag alone shows whether the outgoing thread is
// runnable.
#[test]
fn outgoing_thread_without_a_state_is_ready_if_preempted_else_blocked() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .event(20, 0, Some(10), Some(11), true)
        .event(40, 0, Some(11), Some(10), false)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["running 0..20 cpu0 <", "ready 20..40", "running 40..100 cpu0 >"]
    );
    assert_eq!(
        answer.states_of(11),
        ["unknown 0..20 <", "running 20..40 cpu0", "waiting 40..100 >"]
    );
    assert_eq!(
        answer.slices(),
        [
            "10 cpu0 0..20 runnable_other <",
            "11 cpu0 20..40 blocked",
            "10 cpu0 40..100 trace_end ready=20 wait=0 prev=0 >",
        ]
    );
}

// Ready since 90, not switched in before the end.
#[test]
fn a_ready_period_may_be_open_at_the_end() {
    let answer = quiet(
        Timeline::linux(1, 100)
            .thread(10)
            .thread(11)
            .switch(20, 0, 10, 11, S)
            .wake(90, 0, "waking", 10, 11),
    );
    assert_eq!(answer.states_of(10)[1..], ["waiting 20..90 S", "ready 90..100 by11 >"]);
    assert_eq!(answer.wakings(), [(90, true, Some(0))]);
}

// The wakeup is paired with the switch-out that follows it, whether or not a switch-in follows.
#[test]
fn wakeup_in_the_last_slice_makes_the_thread_ready_from_its_end() {
    let answer = quiet(
        Timeline::linux(1, 100)
            .thread(10)
            .thread(11)
            .wake(10, 0, "waking", 10, 11)
            .switch(20, 0, 10, 11, S),
    );
    assert_eq!(answer.states_of(10)[1..], ["ready 20..100 by11 >"]);
    assert_eq!(answer.wakings(), [(10, true, Some(0))]);
}

//! Records of equal time.

use super::timeline::Timeline;
use super::{R, R_PLUS, S};

// 10 leaves cpu1 and is switched in on cpu0 at 50; cpu0's record comes first in every table.
#[test]
fn a_switch_out_comes_before_a_switch_in_on_another_cpu() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .switch(50, 0, 0, 10, R)
        .switch(50, 1, 10, 1, R_PLUS)
        .run();
    assert_eq!(answer.states_of(10), ["running 0..50 cpu1 <", "running 50..100 cpu0 >"]);
    assert_eq!(
        answer.slices_of(10),
        ["cpu1 0..50 throttled_or_moved <", "cpu0 50..100 trace_end ready=0 wait=0 prev=1 >"]
    );
    assert!(answer.problems().is_empty());
    assert_eq!(answer.losses(), Vec::<String>::new());
}

// Switch-out, wakeup and switch-in of 10 all at 50.
#[test]
fn wakeup_is_between_switch_out_and_switch_in() {
    let answer = Timeline::linux(3, 100)
        .thread(10)
        .thread(11)
        .wake(50, 2, "waking", 10, 11)
        .switch(50, 0, 0, 10, R)
        .switch(50, 1, 10, 1, S)
        .run();
    assert_eq!(answer.states_of(10), ["running 0..50 cpu1 <", "running 50..100 cpu0 >"]);
    assert_eq!(answer.slices_of(10)[1], "cpu0 50..100 trace_end ready=0 wait=0 prev=1 by11 >");
    assert_eq!(answer.wakings(), [(50, true, Some(0))]);
    assert!(answer.problems().is_empty());
}

// 10 leaves cpu2, has an empty slice on cpu1 and continues on cpu0, all at 50.
#[test]
fn empty_slice_is_between_the_one_that_ends_and_the_one_that_starts() {
    let answer = Timeline::linux(3, 100)
        .thread(10)
        .switch(50, 0, 0, 10, R)
        .switch(50, 1, 1, 10, R)
        .switch(50, 1, 10, 1, R_PLUS)
        .switch(50, 2, 10, 2, R_PLUS)
        .run();
    assert_eq!(
        answer.slices_of(10),
        [
            "cpu2 0..50 throttled_or_moved <",
            "cpu1 50..50 throttled_or_moved ready=0 wait=0 prev=2",
            "cpu0 50..100 trace_end ready=0 wait=0 prev=1 >",
        ]
    );
    assert_eq!(
        answer.states_of(10),
        ["running 0..50 cpu2 <", "running 50..50 cpu1", "running 50..100 cpu0 >"]
    );
    assert_eq!(answer.cpu(1), ["idle 0..50", "idle 50..100"]);
    assert_eq!(answer.losses(), Vec::<String>::new());
}

// Two wakeups at 50 and an empty slice between them: each explains one switch-out.
#[test]
fn two_wakeups_at_one_time_explain_two_switch_outs() {
    let answer = Timeline::linux(3, 100)
        .thread(10)
        .thread(11)
        .thread(12)
        .wake(50, 2, "waking", 10, 11)
        .wake(50, 2, "waking", 10, 12)
        .switch(50, 0, 0, 10, R)
        .switch(50, 0, 10, 0, S)
        .switch(20, 1, 10, 1, S)
        .switch(70, 1, 1, 10, R)
        .run();
    assert_eq!(
        answer.slices_of(10),
        [
            "cpu1 0..20 blocked <",
            "cpu0 50..50 blocked ready=0 wait=30 prev=1 by11",
            "cpu1 70..100 trace_end ready=20 wait=0 prev=0 by12 >",
        ]
    );
    assert_eq!(answer.wakings(), [(50, true, Some(0)), (50, true, Some(0))]);
}

// Only one wakeup: the second switch-out has none.
#[test]
fn one_wakeup_does_not_explain_two_switch_outs() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .switch(20, 1, 10, 1, S)
        .wake(50, 1, "waking", 10, 11)
        .switch(50, 0, 0, 10, R)
        .switch(50, 0, 10, 0, S)
        .switch(70, 1, 1, 10, R)
        .run();
    assert_eq!(
        answer.slices_of(10)[1..],
        ["cpu0 50..50 blocked ready=0 wait=30 prev=1 by11", "cpu1 70..100 trace_end prev=0 >",]
    );
    assert_eq!(answer.states_of(10).last().map(String::as_str), Some("running 70..100 cpu1 >"));
    assert_eq!(
        answer.problems(),
        ["1 switch-in without a waking since the switch-out: \
          how long it was ready is unknown"]
    );
}

// 11 takes over from 10 at 50 and was woken at 50, on another CPU: after the slice's start.
#[test]
fn end_reason_uses_all_records_of_the_time() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 11, 10, S)
        .switch(50, 0, 10, 11, R_PLUS)
        .wake(50, 1, "waking", 11, 1)
        .run();
    assert_eq!(answer.slices_of(10)[0], "cpu0 20..50 preempted");
}

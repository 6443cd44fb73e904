//! Windows: planned switch-ins, ReadyThread, and recorded end reasons.

use super::timeline::Timeline;

const WAITING: i64 = 5;
const READY: i64 = 1;

// Waiting for a user's request, woken by 11 during the idle thread's slice.
#[test]
fn ready_thread_begins_a_ready_period() {
    let answer = Timeline::windows(1, 100)
        .thread(10)
        .thread(11)
        .cswitch(20, 0, (10, 0), (WAITING, 6))
        .wake(30, 0, "ready", 10, 11)
        .cswitch(35, 0, (0, 10), (READY, 0))
        .run();
    assert_eq!(
        answer.states_of(10),
        [
            "running 0..20 cpu0 <",
            "waiting 20..30 UserRequest",
            "ready 30..35 by11",
            "running 35..100 cpu0 >"
        ]
    );
    assert_eq!(answer.wakings(), [(30, true, None)]);
}

#[test]
fn record_contains_the_end_reason() {
    for (state, reason, expected) in [
        (4, 0, "exit"),
        (5, 6, "blocked"),
        (1, 30, "quantum_end"),
        (3, 30, "quantum_end"),
        (7, 30, "quantum_end"),
        (1, 31, "preempted"),
        (1, 32, "preempted"),
        (7, 38, "preempted"),
        (1, 33, "yield"),
        (1, 0, "runnable_other"),
        (0, 0, "unknown"),
        (2, 30, "unknown"),
        (6, 0, "unknown"),
        (9, 0, "unknown"),
    ] {
        let answer = Timeline::windows(1, 100)
            .thread(10)
            .thread(11)
            .cswitch(20, 0, (10, 11), (state, reason))
            .run();
        assert_eq!(answer.slices()[0], format!("10 cpu0 0..20 {expected} <"), "{state} {reason}");
    }
}

// It leaves in a state that no rule names: unknown until the next wakeup or switch-in.
#[test]
fn an_unnamed_state_makes_the_thread_unknown() {
    let timeline = Timeline::windows(1, 100).thread(10).thread(11).cswitch(20, 0, (10, 11), (6, 0));
    let woken =
        timeline.clone().wake(40, 0, "ready", 10, 11).cswitch(50, 0, (11, 10), (WAITING, 0)).run();
    assert_eq!(
        woken.states_of(10)[1..],
        ["unknown 20..40", "ready 40..50 by11", "running 50..100 cpu0 >"]
    );
    let entered = timeline.cswitch(50, 0, (11, 10), (WAITING, 0)).run();
    assert_eq!(entered.states_of(10)[1..], ["unknown 20..50", "running 50..100 cpu0 >"]);
}

#[test]
fn suspended_is_a_reason_of_its_own() {
    for (reason, name) in [(5, "Suspended"), (12, "WrSuspended"), (24, "WrCpuRateControl")] {
        let answer =
            Timeline::windows(1, 100).thread(10).cswitch(20, 0, (10, 0), (WAITING, reason)).run();
        assert_eq!(answer.states_of(10)[1], format!("waiting 20..100 {name} >"));
    }
}

// At 20 the record plans 11; at 50 12 leaves. 12 ran from 20 on, and 11 stayed ready until it was
// switched in at 50.
//
// cpu0  10 |12 (planned: 11) |11 ...
//       0  20                50    100
#[test]
fn thread_that_ran_replaces_the_planned_one() {
    for cuts in [&[][..], &[15, 21, 30, 50, 60], &[45]] {
        let answer = Timeline::windows(1, 100)
            .thread(10)
            .thread(11)
            .thread(12)
            .wake(10, 0, "ready", 11, 10)
            .wake(15, 0, "ready", 12, 10)
            .cswitch(20, 0, (10, 11), (WAITING, 0))
            .cswitch(50, 0, (12, 11), (WAITING, 0))
            .run_cut(cuts);
        assert_eq!(
            answer.states_of(11),
            ["waiting 0..10 <", "ready 10..50 by10", "running 50..100 cpu0 >"]
        );
        assert_eq!(
            answer.states_of(12),
            [
                "waiting 0..15 <",
                "ready 15..20 by10",
                "running 20..50 cpu0",
                "waiting 50..100 Executive >"
            ]
        );
        assert_eq!(
            answer.slices(),
            [
                "10 cpu0 0..20 blocked <",
                "12 cpu0 20..50 blocked ready=5 by10",
                "11 cpu0 50..100 trace_end ready=40 by10 >",
            ]
        );
        assert_eq!(answer.priorities_of(12), [None]);
        assert_eq!(answer.switches(), ["20: 10>12 switch", "50: 12>11 switch p9"]);
        assert_eq!(answer.wakings(), [(10, true, None), (15, true, None)]);
        assert_eq!(answer.losses(), Vec::<String>::new());
        assert_eq!(
            answer.problems(),
            ["1 switch-in that was planned but did not happen: replaced by the thread that ran"]
        );
    }
}

// 11 was planned on cpu0 at 20 and is switched in on cpu1 at 30 instead; 12 ran on cpu0.
#[test]
fn planned_thread_may_be_switched_in_elsewhere() {
    let answer = Timeline::windows(2, 100)
        .thread(10)
        .thread(11)
        .thread(12)
        .wake(10, 0, "ready", 11, 10)
        .wake(15, 0, "ready", 12, 10)
        .cswitch(20, 0, (10, 11), (WAITING, 0))
        .cswitch(30, 1, (1, 11), (READY, 0))
        .cswitch(50, 0, (12, 0), (WAITING, 0))
        .run();
    assert_eq!(
        answer.states_of(11),
        ["waiting 0..10 <", "ready 10..30 by10", "running 30..100 cpu1 >"]
    );
    assert_eq!(answer.states_of(12)[2], "running 20..50 cpu0");
    assert_eq!(answer.losses(), Vec::<String>::new());
}

// The idle thread ran although 11 was planned.
#[test]
fn the_idle_thread_may_have_run_instead() {
    let answer = Timeline::windows(1, 100)
        .thread(10)
        .thread(11)
        .wake(10, 0, "ready", 11, 10)
        .cswitch(20, 0, (10, 11), (WAITING, 0))
        .cswitch(50, 0, (0, 11), (READY, 0))
        .run();
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "idle 20..50", "thread 50..100 11"]);
    assert_eq!(
        answer.states_of(11),
        ["waiting 0..10 <", "ready 10..50 by10", "running 50..100 cpu0 >"]
    );
}

// With a reported gap in between it is loss, not a failed plan.
#[test]
fn reported_gap_makes_it_loss() {
    let answer = Timeline::windows(1, 100)
        .thread(10)
        .thread(11)
        .thread(12)
        .cswitch(20, 0, (10, 11), (WAITING, 0))
        .lost(0, Some(30), Some(40))
        .cswitch(50, 0, (12, 0), (WAITING, 0))
        .run();
    assert_eq!(
        answer.cpu(0),
        [
            "thread 0..20 10",
            "thread 20..30 11",
            "unknown 30..40",
            "thread 40..50 12",
            "idle 50..100"
        ]
    );
    assert!(answer.problems().is_empty());
    assert_eq!(answer.losses(), ["cpu0 30..40 PERF_RECORD_LOST"]);
}

// 12 ran on cpu1 up to 40: it cannot have run on cpu0 since 20.
#[test]
fn a_thread_that_cannot_have_run_there_breaks_the_chain() {
    let answer = Timeline::windows(2, 100)
        .thread(10)
        .thread(11)
        .thread(12)
        .cswitch(20, 0, (10, 11), (WAITING, 0))
        .cswitch(40, 1, (12, 1), (WAITING, 0))
        .cswitch(50, 0, (12, 0), (WAITING, 0))
        .run();
    assert_eq!(answer.losses(), ["cpu0 20..50 chain_break"]);
}

// 11 was switched in on cpu0 at 20 as planned, and left to wait at 30; that record is lost. At 50
// 12 leaves, but 11 was woken at 40, so it has run.
#[test]
fn a_planned_thread_that_is_woken_again_has_run() {
    let timeline = Timeline::windows(2, 100)
        .thread(10)
        .thread(11)
        .thread(12)
        .wake(10, 0, "ready", 11, 10)
        .wake(15, 0, "ready", 12, 10)
        .cswitch(20, 0, (10, 11), (WAITING, 0));
    let before =
        timeline.clone().wake(40, 1, "ready", 11, 1).cswitch(50, 0, (12, 11), (WAITING, 0)).run();
    assert_eq!(before.losses(), ["cpu0 20..50 chain_break"]);
    // The same, but woken only after the next record: it counted as ready until then.
    let after = timeline
        .cswitch(50, 0, (12, 0), (WAITING, 0))
        .wake(60, 1, "ready", 11, 1)
        .cswitch(70, 0, (0, 11), (READY, 0))
        .run();
    assert_eq!(
        after.states_of(11),
        ["waiting 0..10 <", "unknown 10..60 <", "ready 60..70 by1", "running 70..100 cpu0 >"]
    );
}

// 12 waits up to 30: it cannot have been switched in at 20, whoever was planned.
#[test]
fn thread_woken_later_cannot_have_been_switched_in() {
    let answer = Timeline::windows(1, 100)
        .thread(10)
        .thread(12)
        .cswitch(10, 0, (12, 10), (WAITING, 0))
        .cswitch(20, 0, (10, 0), (WAITING, 0))
        .wake(30, 0, "ready", 12, 0)
        .cswitch(50, 0, (12, 0), (WAITING, 0))
        .run();
    assert_eq!(answer.losses(), ["cpu0 20..50 chain_break"]);
    assert_eq!(answer.states_of(12)[1..3], ["waiting 10..20 Executive >", "unknown 20..50 < >"]);
}

// 11 is woken at 25, runs and waits again within the gap on cpu0, and is woken again at 60.
#[test]
fn a_thread_that_a_gap_hid_is_not_ready_all_the_time() {
    let answer = Timeline::windows(2, 100)
        .thread(10)
        .thread(11)
        .cswitch(10, 0, (11, 0), (WAITING, 0))
        .wake(25, 1, "ready", 11, 1)
        .lost(0, Some(20), Some(40))
        .wake(60, 1, "ready", 11, 1)
        .cswitch(70, 0, (0, 11), (READY, 0))
        .run();
    assert_eq!(
        answer.states_of(11),
        [
            "running 0..10 cpu0 <",
            "waiting 10..25 Executive",
            "unknown 25..60 <",
            "ready 60..70 by1",
            "running 70..100 cpu0 >"
        ]
    );
}

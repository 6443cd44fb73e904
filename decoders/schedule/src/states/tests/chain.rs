//! Inconsistent chains of switches, and records that repair them.

use super::timeline::Timeline;
use super::{R, S};

// Each sched_switch is followed by its pair of PERF_RECORD_SWITCH.
#[test]
fn pair_that_duplicates_the_record_before_is_dropped() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 11, S)
        .event(21, 0, Some(10), Some(11), false)
        .switch(40, 0, 11, 0, S)
        .event(41, 0, Some(11), Some(0), false)
        .run();
    assert_eq!(answer.switches(), ["20: 10>11 switch p111", "40: 11>0 switch p100"]);
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "thread 20..40 11", "idle 40..100"]);
    assert_eq!(answer.losses(), Vec::<String>::new());
}

// The tracepoint has no record where the idle thread leaves (0 > 11 at 40); the pair shows it.
//
// cpu0  10 |0----------|11------|0 ...
//       0  20          40       60       100
#[test]
fn pair_without_a_record_is_kept_and_repairs_the_chain() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 0, S)
        .event(21, 0, Some(10), Some(0), false)
        .wake(38, 0, "waking", 11, 0)
        .event(40, 0, Some(0), Some(11), false)
        .switch(60, 0, 11, 0, S)
        .event(61, 0, Some(11), Some(0), false)
        .run();
    assert_eq!(
        answer.switches(),
        ["20: 10>0 switch p100", "40: 0>11 switch_event", "60: 11>0 switch p100"]
    );
    assert_eq!(
        answer.cpu(0),
        ["thread 0..20 10", "idle 20..40", "thread 40..60 11", "idle 60..100"]
    );
    assert_eq!(answer.slices_of(11), ["cpu0 40..60 blocked ready=2 by0"]);
    assert_eq!(answer.losses(), Vec::<String>::new());
    assert!(answer.problems().is_empty());
}

// The same pair twice after one record: the second is a switch of its own and breaks the chain.
#[test]
fn one_record_explains_one_pair() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 11, S)
        .event(21, 0, Some(10), Some(11), false)
        .event(31, 0, Some(10), Some(11), false)
        .run();
    assert_eq!(answer.switches().len(), 2);
    assert_eq!(answer.losses(), ["cpu0 20..31 chain_break"]);
}

// Half a pair matches the record before it in the fields that it has.
#[test]
fn half_a_pair_is_dropped_if_it_matches() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 11, S)
        .event(21, 0, None, Some(11), false)
        .run();
    assert_eq!(answer.switches(), ["20: 10>11 switch p111"]);
}

// 11 is switched in at 20, but 12 leaves at 50: from 20 to 50 the CPU's thread is unknown.
//
// cpu0  10 |11 ???????? 12|0 ...
//       0  20             50    100
#[test]
fn unrepaired_break_is_loss_between_its_two_records() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .thread(12)
        .wake(10, 0, "waking", 11, 10)
        .switch(20, 0, 10, 11, S)
        .switch(50, 0, 12, 0, S)
        .run();
    assert_eq!(answer.losses(), ["cpu0 20..50 chain_break"]);
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "unknown 20..50", "idle 50..100"]);
    assert_eq!(
        answer.slices(),
        [
            "10 cpu0 0..20 blocked <",
            "11 cpu0 20..20 unknown ready=10 by10 >",
            "12 cpu0 50..50 blocked <",
            "0 cpu0 50..100 - >",
        ]
    );
    assert_eq!(
        answer.states_of(11),
        ["waiting 0..10 <", "ready 10..20 by10", "running 20..20 cpu0 >", "unknown 20..100 < >"]
    );
    assert_eq!(
        answer.states_of(12),
        ["unknown 0..50 < >", "running 50..50 cpu0 <", "waiting 50..100 S >"]
    );
    assert_eq!(
        answer.problems(),
        ["1 the thread that leaves is not the one that entered last: taken as loss"]
    );
}

// 11 is seen on cpu1 at 40 while cpu0 still has it; cpu0's next record, at 60, shows the gap.
//
// cpu0  10 |11 ??????????? 12|0
//       0  20              60     100
// cpu1     1 ......... |11 ......
//                      40
#[test]
fn a_thread_seen_elsewhere_had_left_unseen() {
    for cuts in [&[][..], &[30, 45, 61]] {
        let answer = Timeline::linux(2, 100)
            .thread(10)
            .thread(11)
            .thread(12)
            .switch(20, 0, 10, 11, S)
            .switch(40, 1, 1, 11, R)
            .switch(60, 0, 12, 0, S)
            .run_cut(cuts);
        assert_eq!(answer.losses(), ["cpu0 20..60 chain_break"]);
        assert_eq!(
            answer.states_of(11),
            [
                "unknown 0..20 <",
                "running 20..20 cpu0 >",
                "unknown 20..40 < >",
                "running 40..100 cpu1 >"
            ]
        );
        assert_eq!(
            answer.slices_of(11),
            ["cpu0 20..20 unknown >", "cpu1 40..100 trace_end prev=0 >"]
        );
        assert_eq!(answer.cpu(0), ["thread 0..20 10", "unknown 20..60", "idle 60..100"]);
        assert_eq!(answer.cpu(1), ["idle 0..40", "thread 40..100 11"]);
    }
}

// The same, and cpu0 has no further record.
#[test]
fn a_thread_seen_elsewhere_leaves_its_cpu_unknown_to_the_end() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 11, S)
        .switch(40, 1, 1, 11, R)
        .run();
    assert_eq!(answer.losses(), ["cpu0 20..100 stream_end"]);
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "unknown 20..100"]);
    assert_eq!(answer.states_of(11)[1..3], ["running 20..20 cpu0 >", "unknown 20..40 < >"]);
}

// The first record of cpu0 shows 11 leaving, which was created at 30: it did not run there from 0
// on.
#[test]
fn the_first_record_of_a_cpu_may_break_the_chain_too() {
    let answer = Timeline::linux(1, 100).life(11, Some(30), None).switch(50, 0, 11, 0, S).run();
    assert_eq!(answer.losses(), ["cpu0 0..50 chain_break"]);
    assert_eq!(answer.cpu(0), ["unknown 0..50", "idle 50..100"]);
    assert_eq!(
        answer.states_of(11),
        ["unknown 30..50 < >", "running 50..50 cpu0 <", "waiting 50..100 S >"]
    );
}

// A recording of one program's own threads does not name the other threads that run.
#[test]
fn unnamed_threads_make_a_cpu_unknown() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .event(20, 0, None, Some(10), false)
        .event(30, 0, Some(10), None, false)
        .event(60, 0, None, Some(10), false)
        .run();
    assert_eq!(
        answer.cpu(0),
        ["unknown 0..20", "thread 20..30 10", "unknown 30..60", "thread 60..100 10"]
    );
    assert_eq!(
        answer.states_of(10),
        ["unknown 0..20 <", "running 20..30 cpu0", "waiting 30..60", "running 60..100 cpu0 >"]
    );
    assert_eq!(answer.losses(), Vec::<String>::new());
}

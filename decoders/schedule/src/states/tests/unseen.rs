//! What remains known if records are missing, late or only planned.

use super::timeline::Timeline;
use super::{R, S};

const WAITING: i64 = 5;
const READY: i64 = 1;
const MS: i64 = 1_000_000;

// 10 runs on cpu0 when the gap there begins at 30. cpu1 records its wakeup and its next slice while
// the gap is still open.
#[test]
fn a_thread_seen_elsewhere_in_an_open_gap_has_no_failed_plan() {
    for cuts in [&[][..], &[35, 45, 55]] {
        let answer = Timeline::windows(2, 100)
            .thread(10)
            .thread(11)
            .cswitch(20, 0, (0, 10), (READY, 0))
            .lost(0, Some(30), Some(80))
            .wake(40, 1, "ready", 10, 1)
            .cswitch(50, 1, (1, 10), (READY, 0))
            .cswitch(60, 1, (10, 1), (WAITING, 6))
            .cswitch(90, 0, (11, 0), (WAITING, 6))
            .run_cut(cuts);
        assert_eq!(
            answer.slices_of(10),
            ["cpu0 20..30 unknown >", "cpu1 50..60 blocked ready=10 prev=0 by1"]
        );
        assert_eq!(
            answer.states_of(10),
            [
                "unknown 0..20 <",
                "running 20..30 cpu0 >",
                "unknown 30..40 <",
                "ready 40..50 by1",
                "running 50..60 cpu1",
                "waiting 60..100 UserRequest >"
            ]
        );
        assert_eq!(
            answer.cpu(0),
            [
                "idle 0..20",
                "thread 20..30 10",
                "unknown 30..80",
                "thread 80..90 11",
                "idle 90..100"
            ]
        );
        assert!(answer.problems().is_empty());
    }
}

// cpu1 records a switch-in of 10 at 30, but 10 leaves cpu0 only at 50, and 11 leaves cpu1 at 70.
#[test]
fn a_plan_does_not_end_the_slice_of_a_thread_that_runs_elsewhere() {
    let answer = Timeline::windows(2, 100)
        .thread(10)
        .thread(11)
        .cswitch(20, 0, (0, 10), (READY, 0))
        .cswitch(25, 1, (11, 1), (READY, 0))
        .cswitch(30, 1, (1, 10), (READY, 0))
        .cswitch(50, 0, (10, 0), (WAITING, 6))
        .cswitch(70, 1, (11, 1), (WAITING, 6))
        .run();
    assert_eq!(answer.slices_of(10), ["cpu0 20..50 blocked"]);
    assert_eq!(
        answer.cpu(1),
        ["thread 0..25 11", "idle 25..30", "thread 30..70 11", "idle 70..100"]
    );
    assert_eq!(answer.losses(), Vec::<String>::new());
}

// The same, but 10 leaves cpu0 still ready at 50 and cpu1 at 70: it ran there from 50 on.
#[test]
fn a_thread_planned_before_it_left_its_cpu_runs_from_then_on() {
    let answer = Timeline::windows(2, 100)
        .thread(10)
        .cswitch(20, 0, (0, 10), (READY, 0))
        .cswitch(30, 1, (1, 10), (READY, 0))
        .cswitch(50, 0, (10, 0), (READY, 32))
        .cswitch(70, 1, (10, 1), (WAITING, 6))
        .run();
    assert_eq!(
        answer.slices_of(10),
        ["cpu0 20..50 preempted", "cpu1 50..70 blocked ready=0 wait=0 prev=0"]
    );
    assert_eq!(answer.cpu(1), ["idle 0..30", "unknown 30..50", "thread 50..70 10", "idle 70..100"]);
    assert_eq!(answer.losses(), Vec::<String>::new());
}

// 10 is switched in on cpu0 at 100, woken at 400 and switched in on cpu1 at 500; cpu0 has no
// further record.
#[test]
fn the_last_switch_in_of_a_stream_counts_up_to_its_last_record() {
    let answer = Timeline::windows(2, 600)
        .thread(10)
        .wake(60, 0, "ready", 10, 0)
        .cswitch(100, 0, (0, 10), (READY, 0))
        .interrupt(150, 0, 5)
        .wake(400, 1, "ready", 10, 1)
        .cswitch(500, 1, (1, 10), (READY, 0))
        .run();
    assert_eq!(
        answer.states_of(10),
        [
            "waiting 0..60 <",
            "ready 60..100 by0",
            "running 100..150 cpu0 >",
            "unknown 150..400 < >",
            "ready 400..500 by1",
            "running 500..600 cpu1 >"
        ]
    );
    assert_eq!(answer.losses(), ["cpu0 150..600 stream_end"]);
    assert_eq!(answer.cpu(0), ["idle 0..100", "thread 100..150 10", "unknown 150..600"]);
}

// The first record of 10 is a wakeup; the gap hides its slice, as the second wakeup shows.
#[test]
fn a_thread_woken_twice_across_a_gap_is_ready_from_the_second_wakeup() {
    let answer = Timeline::windows(2, 100)
        .thread(10)
        .wake(40, 1, "ready", 10, 1)
        .lost(0, Some(50), Some(60))
        .wake(80, 1, "ready", 10, 1)
        .cswitch(90, 1, (1, 10), (READY, 0))
        .run();
    assert_eq!(
        answer.states_of(10),
        ["waiting 0..40 <", "unknown 40..80 <", "ready 80..90 by1", "running 90..100 cpu1 >"]
    );
    assert_eq!(answer.slices_of(10), ["cpu1 90..100 trace_end ready=10 by1 >"]);
}

// The interrupt begins in the slice of 10 and lasts into idle time.
#[test]
fn an_interrupt_that_lasts_into_idle_time_is_busy_up_to_its_end() {
    let answer =
        Timeline::linux(1, 100).thread(10).interrupt(40, 0, 20).switch(50, 0, 10, 0, S).run();
    assert_eq!(answer.cpu(0), ["thread 0..50 10", "interrupt 50..60", "idle 60..100"]);
    assert_eq!(answer.states_of(10)[0], "running 0..50 cpu0 <");
}

// 10 was planned at 20, but the idle thread ran: the interrupt is in idle time.
#[test]
fn an_interrupt_under_a_corrected_plan_is_busy_time() {
    let answer = Timeline::windows(1, 100)
        .thread(10)
        .thread(11)
        .cswitch(20, 0, (11, 10), (WAITING, 6))
        .interrupt(30, 0, 5)
        .cswitch(50, 0, (0, 10), (READY, 0))
        .run();
    assert_eq!(
        answer.cpu(0),
        ["thread 0..20 11", "idle 20..30", "interrupt 30..35", "idle 35..50", "thread 50..100 10"]
    );
}

// The wakeup precedes the switch-out in the records of cpu0, so the one at 60 starts the ready
// time.
#[test]
fn a_wakeup_before_the_switch_out_of_its_time_belongs_to_the_slice() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .wake(50, 0, "waking", 10, 10)
        .switch(50, 0, 10, 0, S)
        .wake(60, 1, "waking", 10, 11)
        .switch(70, 0, 0, 10, R)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["running 0..50 cpu0 <", "waiting 50..60 S", "ready 60..70 by11", "running 70..100 cpu0 >"]
    );
    // After the switch-out in the records, it ends the wait at once.
    let after = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .switch(50, 0, 10, 0, S)
        .wake(50, 0, "waking", 10, 0)
        .wake(60, 1, "waking", 10, 11)
        .switch(70, 0, 0, 10, R)
        .run();
    assert_eq!(after.states_of(10)[1], "ready 50..70 by0");
}

/// 10 is sent to the idle cpu1 at 2 ms and runs on cpu0 at 9 ms.
fn sent_to_an_idle_cpu() -> Timeline {
    Timeline::linux(3, 20 * MS)
        .thread(10)
        .thread(11)
        .switch(MS, 1, 11, 1, S)
        .migrate(2 * MS, 2, 10, 1)
        .wake(2 * MS, 2, "waking", 10, 2)
        .switch(9 * MS, 0, 0, 10, R)
}

// cpu1 has no record of it.
#[test]
fn an_idle_cpu_without_a_record_of_a_thread_it_was_sent_has_lost_records() {
    let answer = sent_to_an_idle_cpu().switch(12 * MS, 1, 11, 1, S).run();
    assert_eq!(answer.losses(), ["cpu1 1000000..12000000 silent_cpu"]);
    assert_eq!(answer.cpu(1)[1], "unknown 1000000..12000000");
}

// cpu1 switches at the time at which 10 enters cpu0: the end of its idle time is known.
#[test]
fn an_idle_cpu_that_switches_at_the_same_time_is_idle_once() {
    let answer = sent_to_an_idle_cpu().switch(9 * MS, 1, 1, 11, R).run();
    assert_eq!(answer.losses(), Vec::<String>::new());
    assert_eq!(answer.slices_of(1), ["cpu1 1000000..9000000 -"]);
    assert_eq!(
        answer.cpu(1),
        ["thread 0..1000000 11", "idle 1000000..9000000", "thread 9000000..20000000 11"]
    );
}

// The recording has no switches, and a gap between two wakeups of 10: nothing shows what it did
// before, between or after them.
#[test]
fn wakeups_without_switches_show_no_state() {
    let answer = Timeline::windows(2, 100)
        .thread(10)
        .wake(20, 0, "ready", 10, 1)
        .lost(1, Some(30), Some(40))
        .wake(60, 0, "ready", 10, 1)
        .wake(80, 0, "ready", 10, 1)
        .run();
    let states = answer.states_of(10);
    assert!(states.iter().all(|state| state.starts_with("unknown")), "{states:?}");
}

// Windows records an interrupt at its end: one that readied 10 may have lasted into the gap. Its
// start is unknown, but it is later than the end of the interrupt before it.
#[test]
fn idle_time_with_a_record_before_a_gap_may_be_an_interrupt() {
    let answer = Timeline::windows(2, 100)
        .thread(10)
        .cswitch(10, 0, (10, 0), (WAITING, 6))
        .interrupt(20, 0, 5)
        .wake(35, 0, "ready", 10, 0)
        .lost(0, Some(35), Some(50))
        .cswitch(70, 0, (0, 10), (READY, 0))
        .run();
    assert_eq!(
        answer.cpu(0),
        [
            "thread 0..10 10",
            "idle 10..20",
            "interrupt 20..25",
            "unknown 25..50",
            "idle 50..70",
            "thread 70..100 10"
        ]
    );
}

// Without a record since the last interrupt, none had begun.
#[test]
fn idle_time_without_a_record_before_a_gap_is_idle() {
    let answer = Timeline::windows(1, 100)
        .thread(10)
        .cswitch(10, 0, (10, 0), (WAITING, 6))
        .interrupt(20, 0, 5)
        .lost(0, Some(35), Some(50))
        .cswitch(70, 0, (0, 10), (READY, 0))
        .run();
    assert_eq!(
        answer.cpu(0)[..5],
        ["thread 0..10 10", "idle 10..20", "interrupt 20..25", "idle 25..35", "unknown 35..50"]
    );
}

// 10 is never switched in. It is sent to cpu1, which runs 11 afterwards.
fn sent(idle_again: i64) -> Timeline {
    Timeline::linux(2, 50 * MS)
        .thread(10)
        .thread(11)
        .thread(12)
        .switch(2 * MS, 0, 0, 12, R)
        .wake(3 * MS, 0, "waking", 10, 12)
        .migrate(3 * MS + 2, 0, 10, 1)
        .switch(3 * MS + 5, 1, 1, 11, R)
        .switch(idle_again, 1, 11, 1, S)
}

#[test]
fn a_thread_without_a_switch_has_run_when_its_cpu_goes_idle() {
    let answer = sent(40 * MS).run();
    assert_eq!(answer.states_of(10), ["unknown 0..50000000 < >"]);
    assert_eq!(
        answer.problems(),
        ["1 woken thread without a switch, woken again or its CPU idle since: unknown throughout"]
    );
    // The switch may have been under way when the thread was sent there.
    let answer = sent(3 * MS + 500_000).run();
    assert_eq!(answer.states_of(10)[1], "ready 3000000..50000000 by12 >");
    assert!(answer.problems().is_empty());
}

#[test]
fn a_thread_without_a_switch_may_be_ready_elsewhere() {
    // It was moved again, to a CPU that is busy to the end.
    let answer = sent(40 * MS).migrate(20 * MS, 0, 10, 0).run();
    assert_eq!(answer.states_of(10)[1], "ready 3000000..50000000 by12 >");
}

#[test]
fn a_thread_without_a_switch_has_run_if_it_is_woken_again() {
    let busy = || sent(40 * MS).migrate(20 * MS, 0, 10, 0);
    let answer = busy().wake(30 * MS, 0, "waking", 10, 12).run();
    assert_eq!(answer.states_of(10), ["unknown 0..50000000 < >"]);
    // `sched_wakeup` is a second record of the same wakeup.
    let answer = busy().wake(3 * MS + 1, 0, "wakeup", 10, 12).run();
    assert_eq!(answer.states_of(10)[1], "ready 3000000..50000000 by12 >");
}

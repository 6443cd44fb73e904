//! What is known before the first record, and about CPUs and threads without records.

use super::timeline::{Timeline, Value, utid};
use super::{R, S};

// cpu0  10 |10------|S    0
//       0 (begin)   20         100
#[test]
fn cpu_runs_the_outgoing_thread_before_its_first_switch() {
    let answer = Timeline::linux(1, 100).thread(10).switch(20, 0, 10, 0, S).run();
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "idle 20..100"]);
    assert_eq!(answer.states_of(10), ["running 0..20 cpu0 <", "waiting 20..100 S >"]);
    assert_eq!(answer.slices(), ["10 cpu0 0..20 blocked <", "0 cpu0 20..100 - >"]);
    assert_eq!(answer.priorities_of(10), [Some(110)]);
    assert_eq!(answer.priorities_of(0), [Some(100)]);
}

// The window begins at the earliest record of any kind, negative or 0.
#[test]
fn the_window_begins_at_the_earliest_record() {
    let mut timeline = Timeline::linux(1, 100).thread(10).switch(20, 0, 10, 0, S);
    timeline.first = -30;
    let answer = timeline.run();
    assert_eq!(answer.cpu(0), ["thread -30..20 10", "idle 20..100"]);
    assert_eq!(answer.states_of(10), ["running -30..20 cpu0 <", "waiting 20..100 S >"]);
    assert_eq!(answer.slices()[0], "10 cpu0 -30..20 blocked <");
}

// The first record is a switch: it ends an empty slice, which is kept.
#[test]
fn switch_at_the_first_time_ends_an_empty_slice() {
    let answer = Timeline::linux(1, 100).thread(10).switch(0, 0, 10, 0, S).run();
    assert_eq!(answer.slices(), ["10 cpu0 0..0 blocked <", "0 cpu0 0..100 - >"]);
    assert_eq!(answer.states_of(10), ["running 0..0 cpu0 <", "waiting 0..100 S >"]);
    assert_eq!(answer.cpu(0), ["idle 0..100"]);
}

// cpu1 has no record at all.
#[test]
fn a_cpu_without_a_switch_is_unknown() {
    let answer = Timeline::linux(2, 100).thread(10).switch(20, 0, 10, 0, S).run();
    assert_eq!(answer.cpu(1), ["unknown 0..100"]);
}

// An idle record proves the time between its records; the last one lasts to the end.
#[test]
fn cpu_without_a_switch_is_idle_where_idle_records_show_it() {
    let idle = |ts: i64, dur: Option<i64>| {
        let mut row =
            vec![("ts", Value::Long(ts)), ("cpu", Value::Long(1)), ("state", Value::Long(1))];
        row.extend(dur.map(|dur| ("dur", Value::Long(dur))));
        row
    };
    let answer = Timeline::linux(2, 100)
        .row("cpu_idle", idle(20, Some(10)))
        .row("cpu_idle", idle(50, None))
        .run();
    assert_eq!(answer.cpu(1), ["unknown 0..20", "idle 20..30", "unknown 30..50", "idle 50..100"]);
    assert_eq!(answer.cpu(0), ["unknown 0..100"]);
}

// Tables may contain records from before the recording.
#[test]
fn idle_time_before_the_recording_is_left_out() {
    let idle = |cpu, ts, dur| {
        let number = |name, value| (name, Value::Long(value));
        vec![number("ts", ts), number("cpu", cpu), number("state", 1), number("dur", dur)]
    };
    let mut timeline = Timeline::linux(2, 100)
        .row("cpu_idle", idle(0, 10, 60))
        .row("cpu_idle", idle(1, 10, 20))
        .row("cpu_idle", idle(1, 60, 5));
    timeline.first = 50;
    let answer = timeline.run();
    assert_eq!(answer.cpu(0), ["idle 50..70", "unknown 70..100"]);
    assert_eq!(answer.cpu(1), ["unknown 50..60", "idle 60..65", "unknown 65..100"]);
}

// A wakeup proves who ran at its own time only.
#[test]
fn cpu_without_a_switch_is_unknown_despite_wakeups() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(20)
        .wake(30, 1, "waking", 10, 20)
        .wake(40, 1, "waking", 10, 20)
        .run();
    assert_eq!(answer.cpu(1), ["unknown 0..100"]);
    assert_eq!(answer.slices(), Vec::<String>::new());
    assert_eq!(answer.states_of(20), ["unknown 0..100 < >"]);
}

// Step from 10 to 90; 20 grew by 76 of 80 ns (95 %), 21 by 75.
#[test]
fn thread_in_both_snapshots_that_used_the_step_ran_throughout() {
    let answer = Timeline::linux(3, 100)
        .thread(20)
        .thread(21)
        .snapshots(20, 1, (10, 90), 76)
        .snapshots(21, 2, (10, 90), 75)
        .run();
    assert_eq!(answer.slices(), ["20 cpu1 10..90 trace_end < >"]);
    assert_eq!(answer.cpu(1), ["unknown 0..10", "thread 10..90 20", "unknown 90..100"]);
    assert_eq!(answer.cpu(2), ["unknown 0..100"]);
    assert_eq!(
        answer.states_of(20),
        ["unknown 0..10 < >", "running 10..90 cpu1 < >", "unknown 90..100 < >"]
    );
    assert_eq!(answer.states_of(21), ["unknown 0..100 < >"]);
}

// The snapshots are taken outside the recording, so the slice is cut to it.
#[test]
fn a_step_longer_than_the_recording_is_cut() {
    let answer = Timeline::linux(2, 100).thread(20).snapshots(20, 1, (-50, 150), 200).run();
    assert_eq!(answer.slices(), ["20 cpu1 0..100 trace_end < >"]);
    assert_eq!(answer.cpu(1), ["thread 0..100 20"]);
    assert_eq!(answer.states_of(20), ["running 0..100 cpu1 < >"]);
}

// Switches take precedence over snapshots.
#[test]
fn snapshots_are_ignored_for_a_cpu_that_switches() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(20)
        .switch(50, 0, 10, 0, S)
        .snapshots(20, 0, (0, 100), 100)
        .run();
    assert_eq!(answer.states_of(20), ["unknown 0..100 < >"]);
    assert_eq!(answer.cpu(0), ["thread 0..50 10", "idle 50..100"]);
}

#[test]
fn a_thread_without_any_record_is_unknown() {
    let answer = Timeline::linux(1, 100).thread(10).run();
    assert_eq!(answer.states(), ["10 unknown 0..100 < >"]);
}

// cpu0   0------|10 ... ; wakeup of 10 before that
//        0  15  20      100
#[test]
fn wakeup_then_switch_in_means_it_waited() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .wake(15, 0, "waking", 10, 11)
        .switch(20, 0, 0, 10, R)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["waiting 0..15 <", "ready 15..20 by11", "running 20..100 cpu0 >"]
    );
    // The switch-out is before the recording, so the wait is unknown.
    assert_eq!(answer.slices_of(10), ["cpu0 20..100 trace_end ready=5 by11 >"]);
    assert!(answer.problems().is_empty());
}

#[test]
fn wakeup_then_switch_out_means_it_ran() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .wake(15, 0, "waking", 10, 11)
        .switch(20, 0, 10, 0, S)
        .switch(30, 0, 0, 10, R)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["running 0..20 cpu0 <", "ready 20..30 by11", "running 30..100 cpu0 >"]
    );
    assert_eq!(
        answer.slices_of(10),
        ["cpu0 0..20 blocked <", "cpu0 30..100 trace_end ready=10 wait=0 prev=0 by11 >"]
    );
}

#[test]
fn switch_in_without_a_wakeup_means_unknown() {
    let answer = Timeline::linux(1, 100).thread(10).switch(20, 0, 0, 10, R).run();
    assert_eq!(answer.states_of(10), ["unknown 0..20 <", "running 20..100 cpu0 >"]);
    assert_eq!(answer.slices_of(10), ["cpu0 20..100 trace_end >"]);
    assert!(answer.problems().is_empty(), "readiness began before the trace");
}

// What it did before is unknown; after the wakeup it is ready.
#[test]
fn thread_woken_and_never_switched_in_is_ready_to_the_end() {
    let timeline = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .wake(90, 0, "waking", 10, 11)
        .switch(95, 0, 11, 0, S);
    let answer = timeline.clone().run();
    assert_eq!(answer.states_of(10), ["unknown 0..90 < >", "ready 90..100 by11 >"]);
    assert_eq!(answer.wakings(), [(90, true, Some(0))]);
    // It may have run the whole time on a CPU that has no switch.
    let quiet = timeline.wake(96, 1, "waking", 11, 1).run();
    assert_eq!(quiet.states_of(10), ["unknown 0..100 < >"]);
}

// Nothing shows what a thread did after its wakeup.
#[test]
fn without_any_switch_a_new_thread_is_unknown_from_its_wakeup() {
    let answer = Timeline::linux(1, 100)
        .thread(11)
        .life(10, Some(20), None)
        .life(12, Some(20), None)
        .wake(30, 0, "wakeup_new", 10, 11)
        .run();
    assert_eq!(answer.states_of(10), ["new 20..30", "unknown 30..100 < >"]);
    assert_eq!(answer.states_of(12), ["unknown 20..100 < >"]);
}

// cpu1 is offline; cpu2 goes offline at 60.
#[test]
fn a_cpu_that_is_not_online_is_offline() {
    let mut timeline = Timeline::linux(1, 100);
    let row = |cpu: i64, online: bool, from: Option<i64>| {
        let mut row = vec![("cpu", Value::Long(cpu)), ("online", Value::Bool(online))];
        row.extend(from.map(|from| ("valid_from_ns", Value::Long(from))));
        row
    };
    timeline.cpus.push(row(1, false, None));
    timeline.cpus.push(row(2, true, None));
    timeline.cpus.push(row(2, false, Some(60)));
    let answer = timeline.run();
    assert_eq!(answer.cpu(1), ["offline 0..100"]);
    assert_eq!(answer.cpu(2), ["unknown 0..60", "offline 60..100"]);
    assert_eq!(answer.cpus(), [0, 1, 2]);
}

// Its records begin at 40 (a circular buffer): a gap without a start, and thread 10 leaves at 70.
#[test]
fn cpu_whose_records_start_later_is_unknown_before() {
    let answer =
        Timeline::linux(1, 100).thread(10).lost(0, None, Some(40)).switch(70, 0, 10, 0, S).run();
    assert_eq!(answer.cpu(0), ["unknown 0..40", "thread 40..70 10", "idle 70..100"]);
    assert_eq!(
        answer.states_of(10),
        ["unknown 0..40 < >", "running 40..70 cpu0 <", "waiting 70..100 S >"]
    );
    assert_eq!(answer.slices_of(10), ["cpu0 40..70 blocked <"]);
}

#[test]
fn idle_threads_have_no_states() {
    let answer = Timeline::linux(2, 100).run();
    assert_eq!(answer.states(), Vec::<String>::new());
    assert_eq!(utid(0) & 0xffff_ffff, 0);
}

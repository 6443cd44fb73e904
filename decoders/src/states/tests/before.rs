//! What is known before the first record, and of CPUs and threads without any.

use super::scene::{Scene, Value, utid};
use super::{R, S};

// cpu0  10 |10------|S    0
//       0 (begin)   20         100
#[test]
fn before_its_first_switch_a_cpu_runs_the_thread_that_leaves_there() {
    let answer = Scene::linux(1, 100).thread(10).switch(20, 0, 10, 0, S).run();
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "idle 20..100"]);
    assert_eq!(answer.states_of(10), ["running 0..20 cpu0 <", "waiting 20..100 S >"]);
    assert_eq!(answer.slices(), ["10 cpu0 0..20 blocked <", "0 cpu0 20..100 - >"]);
    assert_eq!(answer.priorities_of(10), [Some(110)]);
    assert_eq!(answer.priorities_of(0), [Some(100)]);
}

// The window begins at the earliest record of any kind, negative or 0.
#[test]
fn the_window_begins_at_the_earliest_record() {
    let mut scene = Scene::linux(1, 100).thread(10).switch(20, 0, 10, 0, S);
    scene.first = -30;
    let answer = scene.run();
    assert_eq!(answer.cpu(0), ["thread -30..20 10", "idle 20..100"]);
    assert_eq!(answer.states_of(10), ["running -30..20 cpu0 <", "waiting 20..100 S >"]);
    assert_eq!(answer.slices()[0], "10 cpu0 -30..20 blocked <");
}

// The very first record is a switch: the stay that it ends is empty, and kept.
#[test]
fn a_switch_at_the_first_time_ends_an_empty_stay() {
    let answer = Scene::linux(1, 100).thread(10).switch(0, 0, 10, 0, S).run();
    assert_eq!(answer.slices(), ["10 cpu0 0..0 blocked <", "0 cpu0 0..100 - >"]);
    assert_eq!(answer.states_of(10), ["running 0..0 cpu0 <", "waiting 0..100 S >"]);
    assert_eq!(answer.cpu(0), ["idle 0..100"]);
}

// cpu1 has no record at all.
#[test]
fn a_cpu_without_a_switch_is_unknown() {
    let answer = Scene::linux(2, 100).thread(10).switch(20, 0, 10, 0, S).run();
    assert_eq!(answer.cpu(1), ["unknown 0..100"]);
}

#[test]
fn a_cpu_without_a_switch_is_idle_if_an_idle_record_tells() {
    let row = vec![("ts", Value::Long(50)), ("cpu", Value::Long(1)), ("state", Value::Long(1))];
    let answer = Scene::linux(2, 100).row("cpu_idle", row).run();
    assert_eq!(answer.cpu(1), ["idle 0..100"]);
    assert_eq!(answer.cpu(0), ["unknown 0..100"]);
}

// Wakings written on cpu1 by thread 20 alone: it is the one that runs there.
// Those on cpu2 by two different threads tell nothing, those on cpu3 come from its idle thread.
#[test]
fn a_cpu_without_a_switch_is_what_its_wakings_show() {
    let answer = Scene::linux(4, 100)
        .thread(10)
        .thread(20)
        .thread(21)
        .wake(30, 1, "waking", 10, 20)
        .wake(40, 1, "waking", 10, 20)
        .wake(50, 2, "waking", 10, 20)
        .wake(60, 2, "waking", 10, 21)
        .wake(70, 3, "waking", 10, 3)
        .run();
    assert_eq!(answer.cpu(1), ["thread 0..100 20"]);
    assert_eq!(answer.cpu(2), ["unknown 0..100"]);
    assert_eq!(answer.cpu(3), ["idle 0..100"]);
    assert_eq!(answer.slices(), ["20 cpu1 0..100 trace_end < >"]);
    assert_eq!(answer.states_of(20), ["running 0..100 cpu1 < >"]);
}

// Step from 10 to 90; 20 grew by 76 of 80 ns (95 %), 21 by 75.
#[test]
fn a_thread_that_both_snapshots_show_and_that_used_the_step_ran_throughout() {
    let answer = Scene::linux(3, 100)
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

// The snapshots are read outside the recording: the stay is cut to it.
#[test]
fn a_step_longer_than_the_recording_is_cut() {
    let answer = Scene::linux(2, 100).thread(20).snapshots(20, 1, (-50, 150), 200).run();
    assert_eq!(answer.slices(), ["20 cpu1 0..100 trace_end < >"]);
    assert_eq!(answer.cpu(1), ["thread 0..100 20"]);
    assert_eq!(answer.states_of(20), ["running 0..100 cpu1 < >"]);
}

// A CPU that switches is told by its switches, whatever the snapshots say.
#[test]
fn snapshots_do_not_tell_about_a_cpu_that_switches() {
    let answer = Scene::linux(1, 100)
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
    let answer = Scene::linux(1, 100).thread(10).run();
    assert_eq!(answer.states(), ["10 unknown 0..100 < >"]);
}

// cpu0   0------|10 ... ; waking of 10 before that
//        0  15  20      100
#[test]
fn a_waking_then_a_switch_in_means_it_waited() {
    let answer = Scene::linux(1, 100)
        .thread(10)
        .thread(11)
        .wake(15, 0, "waking", 10, 11)
        .switch(20, 0, 0, 10, R)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["waiting 0..15 <", "ready 15..20 cpu0 by11", "running 20..100 cpu0 >"]
    );
    // The switch-out lies before the recording, so the wait is not known.
    assert_eq!(answer.slices_of(10), ["cpu0 20..100 trace_end ready=5 by11 >"]);
    assert!(answer.problems().is_empty());
}

#[test]
fn a_waking_then_a_switch_out_means_it_ran() {
    let answer = Scene::linux(1, 100)
        .thread(10)
        .thread(11)
        .wake(15, 0, "waking", 10, 11)
        .switch(20, 0, 10, 0, S)
        .switch(30, 0, 0, 10, R)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["running 0..20 cpu0 <", "ready 20..30 cpu0 by11", "running 30..100 cpu0 >"]
    );
    assert_eq!(
        answer.slices_of(10),
        ["cpu0 0..20 blocked <", "cpu0 30..100 trace_end ready=10 wait=0 prev=0 by11 >"]
    );
}

#[test]
fn a_switch_in_without_a_waking_means_unknown() {
    let answer = Scene::linux(1, 100).thread(10).switch(20, 0, 0, 10, R).run();
    assert_eq!(answer.states_of(10), ["unknown 0..20 <", "running 20..100 cpu0 >"]);
    assert_eq!(answer.slices_of(10), ["cpu0 20..100 trace_end >"]);
    assert!(answer.problems().is_empty(), "readiness began before the trace");
}

// Woken, and never seen to enter or to leave: it may have run all the time.
#[test]
fn a_thread_of_which_only_wakings_are_seen_is_unknown() {
    let answer = Scene::linux(1, 100)
        .thread(10)
        .thread(11)
        .wake(90, 0, "waking", 10, 11)
        .switch(95, 0, 11, 0, S)
        .run();
    assert_eq!(answer.states_of(10), ["unknown 0..100 < >"]);
    assert_eq!(answer.wakings(), [(90, false, Some(0))]);
}

// cpu1 is offline; cpu2 goes offline at 60.
#[test]
fn a_cpu_that_is_not_online_is_offline() {
    let mut scene = Scene::linux(1, 100);
    let row = |cpu: i64, online: bool, from: Option<i64>| {
        let mut row = vec![("cpu", Value::Long(cpu)), ("online", Value::Bool(online))];
        row.extend(from.map(|from| ("valid_from_ns", Value::Long(from))));
        row
    };
    scene.cpus.push(row(1, false, None));
    scene.cpus.push(row(2, true, None));
    scene.cpus.push(row(2, false, Some(60)));
    let answer = scene.run();
    assert_eq!(answer.cpu(1), ["offline 0..100"]);
    assert_eq!(answer.cpu(2), ["unknown 0..60", "offline 60..100"]);
    assert_eq!(answer.cpus(), [0, 1, 2]);
}

// Its stream begins at 40 (a circular buffer): a gap without a begin, and thread 10 leaves at 70.
#[test]
fn a_cpu_whose_stream_begins_later_is_unknown_before() {
    let answer =
        Scene::linux(1, 100).thread(10).lost(0, None, Some(40)).switch(70, 0, 10, 0, S).run();
    assert_eq!(answer.cpu(0), ["unknown 0..40", "thread 40..70 10", "idle 70..100"]);
    assert_eq!(
        answer.states_of(10),
        ["unknown 0..40 < >", "running 40..70 cpu0 <", "waiting 70..100 S >"]
    );
    assert_eq!(answer.slices_of(10), ["cpu0 40..70 blocked <"]);
}

#[test]
fn idle_threads_have_no_states() {
    let answer = Scene::linux(2, 100).run();
    assert_eq!(answer.states(), Vec::<String>::new());
    assert_eq!(utid(0) & 0xffff_ffff, 0);
}

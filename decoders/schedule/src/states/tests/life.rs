//! Start and end of a thread's life.

use super::timeline::Timeline;
use super::{R, S, X, Z};

#[test]
fn a_life_starts_new_at_its_creation() {
    let answer =
        Timeline::linux(1, 100).thread(10).life(20, Some(30), None).switch(50, 0, 10, 0, S).run();
    assert_eq!(answer.states_of(20), ["new 30..100 >"]);
}

// Exit record at 40; it runs on and leaves in state X or Z at 50.
#[test]
fn life_ends_at_the_last_switch_out_in_state_x_or_z() {
    for state in [X, Z] {
        let answer = Timeline::linux(1, 100)
            .life(10, None, Some(40))
            .thread(11)
            .wake(45, 0, "waking", 11, 10)
            .switch(50, 0, 10, 0, state)
            .run();
        assert_eq!(answer.states_of(10), ["running 0..50 cpu0 <"]);
        assert_eq!(answer.slices()[0], "10 cpu0 0..50 exit <");
    }
}

// PERF_RECORD_SWITCH shows only that it was not preempted.
#[test]
fn without_states_a_life_ends_at_the_last_switch_out_after_the_exit_record() {
    let timeline = Timeline::linux(1, 100).life(10, None, Some(40));
    let answer = timeline.event(50, 0, Some(10), Some(0), false).run();
    assert_eq!(answer.states_of(10), ["running 0..50 cpu0 <"]);
}

// Created while its CPU lost records, so it was not waiting before.
#[test]
fn thread_first_seen_at_wakeup_new_is_unknown_before() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .wake(30, 0, "wakeup_new", 10, 0)
        .switch(40, 0, 0, 10, R)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["unknown 0..30 <", "ready 30..40 by0", "running 40..100 cpu0 >"]
    );
}

// A switch-out in state Z that is not the last one: the life continues.
#[test]
fn thread_seen_after_a_zombie_switch_out_lives_on() {
    let answer = Timeline::linux(1, 100)
        .life(10, None, Some(40))
        .switch(50, 0, 10, 0, Z)
        .switch(60, 0, 0, 10, R)
        .switch(70, 0, 10, 0, X)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["running 0..50 cpu0 <", "waiting 50..60 Z", "running 60..70 cpu0"]
    );
}

#[test]
fn without_such_a_switch_it_ends_at_its_exit_record_if_nothing_follows() {
    let answer = Timeline::linux(1, 100).life(10, None, Some(40)).switch(20, 0, 10, 0, S).run();
    assert_eq!(answer.states_of(10), ["running 0..20 cpu0 <", "waiting 20..40 S"]);
}

// Its last switch-out comes after the record of its exit.
#[test]
fn without_any_switch_it_may_run_on_after_its_exit_record() {
    let answer = Timeline::linux(1, 200_000_000).life(10, None, Some(40)).run();
    assert_eq!(answer.states_of(10), ["unknown 0..100000040 <"]);
    let answer = Timeline::linux(1, 100).life(10, None, Some(40)).run();
    assert_eq!(answer.states_of(10), ["unknown 0..100 <"]);
}

#[test]
fn otherwise_a_life_ends_with_the_trace() {
    let answer = Timeline::linux(1, 100)
        .life(10, None, Some(40))
        .switch(20, 0, 10, 0, S)
        .wake(60, 0, "waking", 10, 0)
        .run();
    assert_eq!(
        answer.states_of(10),
        ["running 0..20 cpu0 <", "waiting 20..60 S", "ready 60..100 by0 >"]
    );
    // It still runs when the recording ends.
    let answer = Timeline::linux(1, 100).life(10, None, Some(40)).switch(20, 0, 0, 10, R).run();
    assert_eq!(answer.states_of(10), ["unknown 0..20 <", "running 20..100 cpu0 >"]);
}

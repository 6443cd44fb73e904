//! The CPU to which a wakeup sent its thread.

use super::timeline::Timeline;
use super::{R, S};

fn asleep() -> Timeline {
    Timeline::linux(3, 100).thread(10).thread(11).switch(20, 0, 10, 0, S)
}

#[test]
fn wakeup_target_is_the_first_migration_before_the_switch_in() {
    let answer = asleep()
        .wake(30, 0, "waking", 10, 11)
        .migrate(31, 0, 10, 2)
        .migrate(32, 0, 10, 1)
        .switch(35, 1, 1, 10, R)
        .migrate(40, 0, 10, 0)
        .run();
    assert_eq!(answer.wakings(), [(30, true, Some(2))]);
    assert_eq!(answer.states_of(10)[2], "ready 30..35 by11");
    assert_eq!(answer.slices_of(10)[1], "cpu1 35..100 trace_end ready=5 wait=10 prev=0 by11 >");
}

#[test]
fn without_a_migration_the_target_is_the_last_cpu() {
    let answer =
        asleep().migrate(25, 0, 10, 2).wake(30, 0, "waking", 10, 11).switch(35, 1, 1, 10, R).run();
    assert_eq!(answer.wakings(), [(30, true, Some(0))]);
}

// A second wakeup changes nothing, but it too precedes the migration.
#[test]
fn ineffective_wakeup_gets_a_target_too() {
    let answer = asleep()
        .wake(28, 0, "waking", 10, 11)
        .wake(30, 0, "waking", 10, 11)
        .migrate(31, 0, 10, 2)
        .wake(33, 0, "waking", 10, 11)
        .switch(35, 2, 2, 10, R)
        .run();
    assert_eq!(answer.wakings(), [(28, true, Some(2)), (30, false, Some(2)), (33, false, Some(0))]);
}

#[test]
fn sched_wakeup_and_wakeup_new_carry_their_own_cpu() {
    let answer = Timeline::linux(3, 100)
        .thread(10)
        .life(20, Some(10), None)
        .wake(14, 0, "wakeup_new", 20, 10)
        .migrate(15, 0, 20, 2)
        .switch(20, 0, 10, 20, S)
        .wake(30, 0, "wakeup", 10, 20)
        .migrate(31, 0, 10, 2)
        .switch(35, 1, 1, 10, R)
        .run();
    assert_eq!(answer.wakings(), [(14, true, Some(1)), (30, true, Some(1))]);
}

// The thread waits for its switch-in across chunks: the row of its wakeup has been written by then.
#[test]
fn result_known_after_the_batch_was_written_is_a_correction() {
    let timeline = asleep()
        .wake(30, 0, "waking", 10, 11)
        .wake(32, 0, "waking", 11, 10)
        .migrate(60, 0, 10, 2)
        .switch(80, 2, 2, 10, R);
    let whole = timeline.run();
    assert_eq!(whole.corrections(), 0);
    let cut = timeline.run_cut(&[31, 40, 50, 70]);
    assert_eq!(cut.corrections(), 1);
    assert_eq!(cut.wakings(), whole.wakings());
    assert_eq!(cut.wakings(), [(30, true, Some(2)), (32, false, Some(0))]);
}

//! Gaps that the recording reports.

use super::answer::Answer;
use super::timeline::{Row, Timeline, batch};
use super::{R, S, laws};
use crate::chunk::Chunk;
use crate::states::{End, StateMachine};

// cpu0  10 |11 ......| ????????? | 11 ....|0
//       0  20        30         50        70   100
#[test]
fn gap_separates_slices_even_of_the_same_thread() {
    for cuts in [&[][..], &[25, 35, 50, 51, 60]] {
        let answer = Timeline::linux(1, 100)
            .thread(10)
            .thread(11)
            .switch(20, 0, 10, 11, S)
            .lost(0, Some(30), Some(50))
            .switch(70, 0, 11, 0, S)
            .run_cut(cuts);
        assert_eq!(
            answer.slices(),
            [
                "10 cpu0 0..20 blocked <",
                "11 cpu0 20..30 unknown >",
                "11 cpu0 50..70 blocked prev=0 <",
                "0 cpu0 70..100 - >",
            ]
        );
        assert_eq!(
            answer.cpu(0),
            [
                "thread 0..20 10",
                "thread 20..30 11",
                "unknown 30..50",
                "thread 50..70 11",
                "idle 70..100"
            ]
        );
        assert_eq!(
            answer.states_of(11),
            [
                "unknown 0..20 <",
                "running 20..30 cpu0 >",
                "unknown 30..50 < >",
                "running 50..70 cpu0 <",
                "waiting 70..100 S >"
            ]
        );
        assert_eq!(answer.losses(), ["cpu0 30..50 PERF_RECORD_LOST"]);
        assert!(answer.problems().is_empty());
    }
}

// 12 leaves after the gap, so it was switched in inside it. It was waiting when the gap began.
#[test]
fn thread_switched_in_inside_a_gap_is_unknown_from_its_start() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .thread(12)
        .switch(5, 1, 12, 1, S)
        .switch(20, 0, 10, 11, S)
        .lost(0, Some(30), Some(50))
        .switch(70, 0, 12, 0, S)
        .run();
    assert_eq!(
        answer.states_of(12),
        [
            "running 0..5 cpu1 <",
            "waiting 5..30 S >",
            "unknown 30..50 < >",
            "running 50..70 cpu0 <",
            "waiting 70..100 S >"
        ]
    );
    assert_eq!(answer.slices_of(12)[1], "cpu0 50..70 blocked prev=1 <");
    // 11 was running when the gap began.
    assert_eq!(
        answer.states_of(11),
        ["unknown 0..20 <", "running 20..30 cpu0 >", "unknown 30..100 < >"]
    );
}

// It was ready since 25 when the gap began at 30.
#[test]
fn thread_ready_at_the_start_of_a_gap_is_unknown_from_there() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .thread(12)
        .switch(5, 1, 12, 1, S)
        .switch(20, 0, 10, 11, S)
        .wake(25, 1, "waking", 12, 1)
        .lost(0, Some(30), Some(50))
        .wake(60, 1, "waking", 12, 1)
        .switch(70, 0, 12, 0, S)
        .switch(90, 1, 1, 12, R)
        .run();
    assert_eq!(
        answer.states_of(12),
        [
            "running 0..5 cpu1 <",
            "waiting 5..25 S",
            "ready 25..30 by1 >",
            "unknown 30..50 < >",
            "running 50..70 cpu0 <",
            "ready 70..90 by1",
            "running 90..100 cpu1 >"
        ]
    );
    assert_eq!(answer.wakings(), [(25, true, Some(0)), (60, true, Some(0))]);
}

// 11 was running when the gap began; it is woken at 60 and switched in on cpu1 at 65.
#[test]
fn thread_running_into_a_gap_is_unknown_until_its_next_wakeup() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 11, S)
        .lost(0, Some(30), Some(50))
        .wake(60, 1, "waking", 11, 1)
        .switch(65, 1, 1, 11, R)
        .switch(80, 0, 0, 10, R)
        .run();
    assert_eq!(
        answer.states_of(11),
        [
            "unknown 0..20 <",
            "running 20..30 cpu0 >",
            "unknown 30..60 <",
            "ready 60..65 by1",
            "running 65..100 cpu1 >"
        ]
    );
    assert_eq!(answer.slices_of(11)[1], "cpu1 65..100 trace_end ready=5 prev=0 by1 >");
    assert_eq!(answer.cpu(0)[2..4], ["unknown 30..50", "idle 50..80"]);
}

#[test]
fn thread_running_into_a_gap_is_unknown_until_its_next_switch_in() {
    let answer = Timeline::linux(2, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 11, S)
        .lost(0, Some(30), Some(50))
        .switch(65, 1, 1, 11, R)
        .run();
    assert_eq!(
        answer.states_of(11),
        ["unknown 0..20 <", "running 20..30 cpu0 >", "unknown 30..65 <", "running 65..100 cpu1 >"]
    );
    assert_eq!(answer.slices_of(11)[1], "cpu1 65..100 trace_end prev=0 >");
}

// A wakeup inside the gap, written on another CPU, also ends the unknown time.
#[test]
fn wakeup_on_another_cpu_inside_the_gap_counts() {
    for cuts in [&[][..], &[35, 45]] {
        let answer = Timeline::linux(2, 100)
            .thread(10)
            .thread(11)
            .switch(20, 0, 10, 11, S)
            .wake(25, 1, "waking", 11, 1)
            .wake(40, 1, "waking", 11, 1)
            .wake(42, 1, "waking", 11, 1)
            .lost(0, Some(30), Some(50))
            .switch(65, 1, 1, 11, R)
            .switch(80, 0, 0, 10, R)
            .run_cut(cuts);
        assert_eq!(
            answer.states_of(11)[2..],
            ["unknown 30..40 <", "ready 40..65 by1", "running 65..100 cpu1 >"]
        );
        assert_eq!(answer.wakings().iter().map(|w| w.1).collect::<Vec<_>>(), [false, true, false]);
    }
}

// Two gaps with no record between them: the time between is unknown too.
#[test]
fn gaps_without_a_record_between_them_are_one() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .switch(20, 0, 0, 10, R)
        .lost(0, Some(30), Some(40))
        .lost(0, Some(45), Some(50))
        .switch(70, 0, 10, 0, S)
        .run();
    assert_eq!(
        answer.cpu(0),
        ["idle 0..20", "thread 20..30 10", "unknown 30..50", "thread 50..70 10", "idle 70..100"]
    );
}

// A gap without an end lasts to the end of the recording.
#[test]
fn gap_without_an_end_lasts_to_the_end_of_the_trace() {
    let answer =
        Timeline::linux(1, 100).thread(10).switch(20, 0, 0, 10, R).lost(0, Some(30), None).run();
    assert_eq!(answer.cpu(0), ["idle 0..20", "thread 20..30 10", "unknown 30..100"]);
    assert_eq!(
        answer.states_of(10),
        ["unknown 0..20 <", "running 20..30 cpu0 >", "unknown 30..100 < >"]
    );
}

// A broken chain inside a reported gap belongs to that gap.
#[test]
fn reported_gap_explains_a_broken_chain() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 0, 10, R)
        .lost(0, Some(30), Some(40))
        .switch(70, 0, 11, 0, S)
        .run();
    assert_eq!(answer.losses(), ["cpu0 30..40 PERF_RECORD_LOST"]);
}

// Idle time before a gap ends with it.
#[test]
fn idle_time_is_cut_by_a_gap() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .switch(20, 0, 10, 0, S)
        .lost(0, Some(30), Some(50))
        .switch(70, 0, 0, 10, R)
        .run();
    assert_eq!(
        answer.cpu(0),
        ["thread 0..20 10", "idle 20..30", "unknown 30..50", "idle 50..70", "thread 70..100 10"]
    );
    assert_eq!(answer.slices_of(0), ["cpu0 20..30 - >", "cpu0 50..70 - <"]);
}

// A gap on an unknown CPU cuts nothing; its row only appears in `loss`.
#[test]
fn gap_without_a_cpu_is_passed_on() {
    let mut timeline =
        Timeline::linux(1, 100).thread(10).switch(20, 0, 10, 0, S).lost(0, Some(30), Some(50));
    if let Some((_, row)) = timeline.tables.last_mut() {
        row.retain(|(name, _)| *name != "cpu");
    }
    let answer = timeline.run();
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "idle 20..100"]);
    assert_eq!(answer.losses(), ["cpu? 30..50 PERF_RECORD_LOST"]);
}

// The gap before the switch at 50 is reported after that switch.
#[test]
fn gap_reported_late_changes_nothing_before_the_last_switch() {
    let timeline = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 11, S)
        .switch(50, 0, 11, 10, S)
        .lost(0, Some(10), Some(30));
    let (losses, switches): (Vec<_>, Vec<_>) =
        timeline.tables.iter().cloned().partition(|(table, _)| *table == "loss");
    let rows = |rows: Vec<(&str, Row)>| -> Vec<Row> { rows.into_iter().map(|row| row.1).collect() };
    let threads = batch("thread", &timeline.threads);
    let mut machine = StateMachine::new(timeline.settings.clone());
    let mut outputs = Vec::new();
    for (until_ns, table, rows) in
        [(60, "context_switch", rows(switches)), (i64::MAX, "loss", rows(losses))]
    {
        let batches = vec![("thread", threads.clone()), (table, batch(table, &rows))];
        outputs.extend(machine.push(&Chunk { batches, until_ns }).expect("push"));
    }
    let cpus = batch("cpu", &timeline.cpus);
    let end = End { first_ns: 0, last_ns: 100, threads, cpus, snapshot_thread: None };
    outputs.extend(machine.finish(&end).expect("finish"));
    let answer = Answer { outputs };
    laws::check(&timeline, &answer);
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "thread 20..50 11", "unknown 50..100"]);
}

// Only the switch-outs of 10 are recorded: nothing shows when 0 and 11 leave, or when 10 returns.
//
// cpu0  ......10|0        ?10|11       ?10|0       ?10|0.......
//       0      20         50           70          80         100
#[test]
fn a_cpu_is_unknown_between_the_switch_outs_of_chosen_threads() {
    let mut timeline = Timeline::linux(1, 100)
        .thread(10)
        .thread(11)
        .switch(20, 0, 10, 0, S)
        .switch(50, 0, 10, 11, S)
        .switch(70, 0, 10, 0, S)
        .switch(80, 0, 10, 0, S);
    let answer = timeline.run();
    assert_eq!(answer.cpu(0), ["unknown 0..20", "unknown 20..100"]);
    let lost = answer.losses();
    assert_eq!(lost.last().map(String::as_str), Some("cpu0 80..100 stream_end"));
    assert_eq!(answer.states_of(10)[0], "unknown 0..20 < >");
    // If perf says that it recorded all threads, it lost their switches: 10 ran first.
    timeline.settings.of_chosen_threads = Some(false);
    let answer = timeline.run();
    assert_eq!(answer.cpu(0)[0], "thread 0..20 10");
    assert_eq!(answer.states_of(10)[0], "running 0..20 cpu0 <");
}

// As above, and perf says that it recorded only chosen threads: a single switch-out is enough.
#[test]
fn whoever_follows_a_chosen_thread_is_not_known_to_run() {
    let mut timeline = Timeline::linux(1, 100).thread(10).thread(11).switch(20, 0, 10, 11, S);
    timeline.settings.of_chosen_threads = Some(true);
    let answer = timeline.run();
    assert_eq!(answer.cpu(0), ["unknown 0..20", "unknown 20..100"]);
    assert_eq!(
        answer.states_of(11),
        ["unknown 0..20 <", "running 20..20 cpu0 >", "unknown 20..100 < >"]
    );
}

// 10 exits at 30, where the gap begins: it may run up to the end of the gap.
#[test]
fn a_thread_that_exits_before_a_gap_may_run_in_it() {
    let answer = Timeline::linux(1, 100)
        .life(10, Some(5), Some(30))
        .switch(20, 0, 0, 10, R)
        .lost(0, Some(30), Some(50))
        .switch(70, 0, 0, 11, R)
        .thread(11)
        .run();
    assert_eq!(answer.states_of(10), ["new 5..20", "running 20..30 cpu0 >", "unknown 30..50 <"]);
}

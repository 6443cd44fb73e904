//! Input that no recorder writes.

use super::schedule::hostile;
use super::timeline::{Timeline, Value, utid};
use super::{R, S};

#[test]
fn any_numbers_give_an_answer() {
    for seed in 0..600 {
        let timeline = hostile(seed, 60);
        let whole = timeline.run();
        let cut = timeline.run_cut(&[10, 50, 90, 130]);
        for answer in [whole, cut] {
            for cpu in answer.cpus() {
                let lines = answer.cpu(cpu);
                assert!(!lines.is_empty());
            }
        }
    }
}

#[test]
fn threads_of_another_recording_are_unknown_threads() {
    let foreign = |row: &mut Vec<(&'static str, Value)>, column: &str| {
        for (name, value) in row.iter_mut() {
            if *name == column {
                *value = Value::Long(12);
            }
        }
    };
    let mut timeline =
        Timeline::linux(1, 100).thread(10).switch(20, 0, 10, 11, S).switch(50, 0, 11, 10, S);
    foreign(&mut timeline.tables[0].1, "next_utid");
    foreign(&mut timeline.tables[1].1, "prev_utid");
    let answer = timeline.run();
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "unknown 20..50", "thread 50..100 10"]);
    assert_eq!(
        answer.problems(),
        [
            "1 switch-in without a waking since the switch-out: \
             how long it was ready is unknown",
            "2 thread number of another recording or out of range: treated as unknown",
        ]
    );
}

#[test]
fn record_earlier_than_the_previous_one_gets_its_time() {
    let timeline =
        Timeline::linux(1, 100).thread(10).switch(20, 0, 10, 0, S).switch(50, 0, 0, 10, R);
    let mut late = timeline.clone();
    // The first chunk ends after the second switch; the second contains a wakeup at 30.
    late = late.wake(30, 0, "waking", 10, 0);
    let whole = late.run();
    assert!(whole.problems().is_empty());
    let mut machine_sees = late.clone();
    if let Some((_, row)) = machine_sees.tables.last_mut() {
        row.retain(|(name, _)| *name != "ts");
        row.push(("ts", Value::Long(30)));
    }
    machine_sees.tables.swap(1, 2);
    assert_eq!(machine_sees.run().slices(), whole.slices());
    assert_eq!(utid(10) - utid(0), 10);
}

#[test]
fn cpus_out_of_range_are_ignored() {
    let answer = Timeline::linux(1, 100)
        .thread(10)
        .switch(20, 0, 10, 0, S)
        .switch(30, -4, 0, 10, R)
        .switch(40, 65_536, 0, 10, R)
        .run();
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "idle 20..100"]);
    assert_eq!(answer.problems(), ["2 CPU number out of range: record left out of the states"]);
}

// The same switch twice: the chain breaks at the second one.
#[test]
fn a_record_twice_breaks_the_chain() {
    let answer =
        Timeline::linux(1, 100).thread(10).switch(20, 0, 10, 0, S).switch(20, 0, 10, 0, S).run();
    assert_eq!(answer.losses(), ["cpu0 20..20 chain_break"]);
    assert_eq!(answer.cpu(0), ["thread 0..20 10", "idle 20..100"]);
}

#[test]
fn no_input_at_all_gives_an_answer() {
    let answer = Timeline::linux(0, 0).run();
    assert_eq!(answer.slices(), Vec::<String>::new());
    assert_eq!(answer.states(), Vec::<String>::new());
}

// A batch without a column is the caller's mistake, and the error says so.
#[test]
fn a_missing_column_is_named() {
    let batch =
        arrow_array::RecordBatch::new_empty(std::sync::Arc::new(arrow_schema::Schema::empty()));
    let mut machine = super::super::StateMachine::new(Timeline::linux(1, 0).settings);
    let chunk = crate::chunk::Chunk { batches: vec![("context_switch", batch)], until_ns: 0 };
    let error = machine.push(&chunk).expect_err("no column");
    assert_eq!(error.to_string(), "context_switch: column ts is missing");
}

// The number of a thread may be any below 4 million. It makes no others.
#[test]
fn threads_out_of_order_are_those_in_order() {
    let asked = |threads: [i64; 3]| {
        let [a, b, c] = threads;
        let mut timeline = Timeline::linux(2, 200).thread(c).thread(a).thread(b);
        timeline = timeline.switch(20, 0, 0, a, R).switch(30, 0, a, b, S).switch(40, 1, 1, c, R);
        timeline = timeline.wake(50, 0, "waking", a, b).switch(60, 0, b, a, S);
        // With two idle threads.
        assert_eq!(timeline.push_cut(&[]).0.threads.len(), 5);
        let answer = timeline.run();
        assert!(answer.problems().is_empty());
        threads.map(|thread| answer.states_of(thread))
    };
    let same = |states: [Vec<String>; 3]| {
        let plain = |line: String| line.split(" by").next().unwrap_or_default().to_owned();
        states.map(|lines| lines.into_iter().map(plain).collect::<Vec<_>>())
    };
    let ordered = same(asked([2, 3, 4]));
    for threads in [[4, 3, 2], [4_000_000, 3, 2], [3, 4_000_000, 4_194_303]] {
        assert_eq!(same(asked(threads)), ordered, "{threads:?}");
    }
}

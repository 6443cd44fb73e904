//! Buffers are in any order in the file; records are returned in time order.

use super::built::{Built, log, merged, plain, scanned};
use crate::{Chosen, Log};

#[test]
fn buffers_of_several_cpus_are_merged_by_time() {
    //        1000  1010  1020  1030  1040
    // CPU 0: ..a0....a1....a2..            flushed first; the buffer before it comes last
    // CPU 1: ....b0....b1......b2..
    let scan = scanned(plain(&[
        Built::new(0, 3, &[1_040, 1_050]),
        Built::new(1, 2, &[1_005, 1_015, 1_040]),
        Built::new(0, 1, &[1_001, 1_010, 1_020]),
    ]));
    let expected = [
        (1_001, 0, 5),
        (1_005, 1, 2),
        (1_010, 0, 6),
        (1_015, 1, 3),
        (1_020, 0, 7),
        (1_040, 0, 0),
        (1_040, 1, 4),
        (1_050, 0, 1),
    ];
    assert_eq!(merged(&scan), expected);
    assert_eq!(scan.window(), Some((1_000, 1_050)));
    assert_eq!((scan.records(), scan.cpus()), (9, vec![0, 1]));
    assert_eq!(scan.problems().count(), 0);
}

#[test]
fn at_equal_times_cpu_sequence_and_position_decide() {
    let scan = scanned(plain(&[
        Built::new(2, 1, &[1_010, 1_010]),
        Built::new(0, 3, &[1_010, 1_010]),
        Built::new(0, 2, &[1_009, 1_010]),
        Built::new(1, 4, &[1_010]),
    ]));
    let numbers: Vec<u32> = merged(&scan).into_iter().map(|(_, _, number)| number).collect();
    assert_eq!(numbers, [4, 5, 2, 3, 6, 0, 1]);
}

#[test]
fn buffers_of_a_cpu_that_overlap_in_time_are_merged_too() {
    let scan = scanned(plain(&[
        Built::new(0, 1, &[1_010, 1_030, 1_050]),
        Built::new(0, 2, &[1_020, 1_040, 1_060]),
    ]));
    let times: Vec<i64> = merged(&scan).into_iter().map(|(ts, _, _)| ts).collect();
    assert_eq!(times, [1_010, 1_020, 1_030, 1_040, 1_050, 1_060]);
}

#[test]
fn unordered_buffer_is_sorted_and_reported() {
    let scan = scanned(plain(&[
        Built::new(0, 1, &[1_030, 1_010, 1_020, 1_010]),
        Built::new(1, 2, &[1_015]),
    ]));
    let found = merged(&scan);
    let expected = [(1_010, 0, 1), (1_010, 0, 3), (1_015, 1, 4), (1_020, 0, 2), (1_030, 0, 0)];
    assert_eq!(found, expected);
    let problems: Vec<&str> = scan.problems().map(|(_, what, _)| what).collect();
    assert_eq!(problems, ["a buffer whose records are not in time order"]);
}

#[test]
fn records_of_mixed_buffers_have_no_processor() {
    let buffers = [Built::new(0, 1, &[1_030, 1_010]), Built::new(1, 2, &[1_015])];
    let scan = scanned(log(1 << 28, true, 0, &buffers));
    let cpus: Vec<u16> = merged(&scan).into_iter().map(|(_, cpu, _)| cpu).collect();
    assert_eq!(cpus, [u16::MAX; 3]);
    assert_eq!(scan.problems().count(), 0);
    assert!(scan.cpus().is_empty());
}

#[test]
fn buffer_order_changes_nothing() {
    // Times with ties across CPUs, three buffers per CPU.
    let mut buffers = Vec::new();
    for cpu in 0..4_u16 {
        for part in 0..3_i64 {
            let times: Vec<i64> = (0..15)
                .map(|n| 1_000 + (part * 15 + n) * (3 + i64::from(cpu) % 2) + i64::from(cpu) / 2)
                .collect();
            buffers.push(Built::new(cpu, part * 4 + i64::from(cpu) + 1, &times));
        }
    }
    let order = |buffers: &[Built]| -> Vec<(i64, u16)> {
        merged(&scanned(plain(buffers))).into_iter().map(|(ts, cpu, _)| (ts, cpu)).collect()
    };
    let first = order(&buffers);
    let mut expected: Vec<(i64, u16)> =
        buffers.iter().flat_map(|built| built.times.iter().map(|ts| (*ts, built.cpu))).collect();
    expected.sort_unstable();
    assert_eq!(first, expected);
    buffers.reverse();
    assert_eq!(order(&buffers), first);
    buffers.rotate_left(5);
    assert_eq!(order(&buffers), first);
}

#[test]
fn only_chosen_records_are_shown() {
    let bytes = plain(&[Built::new(0, 1, &[1_010, 1_020])]);
    let mut seen = Vec::new();
    let log = Log::from_bytes("built", bytes).expect("a log");
    let scan = log.scan(&Chosen::of([0x532], []), |record| seen.push(record.ts), |_| true);
    assert_eq!(seen, [1_010, 1_020]);
    let none = Chosen::of([0x524], []);
    assert!(scan.merge(&none).next_record().is_none());
    assert_eq!(scan.records(), 3);
}

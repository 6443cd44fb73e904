//! Damaged buffers: the readable rest is read, and the damage is reported.

use super::built::{BUFFER, Built, merged, plain, scanned};
use crate::{Chosen, Gap, Log, Scan};

fn problems(scan: &Scan) -> Vec<(String, String, i64)> {
    scan.problems().map(|(place, what, n)| (place.to_owned(), what.to_owned(), n)).collect()
}

#[test]
fn records_after_a_damaged_one_are_read() {
    let mut bytes = plain(&[Built::new(0, 1, &[1_010, 1_020, 1_030, 1_040])]);
    // The second record of the second buffer.
    let at = BUFFER + 0x48 + 24;
    bytes[at..at + 8].fill(0xff);
    let scan = scanned(bytes);
    let times: Vec<i64> = merged(&scan).into_iter().map(|(ts, _, _)| ts).collect();
    assert_eq!(times, [1_010, 1_030, 1_040]);
    let place = "buffer 1 at 0x200, offset 0x60".to_owned();
    assert_eq!(problems(&scan), [(place, "bytes that are no record".to_owned(), 1)]);
    let gap = Gap {
        cpu: Some(0),
        start: Some(1_010),
        end: Some(1_030),
        events: None,
        signalled_by: "damaged",
    };
    assert_eq!(scan.gaps(), [gap]);
}

#[test]
fn implausible_time_is_rejected() {
    let mut bytes = plain(&[Built::new(0, 1, &[1_010, 1_020, 1_030])]);
    let at = BUFFER + 0x48 + 24 + 8;
    bytes[at + 7] = 0x7f;
    let scan = scanned(bytes);
    let times: Vec<i64> = merged(&scan).into_iter().map(|(ts, _, _)| ts).collect();
    assert_eq!(times, [1_010, 1_030]);
    assert_eq!(problems(&scan)[0].1, "a record with an impossible time");
}

#[test]
fn a_cut_off_buffer_is_read_as_far_as_it_goes() {
    let mut bytes =
        plain(&[Built::new(0, 1, &[1_010, 1_020]), Built::new(1, 2, &[1_015, 1_025, 1_035])]);
    bytes.truncate(2 * BUFFER + 0x48 + 24 + 10);
    let scan = scanned(bytes);
    let times: Vec<i64> = merged(&scan).into_iter().map(|(ts, _, _)| ts).collect();
    assert_eq!(times, [1_010, 1_015, 1_020]);
    let whats: Vec<String> = problems(&scan).into_iter().map(|(_, what, _)| what).collect();
    assert_eq!(
        whats,
        ["a buffer that the end of the file cuts off", "a record whose size cannot be"]
    );
    assert!(scan.gaps().iter().any(|gap| gap.cpu == Some(1)
        && gap.start == Some(1_015)
        && gap.end.is_none()
        && gap.signalled_by == "truncated"));
}

#[test]
fn problems_of_one_kind_are_a_few_rows_with_the_full_count() {
    let buffers: Vec<Built> = (1..60).map(|n| Built::new(0, n, &[1_000 + n])).collect();
    let mut bytes = plain(&buffers);
    for number in 1..60 {
        bytes[number * BUFFER + 0x48] = 9;
        bytes[number * BUFFER + 0x48 + 2] = 99;
    }
    let scan = scanned(bytes);
    assert_eq!(scan.records(), 1);
    let rows = problems(&scan);
    assert_eq!(rows.len(), 16);
    assert_eq!(rows.iter().map(|(_, _, count)| count).sum::<i64>(), 59);
}

#[test]
fn a_header_without_a_clock_is_refused() {
    let mut bytes = plain(&[]);
    let frequency = 0x48 + 32 + 256;
    bytes[frequency..frequency + 8].fill(0);
    let error = Log::from_bytes("built", bytes).err().map(|error| error.to_string());
    let line = error.expect("refused");
    assert!(line.contains("no frequency"), "{line}");
}

#[test]
fn reading_stops_on_request() {
    let bytes = plain(&[Built::new(0, 1, &[1_010])]);
    let log = Log::from_bytes("built", bytes).expect("a log");
    assert_eq!(log.scan(&Chosen::none(), |_| {}, |_| false).records(), 0);
}

#[test]
fn buffers_that_unpack_far_too_large_are_skipped() {
    // 16 MiB of zeros from a few bytes, repeatedly.
    let mut file = plain(&[]);
    let want = 16_u32 << 20;
    let body = [0, 0, 0, 0x40, 0, 7, 0, 0x0f, 0xff, 0, 0, 0xfc, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
    for sequence in 1..200_u64 {
        let mut header = vec![0; 0x48];
        header[0..4].copy_from_slice(&(0x48 + body.len() as u32).to_le_bytes());
        header[0x18..0x20].copy_from_slice(&sequence.to_le_bytes());
        header[0x30..0x34].copy_from_slice(&(want + 0x48).to_le_bytes());
        header[0x34] = 0x60;
        file.extend(header);
        file.extend(body);
    }
    let scan = scanned(file);
    let refused = "a packed buffer that unpacks far too large: skipped";
    let rows = problems(&scan);
    let count: i64 = rows.iter().filter(|row| row.1 == refused).map(|row| row.2).sum();
    // 64 MiB and 200 times the file of 19 kB is four of them.
    assert_eq!(count, 195);
}

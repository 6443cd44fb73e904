//! Compares the reader with the crate `linux-perf-data`: the same recordings must give the same
//! records.
//!
//! That crate cannot read folders of `--threads`, pipe mode (0.13 takes the payload of
//! `TRACING_DATA` for records), and files that were cut off or whose recorder was killed;
//! `tests/decoders/test_perf_data.py` compares these with perf's own text. It does not read
//! tracepoint formats either, so this file contains the field offsets of the fixtures' kernels.

use std::collections::{BTreeMap, HashMap};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{RecordBatch, StringArray};
use linux_perf_data::linux_perf_event_reader::{AttrFlags, EventRecord};
use linux_perf_data::{AttributeDescription, PerfFileReader, PerfFileRecord};
use schedlens_loader::perf::Chunks;
use schedlens_perf_data::Recording;
use schedlens_schedule::batcher::Batcher;

const COMM: u32 = 3;
const COMM_EXEC: u16 = 1 << 13;
const SAMPLE: u32 = 9;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;

/// A switch: ns since the first sample or switch, CPU, threads, state and priorities.
type Switch = (i64, i32, i64, i64, i64, i64, i64);

#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    /// Kernel records by event or kind.
    counts: BTreeMap<String, i64>,
    switches: Vec<Switch>,
}

fn unpacked(name: &str) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../fixtures/perf/{name}.perf.data.xz"));
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let target = folder.join(format!("{name}.perf.data"));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(packed).expect("a fixture");
    lzma_rs::xz_decompress(&mut BufReader::new(file), &mut bytes).expect("unpacks");
    std::fs::write(&target, bytes).expect("written");
    target
}

fn by_the_crate(path: &Path) -> Contents {
    let reader = BufReader::new(std::fs::File::open(path).expect("opens"));
    let found = PerfFileReader::parse_file(reader);
    let PerfFileReader { mut perf_file, mut record_iter } = found.expect("the crate reads it");
    let mut names = Vec::new();
    let mut contents = Contents::default();
    let mut first = u64::MAX;
    let mut on_exec = false;
    let mut switches = Vec::new();
    while let Some(record) = record_iter.next_record(&mut perf_file).expect("a record") {
        let PerfFileRecord::EventRecord { attr_index, record } = record else { continue };
        if names.is_empty() {
            let attrs = perf_file.event_attributes().iter();
            names = attrs.map(|a| AttributeDescription::name(a).map(str::to_owned)).collect();
            let attrs = perf_file.event_attributes().iter();
            on_exec =
                attrs.map(|a| a.attributes().flags).any(|f| f.contains(AttrFlags::ENABLE_ON_EXEC));
        }
        // perf records that threads appear before it enables the events.
        let starts_program =
            record.record_type.0 == COMM && record.misc & COMM_EXEC != 0 && on_exec;
        if starts_program || [SAMPLE, SWITCH, SWITCH_CPU_WIDE].contains(&record.record_type.0) {
            first = first.min(record.timestamp().unwrap_or(u64::MAX));
        }
        let EventRecord::Sample(sample) = record.parse().expect("parses") else {
            *contents.counts.entry(kind_name(record.record_type.0)).or_default() += 1;
            continue;
        };
        let name = names[attr_index].clone().expect("a name");
        *contents.counts.entry(name.clone()).or_default() += 1;
        if name == "sched:sched_switch" {
            let raw = sample.raw.expect("raw data");
            let raw = raw.as_slice();
            let word = |at: usize| i32::from_le_bytes(raw[at..at + 4].try_into().expect("4"));
            let long = i64::from_le_bytes(raw[32..40].try_into().expect("8"));
            let (prev, next) = (i64::from(word(24)), i64::from(word(56)));
            let (prev_prio, next_prio) = (i64::from(word(28)), i64::from(word(60)));
            let (ts, cpu) = (sample.timestamp.expect("a time"), sample.cpu.expect("a CPU"));
            switches.push((ts, cpu as i32, prev, next, long, prev_prio, next_prio));
        }
    }
    let since = |ts: u64| ts.wrapping_sub(first).cast_signed();
    let moved = switches.into_iter().map(|(ts, a, b, c, d, e, f)| (since(ts), a, b, c, d, e, f));
    contents.switches = moved.collect();
    contents.switches.sort_unstable();
    contents
}

/// perf's name for a record kind that occurs in the fixtures.
fn kind_name(kind: u32) -> String {
    let name = match kind {
        1 => "MMAP",
        2 => "LOST",
        3 => "COMM",
        4 => "EXIT",
        7 => "FORK",
        10 => "MMAP2",
        13 => "LOST_SAMPLES",
        14 => "SWITCH",
        15 => "SWITCH_CPU_WIDE",
        16 => "NAMESPACES",
        17 => "KSYMBOL",
        18 => "BPF_EVENT",
        19 => "CGROUP",
        other => panic!("record {other} is new to the fixtures"),
    };
    format!("PERF_RECORD_{name}")
}

fn by_the_reader(path: &Path) -> Contents {
    let recording = Recording::open(path).expect("opens");
    let batcher = Batcher::new(1);
    // Small chunks, so that the boundaries between them are tested too.
    let mut chunks = Chunks::new(&recording, &batcher, 1, HashMap::new(), 64);
    let mut tables: Vec<RecordBatch> = Vec::new();
    while let Some(chunk) = chunks.next_chunk(|_| true).expect("a chunk") {
        tables.extend(chunk.batch("context_switch").cloned());
    }
    let finished = chunks.finish().expect("the end");
    let table = |name: &str| {
        let found = finished.batches.iter().find(|(table, _)| *table == name);
        found.map(|(_, batch)| batch.clone()).expect("a table")
    };
    let threads = table("thread");
    let tids: HashMap<i64, i64> =
        longs(&threads, "utid").into_iter().zip(longs(&threads, "tid")).collect();
    let mut contents = Contents::default();
    let counts = table("record_count");
    let names = counts.column_by_name("record").expect("record").as_string::<i32>();
    for (name, count) in names.iter().flatten().zip(longs(&counts, "count")) {
        if count > 0 && !is_of_the_recorder(name) {
            contents.counts.insert(name.to_owned(), count);
        }
    }
    for batch in &tables {
        let words = batch.column_by_name("source").expect("source").as_dictionary::<UInt8Type>();
        let source = words.downcast_dict::<StringArray>().expect("words");
        let of_samples: Vec<bool> = source.into_iter().map(|word| word == Some("switch")).collect();
        let (ts, cpu) = (longs(batch, "ts"), ints(batch, "cpu"));
        let (prev, next) = (longs(batch, "prev_utid"), longs(batch, "next_utid"));
        let state = ints(batch, "prev_state");
        let (from, to) = (ints(batch, "prev_priority"), ints(batch, "next_priority"));
        for row in (0..batch.num_rows()).filter(|row| of_samples[*row]) {
            contents.switches.push((
                ts[row],
                cpu[row],
                tids[&prev[row]],
                tids[&next[row]],
                state[row].into(),
                from[row].into(),
                to[row].into(),
            ));
        }
    }
    contents.switches.sort_unstable();
    contents
}

fn longs(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch.column_by_name(name).expect(name).as_primitive::<Int64Type>().values().to_vec()
}

fn ints(batch: &RecordBatch, name: &str) -> Vec<i32> {
    batch.column_by_name(name).expect(name).as_primitive::<Int32Type>().values().to_vec()
}

/// Records that perf itself wrote; the crate consumes some of them.
fn is_of_the_recorder(name: &str) -> bool {
    let names = [
        "HEADER_ATTR",
        "EVENT_TYPE",
        "TRACING_DATA",
        "BUILD_ID",
        "FINISHED_ROUND",
        "ID_INDEX",
        "THREAD_MAP",
        "CPU_MAP",
        "EVENT_UPDATE",
        "TIME_CONV",
        "FEATURE",
        "COMPRESSED",
        "FINISHED_INIT",
        "COMPRESSED2",
    ];
    name.strip_prefix("PERF_RECORD_").is_some_and(|kind| names.contains(&kind))
}

#[test]
fn both_readers_find_the_same_records_in_each_recording() {
    // Switches by perf's own count (fixtures/MANIFEST.json).
    let fixtures = [
        ("plain", 285),
        ("zstd", 263),
        ("own_tree", 79),
        ("no_sched", 0),
        ("switch_only", 0),
        ("loss", 4565),
        ("sched_yield", 190),
        ("host_plain", 104),
        ("host_own_tree", 83),
    ];
    for (name, switches) in fixtures {
        let path = unpacked(name);
        let (theirs, ours) = (by_the_crate(&path), by_the_reader(&path));
        assert_eq!(ours.counts, theirs.counts, "{name}");
        assert_eq!(ours.switches.len(), switches, "{name}");
        assert_eq!(ours.switches, theirs.switches, "{name}");
    }
}

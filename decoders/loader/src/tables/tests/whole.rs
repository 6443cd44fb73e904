//! Intact folders: every row, in chunks of any length.

use super::*;

// Small batches and chunks, so that slices, waits, and gaps cross their borders.
#[test]
fn folder_gives_every_row_of_its_recording_in_small_chunks() {
    let home = tempfile::tempdir().expect("folder");
    for name in ["plain", "loss", "counters", "sched_yield", "switch_only"] {
        let recording = Recording::open(&fixture(name, home.path())).expect("opened");
        let batcher = Batcher::new(1);
        let mut chunks = recording.chunks(&batcher, 1, Default::default());
        let cpus = recording.cpu_batch(&batcher).expect("cpus");
        let expected = answers(&recording, chunks.as_mut(), cpus).expect("read");
        let window = chunks.finish().expect("finished");
        let window = (window.first_ns.expect("first"), window.last_ns.expect("last"));
        let mut tables = base_tables(&recording);
        // An empty table says that its events were recorded, and a missing one that they were not.
        if !recording.has_wakings() {
            tables.remove("wakeup");
        }
        if !recording.has_yields() {
            tables.remove("sched_yield");
        }
        let folder = home.path().join(format!("{name} tables"));
        write_folder(&folder, &tables, window, 67);
        for chunk_rows in [101, 1 << 18] {
            let found = answers_of_folder(&folder, chunk_rows).expect("read");
            assert!(found["sched_slice"].len() > 100, "{name}");
            for table in expected.keys().chain(found.keys()) {
                assert!(expected.get(table) == found.get(table), "{name} {table} {chunk_rows}");
            }
        }
    }
}

#[test]
fn rows_of_equal_time_are_never_split() {
    let home = tempfile::tempdir().expect("folder");
    let recording = Recording::open(&fixture("plain", home.path())).expect("opened");
    let mut tables = base_tables(&recording);
    for table in ["context_switch", "wakeup"] {
        let rows = tables.remove(table).expect("recorded");
        let (schema, mut columns, _) = rows.into_parts();
        let ts = schema.index_of("ts").expect("declared");
        let times: &Int64Array = columns[ts].as_any().downcast_ref().expect("times");
        let whole = |ts: i64| ts / 2_000_000 * 2_000_000;
        columns[ts] = std::sync::Arc::new(Int64Array::from_iter_values(
            times.values().iter().map(|ts| whole(*ts)),
        ));
        tables.insert(table, RecordBatch::try_new(schema, columns).expect("declared"));
    }
    write_folder(home.path(), &tables, (0, 0), 1000);
    let whole = answers_of_folder(home.path(), 1 << 18).expect("read");
    assert!(whole == answers_of_folder(home.path(), 7).expect("read"));
}

#[test]
fn chunk_ends_where_every_table_is_known() {
    let home = tempfile::tempdir().expect("folder");
    write_folder(home.path(), &small_tables(&[1, 2, 2, 2, 2, 3, 4]), (0, 9), 2);
    let folder = Folder::open(home.path()).expect("opened");
    let batcher = Batcher::new(1);
    let mut chunks = Chunks::new(&folder, &batcher, 2);
    let mut ends = Vec::new();
    let mut reached = Vec::new();
    let mut note = |read| {
        reached.push(read);
        true
    };
    while let Some(chunk) = chunks.next_chunk(&mut note).expect("chunk") {
        let rows = chunk.batch("context_switch").map_or(0, RecordBatch::num_rows);
        ends.push((chunk.until_ns, rows));
    }
    assert_eq!(ends, [(i64::MIN, 0), (2, 1), (3, 4), (4, 1), (i64::MAX, 1)]);
    assert_eq!(reached, [2, 3, 7, 8, 9]);
    let finished = chunks.finish().expect("finished");
    assert_eq!((finished.first_ns, finished.last_ns), (Some(0), Some(9)));
}

#[test]
fn reused_thread_id_is_found_by_time() {
    let home = tempfile::tempdir().expect("folder");
    let mut tables = small_tables(&[1]);
    let columns = tables["thread"].columns().to_vec();
    let schema = tables["thread"].schema();
    let mut columns = columns;
    let place = |name| schema.index_of(name).expect("declared");
    columns[place("tid")] = std::sync::Arc::new(Int64Array::from(vec![7, 7]));
    columns[place("start_ns")] = std::sync::Arc::new(Int64Array::from(vec![None, Some(50)]));
    tables.insert("thread", RecordBatch::try_new(schema, columns).expect("declared"));
    write_folder(home.path(), &tables, (0, 9), 10);
    let folder = Folder::open(home.path()).expect("opened");
    let batcher = Batcher::new(5);
    let mut chunks = Chunks::new(&folder, &batcher, 10);
    while chunks.next_chunk(&mut |_| true).expect("chunk").is_some() {}
    let (first, second) = (5 << 32, (5 << 32) + 1);
    assert_eq!(chunks.utid_at(7, None), Some(first));
    assert_eq!(chunks.utid_at(7, Some(49)), Some(first));
    assert_eq!(chunks.utid_at(7, Some(50)), Some(second));
    assert_eq!(chunks.utid_at(8, None), None);
}

#[test]
fn clock_in_ticks_becomes_ns_of_the_session() {
    let home = tempfile::tempdir().expect("folder");
    write_folder(home.path(), &small_tables(&[1]), (0, 9), 10);
    let manifest = json!({
        "format": "schedlens-tables", "format_version": 1, "source": "etw",
        "trace": {"start_clock": 1_u64 << 40, "clock_hz": 10_000_000, "clock_name": "qpc"},
        "tables": {"cpu": 1, "thread": 2, "context_switch": 1},
    });
    std::fs::write(home.path().join("tables.json"), manifest.to_string()).expect("written");
    let folder = Folder::open(home.path()).expect("opened");
    assert_eq!(folder.source(), Source::Etw);
    assert_eq!(folder.session_ns(), (1 << 40) * 100);
    assert_eq!(folder.clock_name(), "qpc");
}

// The state machine tiles the window, so lives and losses outside it would break its sums.
#[test]
fn window_extends_to_lives_and_losses() {
    let home = tempfile::tempdir().expect("folder");
    let batcher = Batcher::new(1);
    let times = |time: i64| {
        let mut column = Column::default();
        column.push(time);
        column.array()
    };
    let mut tables = small_tables(&[1, 2, 3]);
    let mut signs = Words::default();
    signs.push(Some("damaged"));
    let signs = signs.array().expect("few words");
    let columns = vec![("start_ns", times(-77)), ("end_ns", times(-5)), ("signalled_by", signs)];
    tables.insert("loss", batcher.batch("loss", 1, columns).expect("declared"));
    let mut is_idle = Column::default();
    is_idle.push(false);
    let columns = vec![
        ("utid", times(1 << 32)),
        ("tid", times(7)),
        ("end_ns", times(40)),
        ("is_idle", is_idle.array()),
    ];
    tables.insert("thread", batcher.batch("thread", 1, columns).expect("declared"));
    for (window, expected) in [((1, 3), (-77, 40)), ((-100, 50), (-100, 50))] {
        write_folder(home.path(), &tables, window, 2);
        let folder = Folder::open(home.path()).expect("opened");
        let mut chunks = Chunks::new(&folder, &batcher, 2);
        while chunks.next_chunk(&mut |_| true).expect("chunk").is_some() {}
        let finished = chunks.finish().expect("finished");
        assert_eq!((finished.first_ns, finished.last_ns), (Some(expected.0), Some(expected.1)));
    }
}

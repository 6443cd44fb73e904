//! The driver: reads a recording and runs the state machine, producing finished batches.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::{Array, Int32Array, RecordBatch, StringArray};
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::{Batches, Chunk, Output};
use schedlens_schedule::states::{End, Settings, StateMachine};

use crate::background::{THREAD_NAME, without_panic};
use crate::cpu_versions;
use crate::error::DecodeError;
use crate::open::open;
use crate::reader::{ChunkSource, Reader, TraceFacts};
use crate::session;
use crate::stacks::Sources;

/// Maximum number of batches waiting to be consumed, so that reading continues while one table is
/// written.
const WAITING_BATCHES: usize = 32;
/// Tables of a chunk that the state machine emits itself.
const THROUGH_THE_MACHINE: [&str; 4] = ["context_switch", "wakeup", "loss", "thread"];
const NS_PER_S: i64 = 1_000_000_000;

/// What to load.
#[derive(Debug)]
pub struct Request {
    /// The recording: a file or folder, or the files of one Windows recording.
    pub paths: Vec<PathBuf>,
    /// Its number in the database.
    pub trace_id: i64,
    /// Tables of the session by name. Times are raw, and threads may be identified by `tid`.
    pub context: BTreeMap<String, RecordBatch>,
    /// The session's `samples.bin`.
    pub samples: Option<PathBuf>,
    /// Where names of functions are looked for.
    pub symbols: Sources,
    /// Name of the step or of the file.
    pub label: String,
}

/// Progress of a load, shared with its caller.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    all: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// From 0 to 1.
    pub fn share(&self) -> f64 {
        let all = self.all.load(Ordering::Relaxed);
        if all == 0 {
            return 0.0;
        }
        (self.read.load(Ordering::Relaxed) as f64 / all as f64).min(1.0)
    }

    /// Requests the load to stop.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_wanted(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }
}

/// A load that runs in a separate thread.
#[derive(Debug)]
pub struct Load {
    /// Finished batches. An error is the last item.
    pub batches: Receiver<Result<Output, DecodeError>>,
    /// Its progress.
    pub progress: Arc<Progress>,
    thread: JoinHandle<()>,
}

impl Load {
    /// Starts loading.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(request: Request) -> Result<Self, DecodeError> {
        let (sender, batches) = sync_channel(WAITING_BATCHES);
        let progress = Arc::new(Progress::default());
        let seen = Arc::clone(&progress);
        let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
            let ended = without_panic(|| load(&request, &sender, &seen));
            if let Err(error) = ended {
                // The receiver is gone, so nobody can receive the error.
                let _ = sender.send(Err(error));
            }
        })?;
        Ok(Self { batches, progress, thread })
    }

    /// Stops loading, finished or not.
    pub fn close(self) {
        self.progress.stop();
        drop(self.batches);
        // A panic has already been turned into an error.
        let _ = self.thread.join();
    }
}

/// Sends batches; notes when the receiver is gone.
struct Sink<'a> {
    sender: &'a SyncSender<Result<Output, DecodeError>>,
    open: bool,
}

impl Sink<'_> {
    fn send(&mut self, table: &'static str, batch: RecordBatch) {
        if self.open && batch.num_rows() > 0 {
            self.open = self.sender.send(Ok(Output { table, batch })).is_ok();
        }
    }

    fn send_all(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            self.send(output.table, output.batch);
        }
    }
}

fn load(
    request: &Request,
    sender: &SyncSender<Result<Output, DecodeError>>,
    progress: &Progress,
) -> Result<(), DecodeError> {
    let recording = open(&request.paths, |read, all| {
        progress.all.store(2 * all.max(1), Ordering::Relaxed);
        progress.read.store(read, Ordering::Relaxed);
        progress.is_wanted()
    })?;
    if !progress.is_wanted() {
        return Ok(());
    }
    // If there is a first pass, it is half of the work.
    let before = progress.read.load(Ordering::Relaxed);
    progress.all.store(before + recording.extent().max(1), Ordering::Relaxed);
    let batcher = Batcher::new(request.trace_id);
    let mut sink = Sink { sender, open: true };
    let session = Session { request, session_ns: recording.session_ns() };
    let cpus = match session.without_threads("cpu")? {
        Some(cpus) => cpus,
        None => recording.cpu_batch(&batcher)?,
    };
    let mut machine = StateMachine::new(Settings {
        trace_id: request.trace_id,
        source: recording.source(),
        tick_ns: tick_ns(session.without_threads("machine_setting")?, recording.as_ref()),
        yields_recorded: recording.has_yields(),
        has_wakings: recording.has_wakings(),
        of_chosen_threads: recording.of_chosen_threads(),
    });
    let mut chunks = recording.chunks(&batcher, request.trace_id, core_types(&cpus));
    chunks.generated_code(&request.symbols.perf_maps);
    let mut on_progress = |read: u64| {
        progress.read.store(before + read, Ordering::Relaxed);
        progress.is_wanted()
    };
    while let Some(chunk) = chunks.next_chunk(&mut on_progress)? {
        sink.send_all(machine.push(&chunk)?);
        hand_on(chunk, &mut sink);
        if !sink.open || !progress.is_wanted() {
            return Ok(());
        }
    }
    let finished = chunks.finish()?;
    let cpus = cpu_versions::with_offline(&cpus, &finished.offline)?;
    let threads = finished.batches.iter().find(|(table, _)| *table == "thread");
    let threads = threads
        .map(|(_, batch)| batch.clone())
        .ok_or_else(|| DecodeError::Internal { what: "missing table thread".to_owned() })?;
    let context = session.tables(chunks.as_ref())?;
    let snapshot = context.iter().find(|(table, _)| *table == "snapshot_thread");
    sink.send_all(machine.finish(&End {
        first_ns: finished.first_ns.unwrap_or_default(),
        last_ns: finished.last_ns.unwrap_or_default(),
        threads,
        cpus: cpus.clone(),
        snapshot_thread: snapshot.map(|(_, batch)| batch.clone()),
    })?);
    let path: Vec<_> = request.paths.iter().map(|path| path.to_string_lossy()).collect();
    let facts = TraceFacts {
        label: &request.label,
        path: &path.join(" + "),
        window: (finished.first_ns, finished.last_ns),
        events_lost: finished.events_lost,
    };
    sink.send("trace", recording.trace_batch(&batcher, facts)?);
    sink.send("cpu", cpus);
    for (table, batch) in finished.batches.into_iter().chain(context) {
        sink.send(table, batch);
    }
    if let Some(stacks) = finished.stacks {
        for (table, batch) in stacks.resolve(&request.symbols).batches(&batcher)? {
            sink.send(table, batch);
        }
    }
    session.send_samples(&batcher, &mut sink)?;
    session.compare_clocks(recording.clock_name(), &batcher, &mut sink)?;
    progress.read.store(before + recording.extent(), Ordering::Relaxed);
    Ok(())
}

/// What the session folder adds to the recording.
struct Session<'a> {
    request: &'a Request,
    /// Its clock at ns 0 of the recording.
    session_ns: i64,
}

impl Session<'_> {
    fn shift(&self) -> (i64, i64) {
        (self.request.trace_id, self.session_ns)
    }

    /// A table without threads: it can be converted before any thread is known.
    fn without_threads(&self, table: &str) -> Result<Option<RecordBatch>, DecodeError> {
        let given = self.request.context.get(table);
        given.map(|batch| session::rows(table, batch, self.shift(), |_, _| None)).transpose()
    }

    /// All tables but `cpu`, once all chunks are read.
    fn tables(&self, chunks: &dyn ChunkSource) -> Result<Batches, DecodeError> {
        let mut found = Vec::new();
        for (table, batch) in self.request.context.iter().filter(|(table, _)| *table != "cpu") {
            let Some(name) = declared_name(table) else {
                return Err(DecodeError::Context {
                    table: table.clone(),
                    what: "this table is not declared".to_owned(),
                });
            };
            let utid = |tid, ts| chunks.utid_at(tid, ts);
            found.push((name, session::rows(table, batch, self.shift(), utid)?));
        }
        Ok(found)
    }

    fn send_samples(&self, batcher: &Batcher, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
        let Some(samples) = &self.request.samples else { return Ok(()) };
        let (batch, torn) = session::run_samples(&std::fs::read(samples)?, self.shift())?;
        sink.send("run_sample", batch);
        if torn > 0 {
            let what = "the last batch in samples.bin is cut off";
            sink.send("problem", batcher.problem("samples.bin", what, 1)?);
        }
        Ok(())
    }

    /// Reports times of the session that do not join those of the recording.
    fn compare_clocks(
        &self,
        clock: &str,
        batcher: &Batcher,
        sink: &mut Sink<'_>,
    ) -> Result<(), DecodeError> {
        // A description of the machine has no times.
        let has_times = self.request.context.keys().any(|table| table != "cpu");
        // On Windows a session uses the clock of the trace itself.
        if has_times && !matches!(clock, "monotonic" | "qpc") {
            let what = format!(
                "times of the session are CLOCK_MONOTONIC, those of the recording are {clock}: \
                 they do not join, record with -k CLOCK_MONOTONIC"
            );
            sink.send("problem", batcher.problem("clock", &what, 1)?);
        }
        Ok(())
    }
}

/// Length of a scheduler tick, from the settings of the machine or from the recording.
fn tick_ns(settings: Option<RecordBatch>, recording: &dyn Reader) -> Option<i64> {
    settings
        .and_then(|settings| setting(&settings, "hz")?.parse().ok())
        .or_else(|| recording.tick_hz())
        .and_then(|hz| NS_PER_S.checked_div(hz))
        .filter(|tick| *tick > 0)
}

fn hand_on(chunk: Chunk, sink: &mut Sink<'_>) {
    for (table, batch) in chunk.batches {
        if !THROUGH_THE_MACHINE.contains(&table) {
            sink.send(table, batch);
        }
    }
}

/// The static name of a declared table.
fn declared_name(table: &str) -> Option<&'static str> {
    schedlens_schedule::schema::tables().get_key_value(table).map(|(name, _)| name.as_str())
}

fn setting(settings: &RecordBatch, wanted: &str) -> Option<String> {
    let texts = |name: &str| settings.column_by_name(name)?.as_any().downcast_ref::<StringArray>();
    let (keys, values) = (texts("key")?, texts("value")?);
    let row = (0..settings.num_rows()).find(|row| keys.value(*row) == wanted)?;
    values.is_valid(row).then(|| values.value(row).to_owned())
}

fn core_types(cpus: &RecordBatch) -> HashMap<i32, String> {
    let numbers = cpus.column_by_name("cpu").and_then(|c| c.as_any().downcast_ref::<Int32Array>());
    let types =
        cpus.column_by_name("core_type").and_then(|c| c.as_any().downcast_ref::<StringArray>());
    let (Some(numbers), Some(types)) = (numbers, types) else { return HashMap::new() };
    (0..cpus.num_rows())
        .filter(|row| types.is_valid(*row) && numbers.is_valid(*row))
        .map(|row| (numbers.value(row), types.value(row).to_owned()))
        .collect()
}

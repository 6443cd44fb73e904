//! The driver: reads a recording and runs the state machine, producing finished batches.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow_array::{Array, Int32Array, RecordBatch, StringArray};
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::frame::{Frame, Output};
use schedlens_schedule::states::{End, Settings, StateMachine};

use crate::background::{THREAD_NAME, without_panic};
use crate::cpu_versions;
use crate::error::DecodeError;
use crate::format::{self, Format};
use crate::reader::{Reader, TraceFacts};
use crate::session;
use crate::tables::{self, Folder};
use crate::{etl, perf};

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
    let shift = (request.trace_id, recording.session_ns());
    // Tables without threads can be converted before any thread is known.
    let plain = |table: &str| {
        let given = request.context.get(table);
        given.map(|batch| session::rows(table, batch, shift, |_, _| None)).transpose()
    };
    let cpus = match plain("cpu")? {
        Some(cpus) => cpus,
        None => recording.cpu_batch(&batcher)?,
    };
    let settings = plain("machine_setting")?;
    let hz = settings.as_ref().and_then(|settings| setting(settings, "hz")?.parse().ok());
    let tick_ns = hz
        .or_else(|| recording.tick_hz())
        .and_then(|hz| NS_PER_S.checked_div(hz))
        .filter(|tick| *tick > 0);
    let mut machine = StateMachine::new(Settings {
        trace_id: request.trace_id,
        source: recording.source(),
        tick_ns,
        yields_recorded: recording.has_yields(),
        has_wakings: recording.has_wakings(),
    });
    let core_types = core_types(&cpus);
    let mut frames = recording.frames(&batcher, request.trace_id, core_types);
    let mut on_progress = |read: u64| {
        progress.read.store(before + read, Ordering::Relaxed);
        progress.is_wanted()
    };
    while let Some(frame) = frames.next_frame(&mut on_progress)? {
        sink.send_all(machine.push(&frame)?);
        hand_on(frame, &mut sink);
        if !sink.open || !progress.is_wanted() {
            return Ok(());
        }
    }
    let finished = frames.finish()?;
    let cpus = cpu_versions::with_offline(&cpus, &finished.offline)?;
    let threads = finished.batches.iter().find(|(table, _)| *table == "thread");
    let threads = threads
        .map(|(_, batch)| batch.clone())
        .ok_or_else(|| DecodeError::Internal { what: "missing table thread".to_owned() })?;
    let mut context = Vec::new();
    for (table, batch) in &request.context {
        let Some(name) = declared_name(table) else {
            return Err(DecodeError::Context {
                table: table.clone(),
                what: "this table is not declared".to_owned(),
            });
        };
        if name != "cpu" {
            let found = session::rows(table, batch, shift, |tid, ts| frames.utid_at(tid, ts))?;
            context.push((name, found));
        }
    }
    let snapshot = context.iter().find(|(table, _)| *table == "snapshot_thread");
    let end = End {
        first_ns: finished.first_ns.unwrap_or_default(),
        last_ns: finished.last_ns.unwrap_or_default(),
        threads,
        cpus: cpus.clone(),
        snapshot_thread: snapshot.map(|(_, batch)| batch.clone()),
    };
    sink.send_all(machine.finish(&end)?);
    let path: Vec<_> = request.paths.iter().map(|path| path.to_string_lossy()).collect();
    let path = path.join(" + ");
    let facts = TraceFacts {
        label: &request.label,
        path: &path,
        window: (finished.first_ns, finished.last_ns),
        events_lost: finished.events_lost,
    };
    sink.send("trace", recording.trace_batch(&batcher, facts)?);
    sink.send("cpu", cpus);
    for (table, batch) in finished.batches.into_iter().chain(context) {
        sink.send(table, batch);
    }
    if let Some(samples) = &request.samples {
        let (batch, torn) = session::run_samples(&std::fs::read(samples)?, shift)?;
        sink.send("run_sample", batch);
        if torn > 0 {
            let what = "the last batch in samples.bin is cut off";
            sink.send("problem", batcher.problem("samples.bin", what, 1)?);
        }
    }
    // A description of the machine has no times.
    let has_times = request.context.keys().any(|table| table != "cpu");
    // On Windows a session uses the clock of the trace itself.
    let joins = matches!(recording.clock_name(), "monotonic" | "qpc");
    if has_times && !joins {
        let what = format!(
            "times of the session are CLOCK_MONOTONIC, those of the recording are {}: they do not \
             join, record with -k CLOCK_MONOTONIC",
            recording.clock_name()
        );
        sink.send("problem", batcher.problem("clock", &what, 1)?);
    }
    progress.read.store(before + recording.extent(), Ordering::Relaxed);
    Ok(())
}

fn hand_on(frame: Frame, sink: &mut Sink<'_>) {
    for (table, batch) in frame.batches {
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

/// Opens a recording of any format; `on_progress` receives the bytes read and the total.
///
/// # Errors
/// The format is unknown, nothing in the recording can be read, or several files are not all Windows
/// logs.
pub fn open(
    paths: &[PathBuf],
    on_progress: impl FnMut(u64, u64) -> bool,
) -> Result<Box<dyn Reader>, DecodeError> {
    match only_format(paths)? {
        (path, Format::Perf) => Ok(Box::new(schedlens_perf_data::Recording::open(path)?)),
        (_, Format::Etl) => Ok(Box::new(schedlens_etl::Recording::open(paths, on_progress)?)),
        (path, Format::Tables) => Ok(Box::new(Folder::open(path)?)),
    }
}

/// The contents of a recording as JSON: see [`crate::perf::inspect`],
/// [`crate::etl::inspect`] and [`crate::tables::inspect`].
///
/// # Errors
/// As [`open`].
pub fn inspect(paths: &[PathBuf]) -> Result<String, DecodeError> {
    match only_format(paths)? {
        (path, Format::Perf) => {
            Ok(perf::inspect(&schedlens_perf_data::Recording::open(path)?).to_string())
        }
        (_, Format::Etl) => {
            Ok(etl::inspect(&schedlens_etl::Recording::open(paths, |_, _| true)?).to_string())
        }
        (path, Format::Tables) => Ok(tables::inspect(&Folder::open(path)?)?.to_string()),
    }
}

/// The first file, and the common format of all files.
fn only_format(paths: &[PathBuf]) -> Result<(&PathBuf, Format), DecodeError> {
    let formats: Vec<Format> =
        paths.iter().map(|path| format::of(path)).collect::<Result<_, _>>()?;
    let (Some(path), Some(first)) = (paths.first(), formats.first()) else {
        return Err(schedlens_perf_data::Error::NoData.into());
    };
    if paths.len() > 1 && formats.iter().any(|format| *format != Format::Etl) {
        return Err(DecodeError::NotTogether {
            what: "only .etl files can be given together".to_owned(),
        });
    }
    Ok((path, *first))
}

/// Reads a recording into base-table batches and discards them; returns records, rows and seconds.
///
/// # Errors
/// As [`open`].
pub fn decode_only(paths: &[PathBuf]) -> Result<(u64, u64, f64), DecodeError> {
    let begin = std::time::Instant::now();
    let recording = open(paths, |_, _| true)?;
    let batcher = Batcher::new(1);
    let mut frames = recording.frames(&batcher, 1, HashMap::new());
    let mut rows = 0;
    while let Some(frame) = frames.next_frame(&mut |_| true)? {
        rows += frame.batches.iter().map(|(_, batch)| batch.num_rows() as u64).sum::<u64>();
    }
    frames.finish()?;
    Ok((recording.records(), rows, begin.elapsed().as_secs_f64()))
}

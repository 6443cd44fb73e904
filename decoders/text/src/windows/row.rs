//! A row of either text, and what a text states about its recording.

/// What a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A context switch, from `old` to `new`.
    #[default]
    Switch,
    /// `new` is made ready by `by`.
    Ready,
    /// A switch-in of `new` with the moments before and after it.
    Precise,
    /// `new` is created.
    Start,
    /// `new` ends.
    End,
    /// `new` exists.
    Listed,
}

impl Kind {
    /// As a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Ready => "ready",
            Self::Precise => "precise",
            Self::Start => "start",
            Self::End => "end",
            Self::Listed => "listed",
        }
    }
}

/// A thread and its process. What the text does not contain is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Thread.
    pub tid: Option<i64>,
    /// Process.
    pub pid: Option<i64>,
    /// Name of the process.
    pub process: Option<String>,
}

/// How a thread left its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// `KTHREAD_STATE`
    pub state: Option<i32>,
    /// `KWAIT_REASON`
    pub reason: Option<i32>,
    /// `KPROCESSOR_MODE`
    pub mode: Option<i32>,
    /// Its priority.
    pub priority: Option<i32>,
}

/// Times beyond 12 years are damage, and their differences fit into 64 bits.
pub(super) const LATEST_NS: i64 = 400_000_000_000_000_000;

/// A row. Times are ns since the start of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub kind: Kind,
    /// Number of its line or of its row, from 1.
    pub line: u64,
    /// When it happened; of a switch-in: `None` if it was not seen.
    pub ts: Option<i64>,
    /// Logical CPU.
    pub cpu: Option<i32>,
    /// The thread that switches in, is made ready, starts, or ends.
    pub new: Who,
    /// The thread that switches out.
    pub old: Who,
    /// The thread that makes another ready.
    pub by: Who,
    /// Name of `new`.
    pub thread_name: Option<String>,
    /// Priority of `new`.
    pub priority: Option<i32>,
    /// How `old` leaves.
    pub old_left: Left,
    /// How `new` leaves at `next_out`.
    pub new_left: Left,
    /// Ideal processor of the thread that leaves (xperf) or enters (WPA).
    pub ideal: Option<i32>,
    /// C state in which the CPU was.
    pub cstate: Option<i32>,
    /// Remaining quantum of `old`.
    pub remaining_quantum: Option<i32>,
    /// Whether a DPC made the thread ready.
    pub in_dpc: Option<bool>,
    /// When `new` became ready before this switch-in.
    pub ready: Option<i64>,
    /// When `new` switched out the last time.
    pub last_out: Option<i64>,
    /// When `new` switches out again.
    pub next_out: Option<i64>,
}

/// What a text states about its recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Version of Windows.
    pub os: Option<String>,
    /// Events and buffers that the recorder lost.
    pub events_lost: Option<i64>,
    /// Likewise.
    pub buffers_lost: Option<i64>,
    /// FILETIME at 0.
    pub start: Option<i64>,
    /// Before this time switches may be missing, ns.
    pub reliable_from: Option<i64>,
    /// The text lists ready records, also if there are none.
    pub has_ready: bool,
}

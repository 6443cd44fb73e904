//! A thread as the scheduler sees it, and the units of its time.

/// The recorder's clock.
pub const TICK_NS: i64 = 100;
pub const FOREVER: i64 = 1 << 62;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    New,
    Ready,
    Running,
    Waiting,
    Ended,
}

/// A thread and its scheduling state.
#[derive(Debug)]
pub struct Thread {
    pub affinity: Vec<usize>,
    pub may_use: Vec<bool>,
    pub ideal: usize,
    pub is_eco: bool,
    pub priority: i32,
    pub last_cpu: Option<usize>,
    pub ready_since: i64,
    pub base_priority: i32,
    pub state: State,
    pub quantum_left: i64,
    /// Ticks of the fastest core alone.
    pub work: f64,
    pub frame_start: i64,
    pub woken_at: i64,
    pub is_watched: bool,
    /// Whether it runs only until a gate opens.
    pub spins: bool,
    pub next_op: usize,
    pub in_job: bool,
    /// Grows with each wakeup that may leave it on a busy CPU; at 1 one does.
    pub stranding: f64,
}

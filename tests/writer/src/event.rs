//! The events of a script.

use serde::Deserialize;

/// Place in the life of a thread or process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It begins.
    Start,
    /// It ends.
    End,
    /// It existed when the recording began.
    RundownStart,
    /// It existed when the recording ended.
    RundownEnd,
    /// It ended before, its object still exists (processes only).
    Defunct,
}

/// How a thread leaves its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaves {
    /// To wait.
    #[default]
    Blocked,
    /// For good.
    Exit,
    /// Its quantum is used up.
    QuantumEnd,
    /// Another takes its place.
    Preempted,
    /// It gives way.
    Yield,
    /// Runnable, for a reason that has no name here.
    RunnableOther,
}

/// Header of a kernel record of an .etl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// `PERFINFO_TRACE_HEADER`: neither thread nor process.
    Perfinfo,
    /// `SYSTEM_TRACE_HEADER`
    System,
    /// The same without times.
    Compact,
    /// `EVENT_TRACE_HEADER` with the class's GUID.
    Full,
}

/// A context switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Thread that leaves; 0 is the idle thread.
    pub old: u32,
    /// Incoming thread.
    pub new: u32,
    /// Thread that Windows planned to switch in; by default the incoming thread.
    #[serde(default)]
    pub planned: Option<u32>,
    /// How the old one leaves.
    #[serde(default)]
    pub leaves: Leaves,
    /// `KWAIT_REASON`, if not the one implied by `leaves`.
    #[serde(default)]
    pub reason: Option<u8>,
    /// Windows' thread state, likewise.
    #[serde(default)]
    pub state: Option<u8>,
    /// Waits in user mode.
    #[serde(default)]
    pub user_mode: bool,
    /// Quality of service of the old and the new thread, 0 to 7.
    #[serde(default)]
    pub qos: (u8, u8),
    /// Priority of the old one.
    #[serde(default)]
    pub old_priority: i8,
    /// Priority of the new one.
    #[serde(default)]
    pub new_priority: i8,
    /// Ideal processor of the old one.
    #[serde(default)]
    pub ideal: u8,
    /// C state the CPU was in, where the old one is idle.
    #[serde(default)]
    pub c_state: u8,
    /// `NewThreadWaitTime`
    #[serde(default)]
    pub wait_time: u32,
    /// Running values of the CPU's counters, in the order of `counters`.
    #[serde(default)]
    pub counters: Vec<u64>,
    /// Stack of the incoming thread.
    #[serde(default)]
    pub stack: Vec<u64>,
    /// Version of the record, where not the file's.
    #[serde(default)]
    pub version: Option<u8>,
}

/// A thread is made ready.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// The thread.
    pub tid: u32,
    /// It has just been created (`sched_wakeup_new`).
    #[serde(default)]
    pub new: bool,
    /// Linux: the CPU it last ran on, or is sent to if new.
    #[serde(default)]
    pub target: u16,
    /// From an interrupt.
    #[serde(default)]
    pub in_dpc: bool,
    /// `AdjustReason` and `AdjustIncrement`.
    #[serde(default)]
    pub adjust: (u8, i8),
    /// Header of the record.
    #[serde(default)]
    pub header: Option<Header>,
    /// Stack of the waker.
    #[serde(default)]
    pub stack: Vec<u64>,
}

/// What an interrupt record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interrupt {
    /// DPC; softirq on Linux.
    Dpc,
    /// Timer DPC.
    TimerDpc,
    /// DPC in a thread.
    ThreadedDpc,
    /// ISR; interrupt handler on Linux.
    Isr,
}

/// The event in which Windows reports a frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrequencyEvent {
    /// 10, ProcessorPerfStateChange.
    #[default]
    PerfState,
    /// 111, DeliveredPerfChange.
    Delivered,
    /// 148, DeliveredPerfChange of later builds.
    DeliveredLater,
}

/// How records were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lost {
    /// A whole buffer: its sequence number is missing.
    #[default]
    Buffer,
    /// Single events: flag 2 in the next buffer.
    Events,
}

/// One line after the first, without its `ts` and `cpu`.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// A process, in a phase of its life.
    Process {
        /// Phase.
        phase: Phase,
        /// Its id.
        pid: u32,
        /// Its parent's.
        #[serde(default)]
        parent: u32,
        /// Name of its program.
        name: String,
        /// Command line.
        #[serde(default)]
        command_line: String,
    },
    /// A thread, in a phase of its life.
    Thread {
        /// Phase.
        phase: Phase,
        /// Its process.
        pid: u32,
        /// Its id.
        tid: u32,
        /// Its name.
        #[serde(default)]
        name: Option<String>,
        /// Base priority.
        #[serde(default = "priority")]
        base_priority: i8,
        /// Mask of the CPUs it may use.
        #[serde(default = "everywhere")]
        affinity: u64,
        /// Version of the record, 2 to 4.
        #[serde(default = "thread_version")]
        version: u8,
    },
    /// A thread is given a name.
    ThreadName {
        /// Its process.
        pid: u32,
        /// Its id.
        tid: u32,
        /// The name.
        name: String,
    },
    /// A context switch.
    Switch(Switch),
    /// A thread is made ready.
    Ready(Ready),
    /// No record: who is on this CPU as the recording begins.
    Running {
        /// The thread.
        tid: u32,
    },
    /// Linux alone: a CPU is chosen for a thread that was made ready.
    Migrate {
        /// The thread.
        tid: u32,
        /// From that CPU.
        from: u16,
        /// To that one.
        to: u16,
    },
    /// Linux alone: the running thread calls `sched_yield`.
    Yield {},
    /// A DPC or ISR that ends now.
    Interrupt {
        /// When it began.
        start: i64,
        /// What it is.
        kind: Interrupt,
        /// Its routine.
        #[serde(default)]
        routine: u64,
    },
    /// An idle CPU enters a state, or leaves it (no state).
    Idle {
        /// The state.
        #[serde(default)]
        state: Option<u32>,
    },
    /// ParkCore.
    Park {
        /// CPU that is parked.
        about: u16,
        /// `SoftParked` of version 1; without: version 0.
        #[serde(default)]
        soft: Option<bool>,
    },
    /// UnparkCore.
    Unpark {
        /// CPU that is unparked.
        about: u16,
    },
    /// SoftParkStateChange.
    SoftPark {
        /// CPU.
        about: u16,
        /// New state.
        soft: bool,
    },
    /// ParkSelection: what is parked next, and why.
    ParkSelection {
        /// Group.
        #[serde(default)]
        group: u16,
        /// Mask before.
        old: u64,
        /// Mask after.
        new: u64,
        /// `ParkReason`
        reason: u32,
    },
    /// ProcessorPerformanceRundown.
    PowerRundown {
        /// CPU.
        about: u16,
        /// Parked now.
        parked: bool,
        /// Soft parked now (version 7).
        #[serde(default)]
        soft: Option<bool>,
        /// Class.
        #[serde(default)]
        efficiency_class: Option<u8>,
        /// Caps of BIOS and temperature in percent.
        #[serde(default = "caps")]
        caps: (u32, u32),
        /// Nominal frequency.
        #[serde(default = "nominal")]
        mhz: u32,
    },
    /// ProcessorIdRundown.
    ProcessorId {
        /// CPU.
        about: u16,
        /// `InterruptControllerId`
        apic: u32,
    },
    /// ProcessorClassUpdate.
    ClassUpdate {
        /// CPU.
        about: u16,
        /// New class.
        efficiency_class: u8,
    },
    /// A frequency.
    Frequency {
        /// CPU.
        about: u16,
        /// The frequency.
        mhz: u32,
        /// Event that reports it.
        #[serde(default)]
        reported_by: FrequencyEvent,
    },
    /// Names of the counters in switches.
    Counters {
        /// The names.
        names: Vec<String>,
    },
    /// A frame is presented.
    Present {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// Swap chain.
        #[serde(default)]
        swap_chain: u64,
        /// Flags.
        #[serde(default)]
        flags: u32,
        /// End of the call.
        #[serde(default)]
        stop: bool,
        /// By Direct3D 9.
        #[serde(default)]
        d3d9: bool,
    },
    /// SetPriority.
    Priority {
        /// Thread.
        tid: u32,
        /// Before.
        old: i8,
        /// After.
        new: i8,
    },
    /// Affinity of a thread changes.
    Affinity {
        /// Thread.
        tid: u32,
        /// New mask.
        mask: u64,
        /// Group.
        #[serde(default)]
        group: u16,
    },
    /// Records of this CPU up to `until` are lost.
    Lost {
        /// End of the loss.
        until: i64,
        /// How.
        #[serde(default)]
        kind: Lost,
    },
    /// A kernel record given byte by byte (.etl alone).
    Raw {
        /// Its hook.
        hook: u16,
        /// Its version.
        #[serde(default)]
        version: u8,
        /// Header.
        header: Header,
        /// Process in the header.
        #[serde(default)]
        pid: u32,
        /// Thread in the header.
        #[serde(default)]
        tid: u32,
        /// Hexadecimal digits.
        payload: String,
    },
    /// A manifest event given byte by byte (.etl alone).
    Manifest {
        /// GUID of the provider.
        provider: String,
        /// Event id.
        id: u16,
        /// Its version.
        #[serde(default)]
        version: u8,
        /// Process in the header.
        #[serde(default)]
        pid: u32,
        /// Thread in the header.
        #[serde(default)]
        tid: u32,
        /// Hexadecimal digits.
        payload: String,
    },
}

fn priority() -> i8 {
    8
}

fn everywhere() -> u64 {
    u64::MAX
}

fn thread_version() -> u8 {
    3
}

fn caps() -> (u32, u32) {
    (100, 100)
}

fn nominal() -> u32 {
    3000
}

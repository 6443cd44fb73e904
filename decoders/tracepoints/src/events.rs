//! The event family of a tracepoint, and the offsets of its fields.

use schedlens_input::bytes::{text, u16_at, u32_at, u64_at};
use schedlens_input::problem::Problems;

use crate::formats::{Field, Format};
use crate::print_fmt;

/// `TRACE_FLAG_HARDIRQ | TRACE_FLAG_SOFTIRQ | TRACE_FLAG_NMI`
const FLAGS_IN_INTERRUPT: i64 = 0x08 | 0x10 | 0x40;

/// Position of a number in a tracepoint's raw data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Slot {
    const fn new(offset: usize, size: usize, signed: bool) -> Self {
        Self { offset, size, signed }
    }

    fn of(field: &Field) -> Option<Self> {
        let known = matches!(field.size, 1 | 2 | 4 | 8);
        known.then_some(Self { offset: field.offset, size: field.size, signed: field.signed })
    }

    /// The number, if the data is long enough.
    #[inline(always)]
    pub fn read(&self, raw: &[u8]) -> Option<i64> {
        Some(match (self.size, self.signed) {
            (4, true) => i64::from(u32_at(raw, self.offset)?.cast_signed()),
            (4, false) => i64::from(u32_at(raw, self.offset)?),
            (8, _) => u64_at(raw, self.offset)?.cast_signed(),
            (2, true) => i64::from(u16_at(raw, self.offset)?.cast_signed()),
            (2, false) => i64::from(u16_at(raw, self.offset)?),
            (_, true) => i64::from(raw.get(self.offset)?.cast_signed()),
            (_, false) => i64::from(*raw.get(self.offset)?),
        })
    }

    /// The number as an id or CPU; invalid values become -1.
    #[inline(always)]
    pub fn id(&self, raw: &[u8]) -> Option<i32> {
        Some(i32::try_from(self.read(raw)?).unwrap_or(-1))
    }
}

/// Position of a text in a tracepoint's raw data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSlot {
    offset: usize,
    size: usize,
    data_loc: bool,
}

impl TextSlot {
    /// The bytes of the field, including NUL and the bytes after it.
    #[inline(always)]
    pub fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        if !self.data_loc {
            return raw.get(self.offset..self.offset.checked_add(self.size)?);
        }
        // __data_loc: length in the upper half, offset in the lower one
        let place = u32_at(raw, self.offset)?;
        let (offset, length) = ((place & 0xffff) as usize, (place >> 16) as usize);
        raw.get(offset..offset + length)
    }

    /// The text.
    pub fn text(&self, raw: &[u8]) -> Option<String> {
        self.bytes(raw).map(text)
    }
}

/// Fields of `sched:sched_switch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchFields {
    /// Name of the outgoing thread.
    pub prev_comm: TextSlot,
    /// Outgoing thread.
    pub prev_pid: Slot,
    /// Priority of the outgoing thread.
    pub prev_prio: Slot,
    /// State of the outgoing thread.
    pub prev_state: Slot,
    /// Name of the incoming thread.
    pub next_comm: TextSlot,
    /// Incoming thread.
    pub next_pid: Slot,
    /// Priority of the incoming thread.
    pub next_prio: Slot,
}

impl SwitchFields {
    /// The layout of nearly all 64-bit kernels.
    pub const USUAL: Self = Self {
        prev_comm: TextSlot { offset: 8, size: 16, data_loc: false },
        prev_pid: Slot::new(24, 4, true),
        prev_prio: Slot::new(28, 4, true),
        prev_state: Slot::new(32, 8, true),
        next_comm: TextSlot { offset: 40, size: 16, data_loc: false },
        next_pid: Slot::new(56, 4, true),
        next_prio: Slot::new(60, 4, true),
    };
    /// Size of the raw data up to the last of them.
    pub const USUAL_SIZE: usize = 64;
}

/// Fields common to all tracepoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommonFields {
    pid: Option<Slot>,
    flags: Option<Slot>,
}

impl CommonFields {
    fn of(format: &Format) -> Self {
        let slot = |field: &str| format.field(field).and_then(Slot::of);
        Self { pid: slot("common_pid"), flags: slot("common_flags") }
    }

    /// The thread in which a tracepoint fired.
    #[inline(always)]
    pub fn current(&self, raw: &[u8]) -> Option<i32> {
        self.pid.as_ref()?.id(raw)
    }

    /// Whether a tracepoint fired in interrupt context.
    #[inline(always)]
    pub fn in_interrupt(&self, raw: &[u8]) -> Option<bool> {
        Some(self.flags.as_ref()?.read(raw)? & FLAGS_IN_INTERRUPT != 0)
    }
}

/// Fields of `sched:sched_waking` and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeupFields {
    /// Fields of any tracepoint.
    pub common: CommonFields,
    /// Name of the thread that is woken.
    pub comm: Option<TextSlot>,
    /// Thread that is woken.
    pub pid: Slot,
    /// CPU on which it is to run.
    pub target_cpu: Slot,
}

impl WakeupFields {
    /// The layout of nearly all kernels.
    pub const USUAL: Self = Self {
        common: CommonFields {
            pid: Some(Slot::new(4, 4, true)),
            flags: Some(Slot::new(2, 1, false)),
        },
        comm: Some(TextSlot { offset: 8, size: 16, data_loc: false }),
        pid: Slot::new(24, 4, true),
        target_cpu: Slot::new(32, 4, true),
    };
    /// Size of the raw data up to the last of them.
    pub const USUAL_SIZE: usize = 36;
}

/// Event families, with the fields that are read.
#[derive(Clone, Debug)]
pub enum Family {
    /// `sched:sched_switch`
    Switch {
        /// Its fields.
        fields: SwitchFields,
        /// Bit of `prev_state` that marks preemption.
        plus_mask: Option<i64>,
        /// The layout equals [`SwitchFields::USUAL`].
        usual: bool,
    },
    /// `sched:sched_waking`, `sched:sched_wakeup` or `sched:sched_wakeup_new`
    Wakeup {
        /// Its index in [`WAKEUP_KINDS`].
        kind: u8,
        /// Its fields.
        fields: WakeupFields,
        /// The layout equals [`WakeupFields::USUAL`].
        usual: bool,
    },
    /// `sched:sched_migrate_task`
    Migrate {
        /// Migrated thread.
        pid: Slot,
        /// CPU that it leaves.
        orig_cpu: Slot,
        /// CPU that it moves to.
        dest_cpu: Slot,
    },
    /// `sched:sched_process_fork`
    Fork {
        /// Thread that creates another.
        parent: Slot,
        /// The new thread.
        child: Slot,
    },
    /// `sched:sched_process_exit`
    Exit {
        /// Thread that exits.
        pid: Slot,
    },
    /// `sched:sched_process_exec`
    Exec {
        /// Thread id after it.
        pid: Slot,
        /// Thread id before it.
        old_pid: Slot,
    },
    /// `task:task_newtask`
    NewTask {
        /// The new thread.
        pid: Slot,
        /// Flags of `clone`.
        clone_flags: Slot,
    },
    /// `task:task_rename`
    Rename {
        /// The renamed thread.
        pid: Slot,
        /// Its name from now on.
        newcomm: TextSlot,
    },
    /// `cgroup:cgroup_attach_task`
    CgroupAttach {
        /// Number of the hierarchy: 0 for the unified one.
        hierarchy: Slot,
        /// The thread that moves.
        pid: Slot,
        /// Path of the cgroup that it moves to.
        path: TextSlot,
    },
    /// `syscalls:sys_enter_sched_yield`
    Yield,
    /// `syscalls:sys_enter_sched_setaffinity`
    SetAffinity {
        /// Thread whose affinity is to be set; 0: the caller.
        pid: Slot,
    },
    /// `syscalls:sys_exit_sched_setaffinity`
    SetAffinityDone {
        /// 0: it was set.
        ret: Slot,
    },
    /// `sched:sched_pi_setprio`
    Priority {
        /// Thread whose priority changes.
        pid: Slot,
        /// Priority before it.
        old: Slot,
        /// Priority after it.
        new: Slot,
    },
    /// `irq:softirq_entry`
    SoftirqEntry {
        /// Number of the softirq.
        vec: Slot,
        /// Names of the softirqs by number.
        names: Vec<(i64, String)>,
    },
    /// `irq:softirq_exit`
    SoftirqExit {
        /// Number of the softirq.
        vec: Slot,
        /// Names by number.
        names: Vec<(i64, String)>,
    },
    /// `irq:irq_handler_entry`
    IrqEntry {
        /// Number of the interrupt.
        irq: Slot,
        /// Name of the handler.
        name: TextSlot,
    },
    /// `irq:irq_handler_exit`
    IrqExit {
        /// Number of the interrupt.
        irq: Slot,
    },
    /// `irq_vectors:*_entry`: the local timer, and interrupts from other CPUs (x86).
    VectorEntry {
        /// Number of the vector.
        vector: Slot,
        /// What it is for: `local_timer`, `reschedule`, ...
        name: String,
    },
    /// `irq_vectors:*_exit`
    VectorExit {
        /// Number of the vector.
        vector: Slot,
        /// What it is for.
        name: String,
    },
    /// `exceptions:page_fault_user` or `exceptions:page_fault_kernel`: where the fault happened.
    PageFault,
    /// `block:block_rq_issue`: a request goes to a disk.
    DiskIssue(DiskFields),
    /// `block:block_rq_complete`: a disk has answered.
    DiskDone(DiskFields),
    /// `power:cpu_idle`
    Idle {
        /// Idle state, or the end of one.
        state: Slot,
        /// Logical CPU.
        cpu: Slot,
    },
    /// `power:cpu_frequency`
    Frequency {
        /// Frequency in kHz.
        khz: Slot,
        /// Logical CPU.
        cpu: Slot,
    },
    /// A step of taking a CPU offline or online.
    Hotplug {
        /// CPU that goes offline or online.
        cpu: Slot,
        /// Target state.
        target: Slot,
        /// Number of the step.
        step: Slot,
    },
    /// Counted, not read.
    Other,
}

/// Fields that identify a disk request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFields {
    /// Number of the device.
    pub device: Slot,
    /// First sector, of 512 bytes.
    pub sector: Slot,
    /// Number of sectors.
    pub sectors: Slot,
}

const VECTORS: &str = "irq_vectors:";

/// Values of `wakeup.kind`, by the number in [`Family::Wakeup`].
pub const WAKEUP_KINDS: [&str; 3] = ["waking", "wakeup", "wakeup_new"];
/// Index of `sched_waking` among them.
pub const WAKING: u8 = 0;

/// An event, as the reader uses it.
#[derive(Clone, Debug)]
pub struct Event {
    /// Name, as perf prints it.
    pub name: String,
    /// What it reports, and the offsets of its fields.
    pub family: Family,
    /// Fields of any tracepoint.
    pub common: CommonFields,
}

impl Event {
    /// The event of a format. A field that it lacks is a problem, and the event is not read.
    pub fn of(format: &Format, problems: &mut Problems) -> Self {
        let name = format.full_name();
        let family = family(format).unwrap_or_else(|missing| {
            problems.add(&name, format!("its format has no field {missing}"));
            Family::Other
        });
        Self { name, family, common: CommonFields::of(format) }
    }

    /// An event that is counted and not read.
    pub fn other(name: String) -> Self {
        Self { name, family: Family::Other, common: CommonFields::default() }
    }
}

/// # Errors
/// The name of a field that the format lacks.
fn family(format: &Format) -> Result<Family, &'static str> {
    let slot = |name: &'static str| format.field(name).and_then(Slot::of).ok_or(name);
    let text = |name: &'static str| {
        let field = format.field(name).ok_or(name)?;
        let slot = TextSlot { offset: field.offset, size: field.size, data_loc: field.data_loc };
        Ok::<_, &'static str>(slot)
    };
    let wakeup = |kind| {
        let (pid, target_cpu) = (slot("pid")?, slot("target_cpu")?);
        let (common, comm) = (CommonFields::of(format), text("comm").ok());
        let fields = WakeupFields { common, comm, pid, target_cpu };
        Ok(Family::Wakeup { kind, fields, usual: fields == WakeupFields::USUAL })
    };
    let disk = || {
        let (device, sector, sectors) = (slot("dev")?, slot("sector")?, slot("nr_sector")?);
        Ok::<_, &'static str>(DiskFields { device, sector, sectors })
    };
    match format.full_name().as_str() {
        "sched:sched_switch" => {
            let fields = SwitchFields {
                prev_comm: text("prev_comm")?,
                prev_pid: slot("prev_pid")?,
                prev_prio: slot("prev_prio")?,
                prev_state: slot("prev_state")?,
                next_comm: text("next_comm")?,
                next_pid: slot("next_pid")?,
                next_prio: slot("next_prio")?,
            };
            let plus_mask = print_fmt::plus_mask(&format.print_fmt);
            Ok(Family::Switch { fields, plus_mask, usual: fields == SwitchFields::USUAL })
        }
        "sched:sched_waking" => wakeup(WAKING),
        "sched:sched_wakeup" => wakeup(1),
        "sched:sched_wakeup_new" => wakeup(2),
        "sched:sched_migrate_task" => Ok(Family::Migrate {
            pid: slot("pid")?,
            orig_cpu: slot("orig_cpu")?,
            dest_cpu: slot("dest_cpu")?,
        }),
        "sched:sched_process_fork" => {
            Ok(Family::Fork { parent: slot("parent_pid")?, child: slot("child_pid")? })
        }
        "sched:sched_process_exit" => Ok(Family::Exit { pid: slot("pid")? }),
        "sched:sched_process_exec" => {
            Ok(Family::Exec { pid: slot("pid")?, old_pid: slot("old_pid")? })
        }
        "sched:sched_pi_setprio" => {
            Ok(Family::Priority { pid: slot("pid")?, old: slot("oldprio")?, new: slot("newprio")? })
        }
        "task:task_newtask" => {
            Ok(Family::NewTask { pid: slot("pid")?, clone_flags: slot("clone_flags")? })
        }
        "task:task_rename" => Ok(Family::Rename { pid: slot("pid")?, newcomm: text("newcomm")? }),
        "cgroup:cgroup_attach_task" => Ok(Family::CgroupAttach {
            hierarchy: slot("dst_root")?,
            pid: slot("pid")?,
            path: text("dst_path")?,
        }),
        "syscalls:sys_enter_sched_yield" => Ok(Family::Yield),
        "syscalls:sys_enter_sched_setaffinity" => Ok(Family::SetAffinity { pid: slot("pid")? }),
        "syscalls:sys_exit_sched_setaffinity" => Ok(Family::SetAffinityDone { ret: slot("ret")? }),
        "irq:softirq_entry" => Ok(Family::SoftirqEntry {
            vec: slot("vec")?,
            names: print_fmt::symbols(&format.print_fmt, "vec"),
        }),
        "irq:softirq_exit" => Ok(Family::SoftirqExit {
            vec: slot("vec")?,
            names: print_fmt::symbols(&format.print_fmt, "vec"),
        }),
        "irq:irq_handler_entry" => Ok(Family::IrqEntry { irq: slot("irq")?, name: text("name")? }),
        "irq:irq_handler_exit" => Ok(Family::IrqExit { irq: slot("irq")? }),
        "exceptions:page_fault_user" | "exceptions:page_fault_kernel" => Ok(Family::PageFault),
        "block:block_rq_issue" => disk().map(Family::DiskIssue),
        "block:block_rq_complete" => disk().map(Family::DiskDone),
        "power:cpu_idle" => Ok(Family::Idle { state: slot("state")?, cpu: slot("cpu_id")? }),
        "power:cpu_frequency" => {
            Ok(Family::Frequency { khz: slot("state")?, cpu: slot("cpu_id")? })
        }
        "cpuhp:cpuhp_enter" | "cpuhp:cpuhp_multi_enter" => {
            Ok(Family::Hotplug { cpu: slot("cpu")?, target: slot("target")?, step: slot("idx")? })
        }
        other => match other.strip_prefix(VECTORS) {
            Some(name) => vector(name, slot("vector")),
            None => Ok(Family::Other),
        },
    }
}

/// Entries and exits of the system's own interrupts. Those of devices are `irq:irq_handler_entry`.
fn vector(name: &str, number: Result<Slot, &'static str>) -> Result<Family, &'static str> {
    Ok(match (name.strip_suffix("_entry"), name.strip_suffix("_exit")) {
        (Some(name), _) => Family::VectorEntry { vector: number?, name: name.to_owned() },
        (_, Some(name)) => Family::VectorExit { vector: number?, name: name.to_owned() },
        _ => Family::Other,
    })
}

//! Tracepoints: their fields, and `HEADER_TRACING_DATA` with their formats.

use std::fmt::Write as _;

use crate::bytes::Bytes;

/// A tracepoint that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tracepoint {
    Switch,
    Waking,
    WakeupNew,
    Migrate,
    Fork,
    Exit,
    Idle,
    Frequency,
    SoftirqEntry,
    SoftirqExit,
    IrqEntry,
    IrqExit,
    Yield,
}

/// Type of a field: what C calls it, its size, whether it is signed.
type Kind = (&'static str, usize, bool);

const INT: Kind = ("int", 4, true);
const PID: Kind = ("pid_t", 4, true);
const U32: Kind = ("u32", 4, false);
const UNSIGNED: Kind = ("unsigned int", 4, false);
const LONG: Kind = ("long", 8, true);
const COMM: Kind = ("char", 16, false);

/// Fields before those of a tracepoint.
const COMMON: [(&str, Kind); 4] = [
    ("common_type", ("unsigned short", 2, false)),
    ("common_flags", ("unsigned char", 1, false)),
    ("common_preempt_count", ("unsigned char", 1, false)),
    ("common_pid", INT),
];

/// Bit of `prev_state` that says it was preempted.
pub(super) const PREEMPTED: u64 = 0x100;

/// Softirq by number, the first two.
pub(super) const SOFTIRQ_TIMER: u32 = 1;

impl Tracepoint {
    /// All of them.
    pub(super) const ALL: [Self; 13] = [
        Self::Switch,
        Self::Waking,
        Self::WakeupNew,
        Self::Migrate,
        Self::Fork,
        Self::Exit,
        Self::Idle,
        Self::Frequency,
        Self::SoftirqEntry,
        Self::SoftirqExit,
        Self::IrqEntry,
        Self::IrqExit,
        Self::Yield,
    ];

    /// `config` of its event.
    pub(super) fn id(self) -> u16 {
        300 + self as u16
    }

    /// System and name.
    pub(super) fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Switch => ("sched", "sched_switch"),
            Self::Waking => ("sched", "sched_waking"),
            Self::WakeupNew => ("sched", "sched_wakeup_new"),
            Self::Migrate => ("sched", "sched_migrate_task"),
            Self::Fork => ("sched", "sched_process_fork"),
            Self::Exit => ("sched", "sched_process_exit"),
            Self::Idle => ("power", "cpu_idle"),
            Self::Frequency => ("power", "cpu_frequency"),
            Self::SoftirqEntry => ("irq", "softirq_entry"),
            Self::SoftirqExit => ("irq", "softirq_exit"),
            Self::IrqEntry => ("irq", "irq_handler_entry"),
            Self::IrqExit => ("irq", "irq_handler_exit"),
            Self::Yield => ("syscalls", "sys_enter_sched_yield"),
        }
    }

    /// Its own fields, one after the other.
    fn fields(self) -> &'static [(&'static str, Kind)] {
        match self {
            Self::Switch => &[
                ("prev_comm", COMM),
                ("prev_pid", PID),
                ("prev_prio", INT),
                ("prev_state", LONG),
                ("next_comm", COMM),
                ("next_pid", PID),
                ("next_prio", INT),
            ],
            Self::Waking | Self::WakeupNew => {
                &[("comm", COMM), ("pid", PID), ("prio", INT), ("target_cpu", INT)]
            }
            Self::Migrate => {
                &[("comm", COMM), ("pid", PID), ("prio", INT), ("orig_cpu", INT), ("dest_cpu", INT)]
            }
            Self::Fork => &[
                ("parent_comm", COMM),
                ("parent_pid", PID),
                ("child_comm", COMM),
                ("child_pid", PID),
            ],
            Self::Exit => &[("comm", COMM), ("pid", PID), ("prio", INT)],
            Self::Idle | Self::Frequency => &[("state", U32), ("cpu_id", U32)],
            Self::SoftirqEntry | Self::SoftirqExit => &[("vec", UNSIGNED)],
            Self::IrqEntry => &[("irq", INT), ("name", COMM)],
            Self::IrqExit => &[("irq", INT), ("ret", INT)],
            Self::Yield => &[("__syscall_nr", INT)],
        }
    }

    /// How its text is printed.
    fn print(self) -> String {
        let states = "(REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", \
             { 0x1, \"S\" }, { 0x2, \"D\" }, { 0x10, \"X\" }, { 0x20, \"Z\" }) : \"R\"";
        let plain: Vec<_> = self.fields().iter().collect();
        let mut shown = String::new();
        let mut values = String::new();
        for (name, (kind, size, signed)) in plain {
            let separator = if *name == "next_comm" { "==> " } else { "" };
            let mark = match (*name, *kind, *size, *signed) {
                ("prev_state", ..) => "%s%s",
                (_, "char", ..) => "%s",
                (_, _, 8, true) => "%ld",
                (_, _, _, true) => "%d",
                _ => "%u",
            };
            let _ = write!(shown, "{separator}{name}={mark} ");
            let _ = match *name {
                "prev_state" => {
                    write!(values, ", {states}, REC->prev_state & {PREEMPTED:#x} ? \"+\" : \"\"")
                }
                _ => write!(values, ", REC->{name}"),
            };
        }
        format!("\"{}\"{values}", shown.trim_end())
    }

    /// Text of its `format` file.
    fn format(self) -> String {
        let mut text = format!("name: {}\nID: {}\nformat:\n", self.name().1, self.id());
        let mut offset = 0;
        for (rank, (name, (kind, size, signed))) in COMMON.iter().chain(self.fields()).enumerate() {
            let array = if *kind == "char" { "[16]" } else { "" };
            let _ = writeln!(
                text,
                "\tfield:{kind} {name}{array};\toffset:{offset};\tsize:{size};\tsigned:{};",
                u8::from(*signed)
            );
            offset += size;
            if rank + 1 == COMMON.len() {
                text.push('\n');
            }
        }
        let _ = write!(text, "\nprint fmt: {}\n", self.print());
        text
    }
}

/// A page of the ring buffer: perf requires it, samples do not.
fn header_page() -> String {
    let fields = [("u64 timestamp", 0, 8), ("local_t commit", 8, 8), ("int overwrite", 8, 1)];
    let mut text = String::new();
    for (name, offset, size) in fields.into_iter().chain([("char data", 16, 4080)]) {
        let _ = writeln!(text, "\tfield: {name};\toffset:{offset};\tsize:{size};\tsigned:1;");
    }
    text
}

/// The whole of `HEADER_TRACING_DATA`, version 0.6.
pub(super) fn tracing_data() -> Vec<u8> {
    let mut out = Bytes::new();
    out.raw(b"\x17\x08\x44tracing").text_z("0.6").u8(0).u8(8).u32(4096);
    let page = header_page();
    out.text_z("header_page").u64(page.len() as u64).raw(page.as_bytes());
    out.text_z("header_event").u64(0);
    out.u32(0);
    let mut systems: Vec<&str> = Tracepoint::ALL.iter().map(|point| point.name().0).collect();
    systems.dedup();
    out.u32(systems.len() as u32);
    for system in systems {
        let points: Vec<_> =
            Tracepoint::ALL.into_iter().filter(|point| point.name().0 == system).collect();
        out.text_z(system).u32(points.len() as u32);
        for point in points {
            let text = point.format();
            out.u64(text.len() as u64).raw(text.as_bytes());
        }
    }
    // kallsyms, formats of printk, saved command lines
    out.u32(0).u32(0).u64(0);
    out.0
}

/// Raw data of a tracepoint under construction: the fields before its own.
pub(super) fn common(point: Tracepoint, in_interrupt: bool, current: u32) -> Bytes {
    // TRACE_FLAG_SOFTIRQ
    let flags = if in_interrupt { 0x10 } else { 0 };
    let mut out = Bytes::new();
    out.u16(point.id()).u8(flags).u8(0).u32(current);
    out
}

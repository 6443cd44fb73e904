//! The tracepoints that are read: their fields in a perf.data, and in the text.

use std::fmt::Write as _;

use super::fields::{Printed, Switch, hex, number, value};

/// Bytes of a thread's name.
const COMM: usize = 16;
/// Bytes of an interrupt handler's name; a longer one is cut.
const NAME: usize = 32;
/// Bytes in front of the own fields: type, flags and preempt count (not in the text), thread.
const COMMON: usize = 8;

/// How a field is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stored {
    Int,
    Long,
    Text(usize),
}

impl Stored {
    fn size(self) -> usize {
        match self {
            Self::Int => 4,
            Self::Long => 8,
            Self::Text(size) => size,
        }
    }
}

/// Where a field's value is in the text.
#[derive(Clone, Copy)]
enum Source {
    /// Decimal, after `key=`.
    Number(&'static str),
    /// Hexadecimal, after `key=`.
    Hex(&'static str),
    /// After `key=`, up to the second key.
    Text(&'static str, Option<&'static str>),
    /// The number after a word, as in `cpu: 0003`.
    Word(&'static str),
}

type Field = (&'static str, Stored, Source);

/// A tracepoint: system, name, own fields.
struct Known {
    system: &'static str,
    name: &'static str,
    fields: &'static [Field],
}

const fn int(name: &'static str) -> Field {
    (name, Stored::Int, Source::Number(name))
}

const fn same(system: &'static str, name: &'static str, fields: &'static [Field]) -> Known {
    Known { system, name, fields }
}

const WOKEN: &[Field] = &[
    ("comm", Stored::Text(COMM), Source::Text("comm", Some("pid"))),
    int("pid"),
    int("prio"),
    int("target_cpu"),
];
const VECTOR: &[Field] = &[int("vector")];
const HOTPLUG: &[Field] = &[
    ("cpu", Stored::Int, Source::Word("cpu:")),
    ("target", Stored::Int, Source::Word("target:")),
    ("idx", Stored::Int, Source::Word("step:")),
];

/// `sched_switch` is the first: its text has a parser of its own.
const KNOWN: [Known; 30] = [
    same(
        "sched",
        "sched_switch",
        &[
            ("prev_comm", Stored::Text(COMM), Source::Text("prev_comm", Some("prev_pid"))),
            int("prev_pid"),
            int("prev_prio"),
            ("prev_state", Stored::Long, Source::Number("prev_state")),
            ("next_comm", Stored::Text(COMM), Source::Text("next_comm", Some("next_pid"))),
            int("next_pid"),
            int("next_prio"),
        ],
    ),
    same("sched", "sched_waking", WOKEN),
    same("sched", "sched_wakeup", WOKEN),
    same("sched", "sched_wakeup_new", WOKEN),
    same("sched", "sched_migrate_task", &[int("pid"), int("orig_cpu"), int("dest_cpu")]),
    same(
        "sched",
        "sched_process_fork",
        &[("parent_pid", Stored::Int, Source::Number("pid")), int("child_pid")],
    ),
    same("sched", "sched_process_exit", &[int("pid")]),
    same("sched", "sched_process_exec", &[int("pid"), int("old_pid")]),
    same("sched", "sched_pi_setprio", &[int("pid"), int("oldprio"), int("newprio")]),
    same(
        "task",
        "task_newtask",
        &[int("pid"), ("clone_flags", Stored::Long, Source::Hex("clone_flags"))],
    ),
    same(
        "task",
        "task_rename",
        &[
            int("pid"),
            ("newcomm", Stored::Text(COMM), Source::Text("newcomm", Some("oom_score_adj"))),
        ],
    ),
    same("irq", "softirq_entry", &[int("vec")]),
    same("irq", "softirq_exit", &[int("vec")]),
    same(
        "irq",
        "irq_handler_entry",
        &[int("irq"), ("name", Stored::Text(NAME), Source::Text("name", None))],
    ),
    same("irq", "irq_handler_exit", &[int("irq")]),
    same("power", "cpu_idle", &[int("state"), int("cpu_id")]),
    same("power", "cpu_frequency", &[int("state"), int("cpu_id")]),
    same("syscalls", "sys_enter_sched_yield", &[]),
    same("cpuhp", "cpuhp_enter", HOTPLUG),
    same("cpuhp", "cpuhp_multi_enter", HOTPLUG),
    same("irq_vectors", "local_timer_entry", VECTOR),
    same("irq_vectors", "local_timer_exit", VECTOR),
    same("irq_vectors", "reschedule_entry", VECTOR),
    same("irq_vectors", "reschedule_exit", VECTOR),
    same("irq_vectors", "call_function_entry", VECTOR),
    same("irq_vectors", "call_function_exit", VECTOR),
    same("irq_vectors", "call_function_single_entry", VECTOR),
    same("irq_vectors", "call_function_single_exit", VECTOR),
    same("irq_vectors", "irq_work_entry", VECTOR),
    same("irq_vectors", "irq_work_exit", VECTOR),
];
/// Index of `sched_switch`.
const SWITCH: usize = 0;
/// Indices of the wakeups.
const WAKEUPS: std::ops::RangeInclusive<usize> = 1..=3;
/// `softirq_vec` of Linux.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Number of the tracepoint of that name, if its fields are read.
pub(super) fn known(name: &[u8]) -> Option<usize> {
    KNOWN.iter().position(|known| {
        let (system, event) = (known.system.as_bytes(), known.name.as_bytes());
        name.len() == system.len() + 1 + event.len()
            && name.starts_with(system)
            && name.ends_with(event)
            && name[system.len()] == b':'
    })
}

/// What the texts showed about all records of a tracepoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// Some `sched_switch` was printed by the kernel's own format, which marks preempted threads.
    pub(super) has_plus: bool,
}

/// Appends a record's raw data; `None` if the text lacks a field.
pub(super) fn raw(
    event: usize,
    text: &[u8],
    tid: i32,
    out: &mut Vec<u8>,
    shown: &mut Shown,
) -> Option<()> {
    out.extend((event as u16 + FIRST_ID).to_le_bytes());
    out.extend([0, 0]);
    out.extend(tid.to_le_bytes());
    if event == SWITCH {
        let found = Switch::of(text)?;
        shown.has_plus |= found.has_plus;
        thread(found.prev, out)?;
        out.extend(found.state.to_le_bytes());
        return thread(found.next, out);
    }
    if WAKEUPS.contains(&event) && value(text, b"comm", Some(b"pid")).is_none() {
        return woken(text, out);
    }
    for (_, stored, source) in KNOWN.get(event)?.fields {
        match (*stored, *source) {
            (Stored::Text(size), Source::Text(key, next)) => {
                fixed(value(text, key.as_bytes(), next.map(str::as_bytes))?, size, out);
            }
            (Stored::Long, Source::Hex(key)) => {
                out.extend(hex(text, key.as_bytes())?.to_le_bytes())
            }
            (Stored::Int, Source::Number(key)) => int_of(number(text, key.as_bytes())?, out)?,
            (Stored::Int, Source::Word(word)) => int_of(after(text, word.as_bytes())?, out)?,
            _ => return None,
        }
    }
    Some(())
}

/// `comm:tid [priority] ... CPU:003`
fn woken(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let found = Printed::of(text)?;
    thread((found.comm, found.tid, found.priority), out)?;
    int_of(after(found.rest, b"CPU:")?, out)
}

/// The number after a word.
fn after(text: &[u8], word: &[u8]) -> Option<i64> {
    let at = text.windows(word.len()).position(|part| part == word)?;
    let digits = text.get(at + word.len()..)?.trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    crate::numbers::signed(digits.get(..end)?)
}

fn thread((comm, tid, priority): (&[u8], i64, i64), out: &mut Vec<u8>) -> Option<()> {
    fixed(comm, COMM, out);
    int_of(tid, out)?;
    int_of(priority, out)
}

/// 32 bits, signed or not.
fn int_of(number: i64, out: &mut Vec<u8>) -> Option<()> {
    let bits = i32::try_from(number).map(i32::cast_unsigned).or(u32::try_from(number)).ok()?;
    out.extend(bits.to_le_bytes());
    Some(())
}

/// A text with at least one NUL behind it.
fn fixed(text: &[u8], size: usize, out: &mut Vec<u8>) {
    let text = text.get(..text.len().min(size - 1)).unwrap_or_default();
    out.extend(text);
    out.resize(out.len() + size - text.len(), 0);
}

/// `config` of the first tracepoint.
pub(super) const FIRST_ID: u16 = 300;

/// `HEADER_TRACING_DATA` with the formats of all tracepoints.
pub(super) fn tracing_data(shown: Shown) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing0.6\0".to_vec();
    out.extend([0, 8]);
    out.extend(4096_u32.to_le_bytes());
    for part in [&b"header_page\0"[..], b"header_event\0"] {
        out.extend(part);
        out.extend(0_u64.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    out.extend((KNOWN.len() as u32).to_le_bytes());
    for (number, known) in KNOWN.iter().enumerate() {
        // A system may come more than once.
        out.extend(known.system.as_bytes());
        out.push(0);
        out.extend(1_u32.to_le_bytes());
        let text = format(number, known, shown);
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }
    // kallsyms, formats of printk, saved command lines
    out.extend([0; 16]);
    out
}

/// Text of a `format` file.
fn format(number: usize, known: &Known, shown: Shown) -> String {
    let id = number + usize::from(FIRST_ID);
    let mut text = format!(
        "name: {}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n",
        known.name
    );
    let mut offset = COMMON;
    for (name, stored, _) in known.fields {
        let (kind, array, signed) = match stored {
            // The numbers of idle states are unsigned.
            Stored::Int => ("int", "", u8::from(known.system != "power")),
            Stored::Long => ("long", "", 1),
            Stored::Text(_) => ("char", "[]", 0),
        };
        let size = stored.size();
        let _ = writeln!(
            text,
            "\tfield:{kind} {name}{array};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
        );
        offset += size;
    }
    let print = if number == SWITCH && shown.has_plus {
        format!("\"%s\", REC->prev_state & {:#x} ? \"+\" : \"\"", super::fields::PREEMPTED)
    } else if known.name.starts_with("softirq") {
        let pairs: Vec<String> =
            SOFTIRQS.iter().enumerate().map(|(n, name)| format!("{{ {n}, \"{name}\" }}")).collect();
        format!("\"%s\", __print_symbolic(REC->vec, {})", pairs.join(", "))
    } else {
        "\"\"".to_owned()
    };
    let _ = writeln!(text, "\nprint fmt: {print}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &str, text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let event = known(name.as_bytes())?;
        raw(event, text.as_bytes(), 9, &mut out, &mut Shown::default())?;
        Some(out.split_off(COMMON))
    }

    #[test]
    fn events_are_found_by_their_full_name() {
        assert_eq!(known(b"sched:sched_switch"), Some(SWITCH));
        assert_eq!((known(b"sched:sched_switc"), known(b"power:sched_switch")), (None, None));
    }

    #[test]
    fn fields_are_stored_as_their_format_says() {
        let woken = encoded("sched:sched_waking", "comm=a b pid=7 prio=120 target_cpu=003");
        let mut wanted = b"a b".to_vec();
        wanted.resize(COMM, 0);
        for number in [7_u32, 120, 3] {
            wanted.extend(number.to_le_bytes());
        }
        assert_eq!(woken, Some(wanted.clone()));
        // libtraceevent's text of the same record
        assert_eq!(encoded("sched:sched_waking", "a b:7 [120] success=1 CPU:003"), Some(wanted));
        let idle = encoded("power:cpu_idle", "state=4294967295 cpu_id=1").expect("read");
        assert_eq!(idle, [255, 255, 255, 255, 1, 0, 0, 0]);
        let online = encoded("cpuhp:cpuhp_enter", "cpu: 0001 target: 235 step: 201 (x)");
        assert_eq!(online.map(|bytes| bytes[4]), Some(235));
        assert_eq!(encoded("task:task_newtask", "pid=5 comm=a clone_flags=10f00 oom"), {
            let mut wanted = 5_u32.to_le_bytes().to_vec();
            wanted.extend(0x10f00_u64.to_le_bytes());
            Some(wanted)
        });
        assert_eq!(encoded("sched:sched_process_exit", "comm=a prio=3"), None);
    }
}

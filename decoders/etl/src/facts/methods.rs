//! Methods that the runtime of .NET compiled: their names, where their code is, and when. They are
//! those of one process, so the start of another one with its id ends them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use schedlens_input::bytes::{u32_at, u64_at};

use crate::facts::survey::class_hook;
use crate::guid::Guid;
use crate::payload::known;
use crate::payload::providers::KERNEL_PROCESS;
use crate::records::{Id, Record};

/// `Microsoft-Windows-DotNETRuntime`
pub(crate) const RUNTIME: Guid = Guid::from_text_order(0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4);
/// `Microsoft-Windows-DotNETRuntimeRundown`
pub(crate) const RUNDOWN: Guid = Guid::from_text_order(0xa669021c_c450_4609_a035_5af59af4df18);
/// `MethodLoadVerbose`; of the rundown `MethodDCStartVerbose`.
const LOAD: u16 = 143;
/// `MethodUnloadVerbose`; of the rundown `MethodDCEndVerbose`.
const UNLOAD: u16 = 144;
/// Hooks of processes that start.
pub(crate) const HOOKS: [u16; 1] = [PROCESS_START];
const PROCESS_START: u16 = 0x0301;
/// `ProcessStart` of `Microsoft-Windows-Kernel-Process`; its first field is the process.
const KERNEL_PROCESS_START: u16 = 1;
/// Of all versions, before the texts: `MethodID`, `ModuleID`, `MethodStartAddress`, `MethodSize`,
/// `MethodToken`, `MethodFlags`.
const START: usize = 16;
const SIZE: usize = 24;
const TEXTS: usize = 36;

/// More methods than this are not read: a large program has some 100,000.
const MOST: usize = 1 << 21;
/// Longer code of one method is damage.
const LARGEST: u32 = 64 << 20;
/// A longer name is cut.
const LONGEST: usize = 1 << 10;

/// A method's code appears at an address of a process, or disappears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Time in ns; the least: before the recording.
    pub ts: i64,
    /// Process.
    pub pid: u32,
    /// First address.
    pub start: u64,
    /// Number of bytes.
    pub size: u32,
    /// Number of the name; `None`: what was there disappears.
    pub name: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Load,
    Unload,
    /// It exists.
    Listed,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    ts: i64,
    what: What,
    pid: u32,
    start: u64,
    size: u32,
    name: u32,
}

/// All methods of a recording.
#[derive(Debug, Default)]
pub struct Methods {
    events: Vec<Event>,
    /// Time and process, by raw time once all are read.
    starts: Vec<(i64, u32)>,
    numbers: HashMap<Arc<str>, u32>,
    /// Records that were left out.
    pub left_out: i64,
    /// Type and name of each method, as `Namespace.Type.Method`.
    pub names: Vec<Arc<str>>,
    /// By time.
    pub changes: Vec<Change>,
}

impl Methods {
    /// Reads a record; `false` if it is not about a method or the start of a process.
    pub(crate) fn take(&mut self, record: &Record<'_>) -> bool {
        let Id::Event { provider, id, .. } = record.id else {
            let Some(pid) = started_process(record) else { return false };
            self.start(record.ts, pid);
            return true;
        };
        let what = match (provider, id) {
            (RUNTIME, LOAD) => What::Load,
            (RUNTIME, UNLOAD) => What::Unload,
            (RUNDOWN, LOAD | UNLOAD) => What::Listed,
            (KERNEL_PROCESS, KERNEL_PROCESS_START) => {
                if let Some(pid) = u32_at(record.payload, 0) {
                    self.start(record.ts, pid);
                }
                return true;
            }
            _ => return false,
        };
        self.event(what, record);
        true
    }

    /// The id of a process may have been that of another one, whose methods are gone.
    fn start(&mut self, ts: i64, pid: u32) {
        if self.starts.len() < MOST {
            self.starts.push((ts, pid));
        } else {
            self.left_out += 1;
        }
    }

    fn event(&mut self, what: What, record: &Record<'_>) {
        let payload = record.payload;
        let (Some(start), Some(size), Some(pid)) =
            (u64_at(payload, START), u32_at(payload, SIZE), record.pid)
        else {
            return;
        };
        let Some(texts) = payload.get(TEXTS..) else { return };
        let is_valid = size > 0 && size <= LARGEST && start.checked_add(size.into()).is_some();
        if !is_valid {
            return;
        }
        if self.events.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let (class, rest) = text(texts);
        let (method, _) = text(rest);
        let name = if class.is_empty() { method } else { format!("{class}.{method}") };
        let name = self.number(name);
        self.events.push(Event { ts: record.ts, what, pid, start, size, name });
    }

    fn number(&mut self, name: String) -> u32 {
        let name: Arc<str> = Arc::from(name);
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        number
    }

    /// Call this after the last record.
    ///
    /// A method that a rundown lists was there from the start of its process, or from when another
    /// one was unloaded from that address.
    pub(crate) fn finish(&mut self, ns: &impl Fn(i64) -> i64) {
        let mut events = std::mem::take(&mut self.events);
        let mut starts = std::mem::take(&mut self.starts);
        self.numbers = HashMap::new();
        events.sort_by_key(|event| event.ts);
        starts.sort_unstable();
        let mut starts = starts.into_iter().peekable();
        let mut by_process: HashMap<u32, Process> = HashMap::new();
        for event in &events {
            while let Some((ts, pid)) = starts.next_if(|(ts, _)| *ts <= event.ts) {
                self.restart(by_process.entry(pid).or_default(), ts, pid);
            }
            let Event { pid, start, size, .. } = *event;
            let process = by_process.entry(pid).or_default();
            let own = (event.name, size);
            let is_open = process.open.get(&start) == Some(&own);
            let since = process.free.get(&start).copied().unwrap_or(process.since);
            let mut change = |ts, name| self.changes.push(Change { ts, pid, start, size, name });
            match event.what {
                What::Load => change(event.ts, Some(event.name)),
                _ if !is_open => change(since, Some(event.name)),
                _ => {}
            }
            if event.what == What::Unload {
                change(event.ts, None);
                process.open.remove(&start);
                process.free.insert(start, event.ts);
            } else {
                process.open.insert(start, own);
            }
        }
        for (ts, pid) in starts {
            self.restart(by_process.entry(pid).or_default(), ts, pid);
        }
        for change in &mut self.changes {
            if change.ts != i64::MIN {
                change.ts = ns(change.ts);
            }
        }
        // At equal times what disappears makes room for what appears.
        self.changes.sort_by_key(|change| (change.ts, change.name.is_some()));
    }

    /// All methods of the process that had this id before disappear.
    fn restart(&mut self, process: &mut Process, ts: i64, pid: u32) {
        let open = std::mem::take(&mut process.open);
        *process = Process { since: ts, ..Process::default() };
        let gone = |(start, (_, size))| Change { ts, pid, start, size, name: None };
        self.changes.extend(open.into_iter().map(gone));
    }
}

/// The methods of a process up to a record.
struct Process {
    /// When it started; the least: before the recording.
    since: i64,
    /// By address: name and size of what is there.
    open: BTreeMap<u64, (u32, u32)>,
    /// By address: when a method was unloaded from there.
    free: HashMap<u64, i64>,
}

impl Default for Process {
    fn default() -> Self {
        Self { since: i64::MIN, open: BTreeMap::new(), free: HashMap::new() }
    }
}

/// The process that starts in a record of the kernel logger.
fn started_process(record: &Record<'_>) -> Option<u32> {
    let hook = match record.id {
        Id::Hook(hook) => hook,
        _ => class_hook(&record.id)?,
    };
    if hook != PROCESS_START {
        return None;
    }
    let read = known::hook(hook, record.version, record.payload, record.pointer.size());
    read.and_then(|(_, fields)| fields.id("ProcessId"))
}

/// A text of UTF-16 up to its end, and what follows.
fn text(bytes: &[u8]) -> (String, &[u8]) {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let length = units.clone().take_while(|unit| *unit != 0).count();
    let text = char::decode_utf16(units.take(length.min(LONGEST)));
    let text = text.map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    (text, bytes.get(2 * length + 2..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ts: i64, what: What, start: u64, name: u32) -> Event {
        Event { ts, what, pid: 7, start, size: 16, name }
    }

    /// Time, address and name of each change.
    fn changes(events: Vec<Event>, starts: Vec<(i64, u32)>) -> Vec<(i64, u64, Option<u32>)> {
        let mut methods = Methods { events, starts, ..Methods::default() };
        methods.finish(&|raw| raw);
        methods.changes.iter().map(|change| (change.ts, change.start, change.name)).collect()
    }

    // at 0x10: A from the start, unloaded at 5; B loaded at 9, listed at 20
    // at 0x20: C is listed at 20 only; D was unloaded there at 12
    #[test]
    fn a_listed_method_was_there_since_the_one_before_it_was_unloaded() {
        let events = vec![
            event(20, What::Listed, 0x10, 1),
            event(5, What::Unload, 0x10, 0),
            event(9, What::Load, 0x10, 1),
            event(20, What::Listed, 0x20, 2),
            event(12, What::Unload, 0x20, 3),
        ];
        let expected = [
            (i64::MIN, 0x10, Some(0)),
            (i64::MIN, 0x20, Some(3)),
            (5, 0x10, None),
            (9, 0x10, Some(1)),
            (12, 0x20, None),
            (12, 0x20, Some(2)),
        ];
        assert_eq!(changes(events, Vec::new()), expected);
    }

    // at 0x10: A, loaded at 5, and B, listed at 20; at 0x20: C, unloaded at 25; process 7 starts anew
    // at 10 and at 30
    #[test]
    fn a_process_that_starts_has_no_methods_of_the_one_with_its_id_before() {
        let events = vec![
            event(5, What::Load, 0x10, 0),
            event(20, What::Listed, 0x10, 1),
            event(25, What::Unload, 0x20, 2),
        ];
        let expected = [
            (5, 0x10, Some(0)),
            (10, 0x10, None),
            (10, 0x10, Some(1)),
            (10, 0x20, Some(2)),
            (25, 0x20, None),
            (30, 0x10, None),
        ];
        assert_eq!(changes(events, vec![(30, 7), (10, 7), (10, 8)]), expected);
    }

    #[test]
    fn texts_end_at_their_zero_or_where_the_bytes_end() {
        assert_eq!(text(b"a\0b\0\0\0c\0"), ("ab".to_owned(), &b"c\0"[..]));
        assert_eq!(text(b"a\0b"), ("a".to_owned(), &b""[..]));
        assert_eq!(text(b""), (String::new(), &b""[..]));
    }
}

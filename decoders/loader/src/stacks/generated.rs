//! Code of just-in-time compilers as their dumps list it, in the order of time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use schedlens_symbols::jit_dump;

use super::modules::Method;
use super::spaces::Spaces;

/// More dumps than this are not read.
const MOST_DUMPS: usize = 1 << 10;

/// The functions of a dump by time, in ns.
type Functions = Rc<[(i64, jit_dump::Generated)]>;

/// A dump that a process mapped, and how many of its functions have been made.
#[derive(Debug)]
struct Dump {
    pid: i32,
    functions: Functions,
    made: usize,
}

/// The dumps that the processes of a recording mapped.
#[derive(Debug)]
pub(crate) struct Generated {
    /// Folders with copies of dumps, which are preferred.
    pub(crate) folders: Vec<PathBuf>,
    /// Raw time at ns 0, if the recording has the clock of dumps.
    start_clock: Option<i64>,
    unread: Vec<(i32, String)>,
    dumps: Vec<Dump>,
    /// Those that were read: workers of one server have the dump of their parent.
    known: HashMap<PathBuf, Functions>,
    read: usize,
    next_ns: i64,
}

impl Generated {
    pub(crate) fn new(start_clock: Option<i64>) -> Self {
        Self {
            folders: Vec::new(),
            start_clock,
            unread: Vec::new(),
            dumps: Vec::new(),
            known: HashMap::new(),
            read: 0,
            next_ns: i64::MAX,
        }
    }

    /// A process maps a file: its compiler's dump, if it is named like one.
    pub(crate) fn mapped(&mut self, pid: i32, path: &str) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let number = name.strip_prefix("jit-").and_then(|rest| rest.strip_suffix(".dump"));
        let is_dump = number.is_some_and(|text| text.parse::<u32>().is_ok());
        let known = (pid, path.to_owned());
        if is_dump && self.read < MOST_DUMPS && !self.unread.contains(&known) {
            self.read += 1;
            self.unread.push(known);
            self.next_ns = i64::MIN;
        }
    }

    /// A process runs another program.
    pub(crate) fn exec(&mut self, pid: i32) {
        self.unread.retain(|(of, _)| *of != pid);
        self.dumps.retain(|dump| dump.pid != pid);
    }

    /// Applies what compilers had made by a time.
    #[inline(always)]
    pub(crate) fn apply(&mut self, now_ns: i64, spaces: &mut Spaces) {
        if self.next_ns <= now_ns {
            self.apply_due(now_ns, spaces);
        }
    }

    #[inline(never)]
    fn apply_due(&mut self, now_ns: i64, spaces: &mut Spaces) {
        for (pid, path) in std::mem::take(&mut self.unread) {
            let functions = self.functions(pid, &path);
            // The process may map its dump twice.
            self.dumps.retain(|dump| dump.pid != pid);
            self.dumps.push(Dump { pid, functions, made: 0 });
        }
        self.next_ns = i64::MAX;
        for dump in &mut self.dumps {
            let rest = dump.functions.get(dump.made..).unwrap_or_default();
            for (ts, made) in rest {
                if *ts > now_ns {
                    self.next_ns = self.next_ns.min(*ts);
                    break;
                }
                dump.made += 1;
                apply(dump.pid, made, spaces);
            }
        }
    }

    /// The functions of the first of the files that is a dump.
    fn functions(&mut self, pid: i32, path: &str) -> Functions {
        let name = path.rsplit('/').next().unwrap_or_default();
        let folders = self.folders.iter();
        // Copies of dumps of other names than their process are in a folder of its number.
        let copies =
            folders.flat_map(|folder| [folder.join(pid.to_string()).join(name), folder.join(name)]);
        let places: Vec<PathBuf> = copies.chain([Path::new(path).to_path_buf()]).collect();
        for place in places {
            if let Some(known) = self.known.get(&place) {
                return Rc::clone(known);
            }
            let Ok(read) = jit_dump::read(&place) else { continue };
            let mut functions: Vec<_> =
                read.into_iter().map(|made| (self.ns(made.ts), made)).collect();
            // Stable: functions of equal times keep the order of the file.
            functions.sort_by_key(|(ts, _)| *ts);
            let functions: Functions = functions.into();
            self.known.insert(place, Rc::clone(&functions));
            return functions;
        }
        Functions::default()
    }

    /// A time of a dump; the least if it is unknown.
    fn ns(&self, ts: Option<u64>) -> i64 {
        let raw = ts.and_then(|ts| i64::try_from(ts).ok());
        let ns = raw.zip(self.start_clock).map(|(raw, start)| raw.saturating_sub(start));
        ns.unwrap_or(i64::MIN)
    }
}

/// A function appears in a process.
fn apply(pid: i32, made: &jit_dump::Generated, spaces: &mut Spaces) {
    if let Some(from) = made.from {
        spaces.compile(pid, from..from.saturating_add(1), None);
    }
    let (start, size) = (made.start, made.size);
    let lines = made
        .lines
        .iter()
        .map(|(distance, file, line)| (start.saturating_add(*distance), Arc::clone(file), *line));
    let method = Method { name: Arc::clone(&made.name), lines: lines.collect() };
    spaces.compile(pid, start..start.saturating_add(size), Some(Arc::new(method)));
}

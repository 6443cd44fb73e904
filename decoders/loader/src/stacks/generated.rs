//! Code of just-in-time compilers as their dumps list it, in the order of time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schedlens_symbols::jit_dump;

use super::modules::Method;
use super::spaces::Spaces;

/// More dumps than this are not read.
const MOST_DUMPS: usize = 1 << 10;

/// What one dump contains that has not happened yet, the next one last.
#[derive(Debug)]
struct Dump {
    pid: i32,
    coming: Vec<(i64, jit_dump::Generated)>,
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
            let coming = self.coming(&path);
            // The process may map its dump twice.
            self.dumps.retain(|dump| dump.pid != pid);
            self.dumps.push(Dump { pid, coming });
        }
        self.next_ns = i64::MAX;
        for dump in &mut self.dumps {
            while let Some((_, made)) = dump.coming.pop_if(|(ts, _)| *ts <= now_ns) {
                if let Some(from) = made.from {
                    spaces.compile(dump.pid, from..from.saturating_add(1), None);
                }
                let (start, size) = (made.start, made.size);
                let lines = made.lines.iter().map(|(distance, file, line)| {
                    (start.saturating_add(*distance), Arc::clone(file), *line)
                });
                let method = Method { name: made.name, lines: lines.collect() };
                let code = start..start.saturating_add(size);
                spaces.compile(dump.pid, code, Some(Arc::new(method)));
            }
            let next = dump.coming.last().map_or(i64::MAX, |(ts, _)| *ts);
            self.next_ns = self.next_ns.min(next);
        }
    }

    /// The functions of a dump, the last one first.
    fn coming(&self, path: &str) -> Vec<(i64, jit_dump::Generated)> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let copies = self.folders.iter().map(|folder| folder.join(name));
        let read = copies
            .chain([Path::new(path).to_path_buf()])
            .find_map(|place| jit_dump::read(&place).ok());
        let mut coming: Vec<_> = read
            .unwrap_or_default()
            .into_iter()
            .map(|made| {
                let raw = made.ts.and_then(|ts| i64::try_from(ts).ok());
                let ts = raw.zip(self.start_clock).map(|(raw, start)| raw.saturating_sub(start));
                (ts.unwrap_or(i64::MIN), made)
            })
            .collect();
        coming.reverse();
        // Stable: of equal times the first in the file is the last one here.
        coming.sort_by_key(|(ts, _)| std::cmp::Reverse(*ts));
        coming
    }
}

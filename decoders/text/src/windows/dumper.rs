//! `xperf -i FILE -o TEXT -a dumper`: one line per event, columns named in the header.

use std::io::Read;

use super::cells::cells;
use super::decimal::Decimal;
use super::row::{Facts, Kind, LATEST_NS, Left, Row, Who};
use super::words::{id, mode, process, reason, state};
use crate::error::{CUT_OFF, Error, Problem, TOO_LONG};
use crate::lines::Lines;
use crate::numbers::{short, signed};

/// Whether a line begins a text of the dumper, or names the columns of its switches.
pub(crate) fn begins(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    if line == b"BeginHeader" {
        return true;
    }
    let mut found = cells(line);
    found.next() == Some(b"CSwitch") && found.next() == Some(TIME)
}

/// The first column of each event.
const TIME: &[u8] = b"TimeStamp";
const NO_CELLS: &str = "an event whose columns are not those of its header: left out";

/// Events that are read.
const EVENTS: [(&[u8], Kind); 6] = [
    (b"CSwitch", Kind::Switch),
    (b"ReadyThread", Kind::Ready),
    (b"T-Start", Kind::Start),
    (b"T-End", Kind::End),
    (b"T-DCStart", Kind::Listed),
    (b"T-DCEnd", Kind::Listed),
];

/// A column that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time,
    NewProcess,
    NewTid,
    NewPriority,
    OldProcess,
    OldTid,
    OldPriority,
    OldState,
    Reason,
    Mode,
    Cpu,
    Ideal,
    Quantum,
    CState,
    ByProcess,
    ByTid,
    InDpc,
    Other,
}

/// Name without spaces, in lower case: versions of xperf differ in them.
fn folded(name: &[u8]) -> Vec<u8> {
    name.iter().filter(|byte| **byte != b' ').map(u8::to_ascii_lowercase).collect()
}

fn column(kind: Kind, name: &[u8]) -> Column {
    use Column as C;
    match (kind, folded(name).as_slice()) {
        (_, b"timestamp") => C::Time,
        (_, b"cpu") => C::Cpu,
        (Kind::Switch, b"newprocessname(pid)") => C::NewProcess,
        (Kind::Switch, b"newtid" | b"newthreadid") => C::NewTid,
        (Kind::Switch, b"npri") => C::NewPriority,
        (Kind::Switch, b"oldprocessname(pid)" | b"oldprocess(pid)") => C::OldProcess,
        (Kind::Switch, b"oldtid" | b"oldthreadid") => C::OldTid,
        (Kind::Switch, b"opri") => C::OldPriority,
        (Kind::Switch, b"oldstate") => C::OldState,
        (Kind::Switch, b"waitreason") => C::Reason,
        (Kind::Switch, b"swapable" | b"swappable") => C::Mode,
        (Kind::Switch, b"idealproc") => C::Ideal,
        (Kind::Switch, b"oldremqnt") => C::Quantum,
        (Kind::Switch, b"prevcstate") => C::CState,
        // The running thread makes the other one ready.
        (Kind::Ready, b"processname(pid)") => C::ByProcess,
        (Kind::Ready, b"threadid") => C::ByTid,
        (Kind::Ready, b"rdyprocessname(pid)") => C::NewProcess,
        (Kind::Ready, b"rdytid" | b"rdythreadid") => C::NewTid,
        (Kind::Ready, b"indpc") => C::InDpc,
        (_, b"processname(pid)") if kind != Kind::Switch => C::NewProcess,
        (_, b"threadid") if kind != Kind::Switch => C::NewTid,
        _ => C::Other,
    }
}

/// Reads a text row by row.
pub struct Dumper<R: Read> {
    lines: Lines<R>,
    /// Columns by place in [`EVENTS`]; empty until the header names them.
    columns: [Vec<Column>; EVENTS.len()],
    facts: Facts,
    problems: Vec<Problem>,
}

impl<R: Read> Dumper<R> {
    /// Starts at the first line.
    ///
    /// # Errors
    /// Reading fails.
    pub fn new(text: R) -> Result<Self, Error> {
        Ok(Self {
            lines: Lines::new(text)?,
            columns: Default::default(),
            facts: Facts::default(),
            problems: Vec::new(),
        })
    }

    /// Bytes read so far.
    pub fn read(&self) -> u64 {
        self.lines.read()
    }

    /// What the text stated so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What could not be read so far.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The next row; `None` after the last.
    ///
    /// # Errors
    /// Reading fails.
    pub fn next_row(&mut self) -> Result<Option<Row>, Error> {
        while let Some(line) = self.lines.next_line()? {
            if line.is_too_long {
                Problem::count(&mut self.problems, line.number, TOO_LONG);
                continue;
            }
            if !line.is_whole {
                Problem::count(&mut self.problems, line.number, CUT_OFF);
                return Ok(None);
            }
            let mut found = cells(line.bytes);
            let name = found.next().unwrap_or_default();
            let Some(at) = EVENTS.iter().position(|(event, _)| *event == name) else {
                note(&mut self.facts, line.bytes);
                continue;
            };
            let kind = EVENTS[at].1;
            if found.next() == Some(TIME) {
                self.facts.has_ready |= kind == Kind::Ready;
                self.columns[at] = cells(line.bytes).skip(1).map(|c| column(kind, c)).collect();
                continue;
            }
            match row(kind, &self.columns[at], cells(line.bytes).skip(1)) {
                Some(row) => return Ok(Some(Row { line: line.number, ..row })),
                None => Problem::count(&mut self.problems, line.number, NO_CELLS),
            }
        }
        Ok(None)
    }
}

fn row<'a>(kind: Kind, columns: &[Column], found: impl Iterator<Item = &'a [u8]>) -> Option<Row> {
    use Column as C;
    let mut row = Row { kind, ..Row::default() };
    let (mut new, mut old, mut by) = (Who::default(), Who::default(), Who::default());
    let (mut new_tid, mut old_tid, mut by_tid) = (None, None, None);
    let mut left = Left::default();
    let mut cells_read = 0;
    for (column, cell) in columns.iter().zip(found) {
        cells_read += 1;
        match column {
            C::Time => row.ts = time(cell),
            C::NewProcess => new = process(cell),
            C::NewTid => new_tid = id(cell),
            C::NewPriority => row.priority = short(cell),
            C::OldProcess => old = process(cell),
            C::OldTid => old_tid = id(cell),
            C::OldPriority => left.priority = short(cell),
            C::OldState => left.state = Some(state(cell)?),
            C::Reason => left.reason = Some(reason(cell)?),
            C::Mode => left.mode = mode(cell),
            C::Cpu => row.cpu = Some(short(cell).filter(|cpu| (0..MOST_CPUS).contains(cpu))?),
            C::Ideal => row.ideal = short(cell),
            C::Quantum => row.remaining_quantum = short(cell),
            C::CState => row.cstate = short(cell),
            C::ByProcess => by = process(cell),
            C::ByTid => by_tid = id(cell),
            C::InDpc => row.in_dpc = yes(cell),
            C::Other => {}
        }
    }
    row.ts?;
    (new.tid, old.tid, by.tid) = (new_tid, old_tid, by_tid);
    let is_complete = match kind {
        // Without all cells, a line was cut or a name contains commas.
        Kind::Switch => {
            cells_read == columns.len()
                && row.cpu.is_some()
                && new.tid.is_some()
                && old.tid.is_some()
                && left.state.is_some()
        }
        _ => new.tid.is_some(),
    };
    // Only the idle thread leaves an idle state.
    row.cstate = row.cstate.filter(|_| old.tid == Some(0));
    (row.new, row.old, row.by, row.old_left) = (new, old, by, left);
    is_complete.then_some(row)
}

/// As many as the decoders accept.
const MOST_CPUS: i32 = 1 << 13;

/// µs as ns; a few versions print decimals.
fn time(cell: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(cell).ok()?;
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    Decimal::Point.scaled(text, 3).filter(|ns| *ns <= LATEST_NS)
}

fn yes(cell: &[u8]) -> Option<bool> {
    match cell.to_ascii_lowercase().as_slice() {
        b"1" | b"yes" | b"true" | b"indpc" => Some(true),
        b"0" | b"no" | b"false" | b"" => Some(false),
        _ => None,
    }
}

/// Reads the lines between the header and the events.
fn note(facts: &mut Facts, line: &[u8]) {
    let line = line.trim_ascii();
    if let Some(rest) = line.strip_prefix(b"FirstReliableCSwitchEventTimeStamp,") {
        facts.reliable_from = time(rest.trim_ascii()).filter(|ts| *ts > 0);
    }
    if !line.starts_with(b"OS Version:") {
        return;
    }
    for part in cells(line) {
        let text = String::from_utf8_lossy(part);
        let Some((key, value)) = text.split_once(':') else { continue };
        let number = || signed(value.as_bytes());
        match key.to_ascii_lowercase().as_str() {
            "os version" => facts.os = Some(format!("Windows {}", value.trim())),
            "events lost" => facts.events_lost = number(),
            "buffers lost" => facts.buffers_lost = number(),
            "trace start" => facts.start = number().filter(|start| *start > 0),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "BeginHeader\n\
        CSwitch,  TimeStamp, New Process Name ( PID),    New TID, NPri, NQnt, TmSinceLast, \
        WaitTime, Old Process Name ( PID),    Old TID, OPri, OQnt,        OldState,      \
        Wait Reason, Swapable, InSwitchTime, CPU, IdealProc,  OldRemQnt, NewPriDecr, PrevCState\n\
        ReadyThread,  TimeStamp, Process Name ( PID),   ThreadID, Rdy Process Name ( PID),    \
        Rdy TID, AdjustReason, AdjustIncrement, InDPC\n\
        EndHeader\n\
        OS Version: 10.0.26100, Trace Size: 64KB, Events Lost: 3, Buffers lost: 1, \
        Trace Start: 133000000000000000, Trace Length: 1 sec, PointerSize: 8\n\
        FirstReliableCSwitchEventTimeStamp, 120\n";
    const ROWS: &str = "CSwitch, 214, a b.exe (  12), 34, 9, -1, 6, 0, Idle (   0), 0, 0, -1, \
        Running, Executive, NonSwap, 6, 1, 3, 84017152, 0, 2\n\
        ReadyThread, 215, a b.exe (  12), 34, System (   4), 88, 1, 0, 1\n\
        Pmc, 216, 5, 6\n";

    fn rows(text: &str) -> (Vec<Row>, Facts, Vec<Problem>) {
        let mut dumper = Dumper::new(text.as_bytes()).expect("opened");
        let mut found = Vec::new();
        while let Some(row) = dumper.next_row().expect("read") {
            found.push(row);
        }
        (found, dumper.facts().clone(), dumper.problems().to_vec())
    }

    #[test]
    fn rows_are_read_by_the_names_of_their_columns() {
        let (found, facts, problems) = rows(&format!("{HEAD}{ROWS}"));
        assert_eq!((found.len(), problems), (2, vec![]));
        let switch = &found[0];
        assert_eq!((switch.ts, switch.cpu, switch.new.tid), (Some(214_000), Some(1), Some(34)));
        assert_eq!(switch.new.process.as_deref(), Some("a b.exe"));
        assert_eq!((switch.old.tid, switch.old_left.state), (Some(0), Some(2)));
        assert_eq!((switch.remaining_quantum, switch.cstate), (Some(84_017_152), Some(2)));
        let ready = &found[1];
        assert_eq!((ready.new.tid, ready.by.tid, ready.in_dpc), (Some(88), Some(34), Some(true)));
        assert_eq!((facts.events_lost, facts.buffers_lost), (Some(3), Some(1)));
        assert_eq!(facts.reliable_from, Some(120_000));
        assert!(facts.has_ready);
    }

    #[test]
    fn a_text_cut_anywhere_never_gives_a_wrong_row() {
        let text = format!("{HEAD}{ROWS}");
        let whole = rows(&text).0;
        for end in 0..text.len() {
            let (found, _, problems) = rows(&text[..end]);
            assert!(whole.starts_with(&found), "{end}");
            let is_cut = end > 0 && text.as_bytes()[end - 1] != b'\n';
            assert_eq!(problems.iter().any(|p| p.what == CUT_OFF), is_cut, "{end}");
        }
    }

    #[test]
    fn rows_without_their_columns_are_counted() {
        let text = format!("{HEAD}CSwitch, 1, x, 2\nCSwitch, a\nReadyThread, 5\n{ROWS}");
        let (found, _, problems) = rows(&text);
        assert_eq!((found.len(), problems.len(), problems[0].count), (2, 1, 3));
        assert_eq!(rows(ROWS).2[0].count, 2);
    }
}

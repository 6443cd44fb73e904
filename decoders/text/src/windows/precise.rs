//! A table CPU Usage (Precise) that wpaexporter or WPA wrote as CSV: one row per switch-in.

use std::io::{Read, Seek, SeekFrom};

use super::decimal::Decimal;
use super::row::{Facts, Kind, LATEST_NS, Left, Row, Who};
use super::table::{Record, Table};
use super::words::{id, mode, process, reason, state};
use crate::error::{CUT_OFF, Error, Problem};
use crate::lines::Lines;

const NO_CELLS: &str = "a row with more or fewer cells than the header has columns: left out";
const NO_NUMBER: &str = "a row whose thread, CPU or time is not a number: left out";
const SUMMED: &str =
    "a row that sums up several switch-ins: left out. Export a table without grouping";
const TOO_LONG: &str = "a row of more than 1 MiB: left out";

/// A column that is read. Each is read once: of columns of the same name, the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    NewProcess,
    NewProcessName,
    NewTid,
    ThreadName,
    OldProcess,
    OldProcessName,
    OldTid,
    ByProcess,
    ByProcessName,
    ByTid,
    SwitchIn,
    Ready,
    LastOut,
    NextOut,
    ReadyLength,
    SinceLast,
    Cpu,
    InPriority,
    OutPriority,
    NewState,
    NewReason,
    NewMode,
    OldPriority,
    OldState,
    OldReason,
    OldMode,
    Ideal,
    CState,
    Quantum,
    InDpc,
    Count,
}

const COLUMNS: usize = Column::Count as usize + 1;

/// Names in lower case without spaces, hyphens and units.
const NAMES: [(&str, Column); 41] = [
    ("newprocess", Column::NewProcess),
    ("newprocessname", Column::NewProcessName),
    ("newthreadid", Column::NewTid),
    ("newtid", Column::NewTid),
    ("threadname", Column::ThreadName),
    ("newthreadname", Column::ThreadName),
    ("oldprocess", Column::OldProcess),
    ("oldprocessname", Column::OldProcessName),
    ("oldthreadid", Column::OldTid),
    ("oldtid", Column::OldTid),
    ("readyingprocess", Column::ByProcess),
    ("readyingprocessname", Column::ByProcessName),
    ("readyingthreadid", Column::ByTid),
    ("readyingtid", Column::ByTid),
    ("switchintime", Column::SwitchIn),
    ("newswitchintime", Column::SwitchIn),
    ("newinswitchtime", Column::SwitchIn),
    ("readytime", Column::Ready),
    ("lastswitchouttime", Column::LastOut),
    ("nextswitchouttime", Column::NextOut),
    ("ready", Column::ReadyLength),
    ("timesincelast", Column::SinceLast),
    ("cpu", Column::Cpu),
    ("newinpri", Column::InPriority),
    ("newoutpri", Column::OutPriority),
    ("newstate", Column::NewState),
    ("newwaitreason", Column::NewReason),
    ("newwaitmode", Column::NewMode),
    ("oldoutpri", Column::OldPriority),
    ("oldstate", Column::OldState),
    ("oldwaitreason", Column::OldReason),
    ("oldwaitmode", Column::OldMode),
    ("idealcpu", Column::Ideal),
    ("prevcstate", Column::CState),
    ("oldremqnt", Column::Quantum),
    ("oldthreadremainingquantum", Column::Quantum),
    ("oldremainingquantum", Column::Quantum),
    ("readythreadindpc", Column::InDpc),
    ("indpc", Column::InDpc),
    ("count", Column::Count),
    ("contextswitchcount", Column::Count),
];

/// Decimals of ns in each unit of time.
const UNITS: [(&str, u32); 4] = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
/// Decimals of a time in s.
const SECONDS: u32 = 9;
/// Decimals of a length in µs: WPA's unit unless another is named.
const MICROSECONDS: u32 = 3;

/// A header's name without case, spaces and hyphens, and its unit.
fn folded(name: &str) -> (String, Option<String>) {
    let (name, unit) = match name.trim().strip_suffix(')').and_then(|name| name.rsplit_once('(')) {
        Some((name, unit)) => (name, Some(unit)),
        None => (name, None),
    };
    let plain = |text: &str| -> String {
        let kept = text.chars().filter(|c| c.is_alphanumeric());
        // Both signs for micro: U+00B5, and U+03BC, which is also its lower case.
        kept.flat_map(char::to_lowercase)
            .map(|c| if matches!(c, '\u{b5}' | '\u{3bc}') { 'u' } else { c })
            .collect()
    };
    (plain(name), unit.map(plain))
}

/// The character that separates the cells of a header.
fn delimiter(header: &[u8]) -> u8 {
    let count = |wanted: u8| {
        let mut in_quotes = false;
        let is_one = |byte: &u8| {
            in_quotes ^= *byte == b'"';
            *byte == wanted && !in_quotes
        };
        header.iter().copied().filter(is_one).count()
    };
    // Of equal counts the first.
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|byte| count(*byte)).unwrap_or(b',')
}

/// Whether a line is the header of such a table.
pub(crate) fn begins(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let separator = char::from(delimiter(line));
    let names: Vec<String> =
        text.split(separator).map(|name| folded(name.trim().trim_matches('"')).0).collect();
    let has = |wanted: Column| {
        NAMES.iter().any(|(name, column)| *column == wanted && names.iter().any(|n| n == name))
    };
    has(Column::NewTid) && (has(Column::SwitchIn) || has(Column::Cpu) || has(Column::NextOut))
}

/// Reads a table row by row.
pub struct Precise<R: Read> {
    table: Table<R>,
    /// Place of each column and the decimals of its unit.
    places: [Option<(usize, u32)>; COLUMNS],
    columns: usize,
    decimal: Decimal,
    facts: Facts,
    problems: Vec<Problem>,
}

/// Rows that are examined for the locale of their numbers.
const EXAMINED: usize = 4096;

impl<R: Read + Seek> Precise<R> {
    /// Reads the header, and from the first rows the locale.
    ///
    /// # Errors
    /// Reading fails, or a column is missing.
    pub fn new(mut text: R) -> Result<Self, Error> {
        let mut delimiter_found = b',';
        {
            let mut lines = Lines::new(&mut text)?;
            while let Some(line) = lines.next_line()? {
                if !line.bytes.trim_ascii().is_empty() {
                    delimiter_found = delimiter(line.bytes);
                    break;
                }
            }
        }
        text.seek(SeekFrom::Start(0))?;
        let mut decimal = None;
        {
            let mut first = Precise::open(&mut text, delimiter_found, Decimal::Point)?;
            for _ in 0..EXAMINED {
                let Some(record) = first.table.next_record()? else { break };
                let times = [Column::SwitchIn, Column::NextOut, Column::LastOut, Column::Ready];
                decimal = times.into_iter().find_map(|column| {
                    let (at, _) = first.places[column as usize]?;
                    Decimal::shown_by(std::str::from_utf8(record.cell(at)?).ok()?)
                });
                if decimal.is_some() {
                    break;
                }
            }
        }
        text.seek(SeekFrom::Start(0))?;
        Precise::open(text, delimiter_found, decimal.unwrap_or_default())
    }
}

impl<R: Read> Precise<R> {
    fn open(text: R, delimiter: u8, decimal: Decimal) -> Result<Self, Error> {
        let mut table = Table::new(text, delimiter)?;
        let mut places = [None; COLUMNS];
        let mut columns = 0;
        if let Some(header) = table.next_record()? {
            columns = header.len();
            for at in 0..columns {
                let name = String::from_utf8_lossy(header.cell(at).unwrap_or_default());
                let (name, unit) = folded(&name);
                let Some((_, column)) = NAMES.iter().find(|(known, _)| *known == name) else {
                    continue;
                };
                let usual = match column {
                    Column::ReadyLength | Column::SinceLast => MICROSECONDS,
                    _ => SECONDS,
                };
                let unit = unit.and_then(|unit| UNITS.iter().find(|(name, _)| *name == unit));
                let decimals = unit.map_or(usual, |(_, decimals)| *decimals);
                let place: &mut Option<_> = &mut places[*column as usize];
                place.get_or_insert((at, decimals));
            }
        }
        for (column, name) in [
            (Column::NewTid, "New Thread Id"),
            (Column::SwitchIn, "Switch-In Time"),
            (Column::Cpu, "CPU"),
        ] {
            if places[column as usize].is_none() {
                return Err(Error::Column { column: name });
            }
        }
        let has_ready = [Column::Ready, Column::ReadyLength]
            .into_iter()
            .any(|column| places[column as usize].is_some());
        let facts = Facts { has_ready, ..Facts::default() };
        Ok(Self { table, places, columns, decimal, facts, problems: Vec::new() })
    }

    /// Bytes read so far.
    pub fn read(&self) -> u64 {
        self.table.read()
    }

    /// What the text states.
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
        while let Some(record) = self.table.next_record()? {
            let what = if record.is_too_long {
                TOO_LONG
            } else if !record.is_whole {
                CUT_OFF
            } else if record.len() != self.columns {
                NO_CELLS
            } else {
                match row(&record, &self.places, self.decimal) {
                    Ok(row) => return Ok(Some(row)),
                    Err(what) => what,
                }
            };
            Problem::count(&mut self.problems, record.number, what);
        }
        Ok(None)
    }
}

fn row(
    record: &Record<'_>,
    places: &[Option<(usize, u32)>; COLUMNS],
    decimal: Decimal,
) -> Result<Row, &'static str> {
    use Column as C;
    let place = |column: C| places[column as usize];
    // Empty cells are unknown.
    let cell = |column: C| {
        let (at, _) = place(column)?;
        record.cell(at).filter(|cell| !cell.is_empty())
    };
    let text = |column: C| cell(column).map(|cell| String::from_utf8_lossy(cell).into_owned());
    let scaled = |column: C| {
        let decimals = place(column)?.1;
        let ns = decimal.scaled(std::str::from_utf8(cell(column)?).ok()?, decimals)?;
        Some(ns).filter(|ns| (-LATEST_NS..=LATEST_NS).contains(ns))
    };
    let whole = |column: C| decimal.scaled(std::str::from_utf8(cell(column)?).ok()?, 0);
    let small = |column: C| i32::try_from(whole(column)?).ok();
    let id_of = |column: C| id(whole(column)?.to_string().as_bytes());
    let who = |ids: C, names: C, tid: C| {
        let found = cell(ids).map(process).unwrap_or_default();
        let name = cell(names).map(process).unwrap_or_default().process;
        Who { tid: id_of(tid), pid: found.pid, process: found.process.or(name) }
    };
    if cell(C::Count).is_some() && whole(C::Count) != Some(1) {
        return Err(SUMMED);
    }
    let (ts, next_out) = (scaled(C::SwitchIn), scaled(C::NextOut));
    let cpu = small(C::Cpu).filter(|cpu| (0..1 << 13).contains(cpu)).ok_or(NO_NUMBER)?;
    let new = who(C::NewProcess, C::NewProcessName, C::NewTid);
    if new.tid.is_none()
        || ts.or(next_out).is_none()
        || (cell(C::SwitchIn).is_some() && ts.is_none())
    {
        return Err(NO_NUMBER);
    }
    let before = |length: Option<i64>| ts?.checked_sub(length?);
    let old = who(C::OldProcess, C::OldProcessName, C::OldTid);
    let cstate = small(C::CState).filter(|_| old.tid == Some(0));
    Ok(Row {
        kind: Kind::Precise,
        line: record.number,
        ts,
        cpu: Some(cpu),
        thread_name: text(C::ThreadName),
        priority: small(C::InPriority),
        old_left: Left {
            state: cell(C::OldState).and_then(state),
            reason: cell(C::OldReason).and_then(reason),
            mode: cell(C::OldMode).and_then(mode),
            priority: small(C::OldPriority),
        },
        new_left: Left {
            state: cell(C::NewState).and_then(state),
            reason: cell(C::NewReason).and_then(reason),
            mode: cell(C::NewMode).and_then(mode),
            priority: small(C::OutPriority),
        },
        ideal: small(C::Ideal),
        cstate,
        remaining_quantum: small(C::Quantum),
        in_dpc: cell(C::InDpc).map(|cell| cell.eq_ignore_ascii_case(b"true") || cell == b"1"),
        ready: scaled(C::Ready).or_else(|| before(scaled(C::ReadyLength))),
        last_out: scaled(C::LastOut).or_else(|| before(scaled(C::SinceLast))),
        next_out,
        by: who(C::ByProcess, C::ByProcessName, C::ByTid),
        new,
        old,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    const TEXT: &str = "New Process,New Thread Id,CPU,Switch-In Time (s),Next Switch-Out Time (s),\
        Ready (\u{b5}s),Waits (\u{b5}s),Old Process,Old Thread Id,Old State,CPU,Count\n\
        game.exe (12),34,1,0.000100000,0.000250500,10.5,3,Idle (0),0,Running,9,1\n\
        \"a, b.exe (13)\",\"1,035\",0,1.5,,0.7,0,game.exe (12),34,Waiting,9,1\n";

    fn rows(text: &[u8]) -> Result<(Vec<Row>, Vec<Problem>), Error> {
        let mut table = Precise::new(Cursor::new(text))?;
        let mut found = Vec::new();
        while let Some(row) = table.next_row()? {
            found.push(row);
        }
        Ok((found, table.problems().to_vec()))
    }

    #[test]
    fn rows_are_read_by_the_names_of_their_columns() {
        let (found, problems) = rows(TEXT.as_bytes()).expect("read");
        assert_eq!((found.len(), problems), (2, vec![]));
        let first = &found[0];
        assert_eq!((first.ts, first.next_out), (Some(100_000), Some(250_500)));
        // Of two columns CPU the first counts.
        assert_eq!((first.cpu, first.ready), (Some(1), Some(89_500)));
        assert_eq!((found[1].new.tid, found[1].new.pid), (Some(1035), Some(13)));
        assert_eq!((found[1].next_out, found[1].old_left.state), (None, Some(5)));
    }

    #[test]
    fn both_spellings_and_both_micro_signs_are_the_same() {
        let wanted = rows(TEXT.as_bytes()).expect("read");
        let other = TEXT
            .replace("New Thread Id", "NewThreadId")
            .replace("Switch-In Time (s)", "SwitchInTime(s)")
            .replace('\u{b5}', "\u{3bc}");
        assert_eq!(rows(other.as_bytes()).expect("read"), wanted);
        let ascii = TEXT.replace('\u{b5}', "u");
        assert_eq!(rows(ascii.as_bytes()).expect("read"), wanted);
    }

    #[test]
    fn decimal_commas_and_semicolons_are_the_same() {
        let wanted = rows(TEXT.as_bytes()).expect("read");
        let header = TEXT.lines().next().expect("header").replace(',', ";");
        let local = format!(
            "{header}\ngame.exe (12);34;1;0,000100000;0,000250500;10,5;3;Idle (0);0;Running;9;1\n\
             a, b.exe (13);1.035;0;1,5;;0,7;0;game.exe (12);34;Waiting;9;1\n"
        );
        assert_eq!(rows(local.as_bytes()).expect("read"), wanted);
    }

    #[test]
    fn a_table_cut_anywhere_never_gives_a_wrong_row() {
        let whole = rows(TEXT.as_bytes()).expect("read").0;
        let header = TEXT.find('\n').expect("header") + 1;
        for end in header..TEXT.len() {
            if !TEXT.is_char_boundary(end) {
                continue;
            }
            let (found, problems) = rows(&TEXT.as_bytes()[..end]).expect("read");
            assert!(whole.starts_with(&found), "{end}");
            let is_cut = TEXT.as_bytes()[end - 1] != b'\n';
            assert_eq!(problems.iter().any(|p| p.what == CUT_OFF), is_cut, "{end}");
        }
    }

    #[test]
    fn rows_that_sum_up_or_lack_cells_are_left_out() {
        let text = TEXT.replace("Running,9,1", "Running,9,7").replace("Waiting,9,1", "Waiting,9");
        let (found, problems) = rows(text.as_bytes()).expect("read");
        assert_eq!((found.len(), problems.len()), (0, 2));
        let missing = rows(b"New Thread Id,CPU\n1,2\n");
        assert!(matches!(missing, Err(Error::Column { column: "Switch-In Time" })));
        assert!(rows(b"").is_err());
    }
}

//! Whether the symbols of a module end: functions and inlined ones contain each other, and a crafted
//! file must not make that endless, exhaust the stack, or take hours.

use std::collections::HashMap;

use pdb_addr2line::pdb::{
    FallibleIterator, PDB, PdbInternalSectionOffset, Rva, SymbolData, SymbolIter,
};

use super::source::Pages;

/// Deeper than functions are inlined in any real program.
const DEEPEST: usize = 256;
/// Steps that the ranges of inlined functions may take in all modules together: below a minute.
const MOST_STEPS: u64 = 1 << 34;
/// Bytes of an inlined function before those that say where it is.
const INLINE_HEAD: u64 = 14;

/// `S_INLINESITE`, `S_INLINESITE2`
const INLINED: [u16; 2] = [0x114d, 0x115d];
/// `S_LPROC32`, `S_GPROC32`, with identifiers, of the old format, and for calls that were put off;
/// `S_THUNK32` of both formats, and `S_SEPCODE`.
const FUNCTIONS: [u16; 11] =
    [0x110f, 0x1110, 0x1146, 0x1147, 0x100a, 0x100b, 0x1155, 0x1156, 0x1102, 0x0206, 0x1132];

/// The code of modules that must not be read: section, start and end.
#[derive(Debug, Default)]
pub(super) struct Refused(Vec<(u16, u32, u32)>);

impl Refused {
    /// Whether an address belongs to such a module.
    pub(super) fn contains(&self, at: PdbInternalSectionOffset) -> bool {
        let Self(ranges) = self;
        ranges.iter().any(|(section, start, end)| {
            *section == at.section && (*start..*end).contains(&at.offset)
        })
    }
}

/// Reads the symbols of the modules to which the addresses belong.
pub(super) fn check<'a>(
    pdb: &mut PDB<'a, Pages<'a>>,
    addresses: &[u64],
) -> Result<Refused, pdb_addr2line::pdb::Error> {
    let map = pdb.address_map()?;
    let debug = pdb.debug_information()?;
    let mut wanted: Vec<(u16, u32)> = addresses
        .iter()
        .filter_map(|address| Rva(u32::try_from(*address).ok()?).to_internal_offset(&map))
        .map(|at| (at.section, at.offset))
        .collect();
    wanted.sort_unstable();
    // What lies between two contributions of a module counts as its code, too.
    let mut extents: HashMap<(usize, u16), (u32, u32)> = HashMap::new();
    let mut contributions = debug.section_contributions()?;
    while let Some(part) = contributions.next()? {
        let (start, end) = (part.offset.offset, part.offset.offset.saturating_add(part.size));
        let extent = extents.entry((part.module, part.offset.section)).or_insert((start, end));
        *extent = (extent.0.min(start), extent.1.max(end));
    }
    let mut used: HashMap<usize, Vec<(u16, u32, u32)>> = HashMap::new();
    for ((module, section), (start, end)) in extents {
        let first = wanted.partition_point(|at| *at < (section, start));
        if wanted.get(first).is_some_and(|at| *at < (section, end)) {
            used.entry(module).or_default().push((section, start, end));
        }
    }
    let mut left = MOST_STEPS;
    let mut refused = Refused::default();
    let mut modules = debug.modules()?.enumerate();
    while let Some((number, module)) = modules.next()? {
        let Some(code) = used.remove(&number) else { continue };
        let Ok(Some(info)) = pdb.module_info(&module) else { continue };
        let steps = info.symbols().ok().and_then(steps).filter(|steps| *steps <= left);
        match steps {
            Some(steps) => left -= steps,
            None => refused.0.extend(code),
        }
    }
    Ok(refused)
}

/// A function that is open, or one that is inlined into it.
struct Scope {
    end: u32,
    cost: Option<Cost>,
}

/// What the inlined functions of a function cost.
#[derive(Default)]
struct Cost {
    inlined: u64,
    ranges: u64,
    steps: u64,
}

impl Cost {
    /// Adds an inlined function; its ranges are united one by one.
    fn add(&mut self, bytes: u64) {
        let ranges = bytes.saturating_sub(INLINE_HEAD) / 2;
        self.inlined += 1;
        self.ranges += ranges;
        self.steps = self.steps.saturating_add(ranges * ranges / 2);
    }

    fn total(&self) -> u64 {
        self.steps.saturating_add(self.inlined.saturating_mul(self.ranges))
    }
}

/// How many steps the symbols of a module take; `None` if they do not end, are too deep or overlap.
fn steps(mut symbols: SymbolIter<'_>) -> Option<u64> {
    let mut open: Vec<Scope> = Vec::new();
    let mut total: u64 = 0;
    // Damage ends the list for whoever reads it.
    while let Ok(Some(symbol)) = symbols.next() {
        let at = symbol.index().0;
        while let Some(done) = open.pop_if(|scope| scope.end <= at) {
            total = total.saturating_add(done.cost.map_or(0, |cost| cost.total()));
        }
        let kind = symbol.raw_kind();
        let is_inlined = INLINED.contains(&kind);
        if !is_inlined && !FUNCTIONS.contains(&kind) {
            continue;
        }
        let end = match symbol.parse() {
            Ok(SymbolData::Procedure(function)) => function.end.0,
            Ok(SymbolData::Thunk(thunk)) => thunk.end.0,
            Ok(SymbolData::SeparatedCode(code)) => code.end.0,
            Ok(SymbolData::InlineSite(site)) => site.end.0,
            _ => continue,
        };
        // One that ends before it begins is empty, but a function would be skipped to its end.
        let (outer, is_empty) = (open.last(), end <= at);
        let overlaps = outer.is_some_and(|outer| end > outer.end || is_empty && !is_inlined);
        if overlaps || open.len() >= DEEPEST {
            return None;
        }
        if is_inlined
            && let Some(cost) = open.iter_mut().rev().find_map(|scope| scope.cost.as_mut())
        {
            cost.add(symbol.raw_bytes().len() as u64);
        }
        // Where it is counts all the same.
        if !is_empty {
            open.push(Scope { end, cost: (!is_inlined).then(Cost::default) });
        }
    }
    let rest = open.into_iter().filter_map(|scope| scope.cost).map(|cost| cost.total());
    Some(rest.fold(total, u64::saturating_add))
}

//! The rows of `cpu`, limited to what the recording states about its machine.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::numbering::Numbering;
use crate::facts::survey::{ClassRecord, Facts};

/// One row of `cpu`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Logical CPU.
    pub cpu: i32,
    /// Processor group and the number in it.
    pub place: Option<(u16, u8)>,
    /// First CPU of its core.
    pub core: Option<i32>,
    /// Position among the CPUs of its core.
    pub smt_index: Option<i32>,
    /// Type of core on a hybrid part.
    pub core_type: Option<String>,
    /// Efficiency class.
    pub class: Option<u8>,
    /// First CPU that shares its L2 cache.
    pub l2: Option<i32>,
    /// First CPU that shares its last-level cache.
    pub llc: Option<i32>,
    /// Package.
    pub package: Option<i32>,
    /// NUMA node.
    pub node: Option<i32>,
    /// Nominal frequency in kHz.
    pub base_khz: Option<i64>,
    /// Start of validity; `None`: from the beginning.
    pub valid_from_ns: Option<i64>,
}

/// The rows, and inconsistencies, one line each.
pub(crate) fn cpus(facts: &Facts, numbering: &Numbering) -> (Vec<Cpu>, Vec<&'static str>) {
    let mut problems = Vec::new();
    let mut rows: Vec<Cpu> = (0..numbering.len() as i32)
        .map(|cpu| {
            let place = numbering.place(cpu);
            Cpu { cpu, place, base_khz: base_khz(facts, cpu, place), ..Cpu::default() }
        })
        .collect();
    if !from_winsat(facts, numbering, &mut rows) {
        problems.push("WinSAT describes another machine: not used");
    }
    if rows.iter().any(|row| row.core.is_none()) {
        from_flags(facts, numbering, &mut rows);
    }
    if !facts.nodes.is_empty() {
        rows.iter_mut().for_each(|row| row.node = None);
        for (node, (group, mask)) in facts.nodes.iter().enumerate() {
            for cpu in numbering.cpus(*group, *mask) {
                rows[cpu as usize].node = Some(node as i32);
            }
        }
    }
    if facts.classes.is_empty() {
        infer_core_types(facts, numbering, &mut rows);
    }
    (with_classes(facts, numbering, rows), problems)
}

/// CPUs of an E core cluster, which share one L2 cache.
const CLUSTER: usize = 4;

/// Core types of hybrid processors whose classes were not recorded. Cores with two SMT siblings are
/// P if cores without siblings share an L2 cache by four, as only E cores do. Other cores are
/// unknown.
fn infer_core_types(facts: &Facts, numbering: &Numbering, rows: &mut [Cpu]) {
    let Some(winsat) = facts.winsat.as_ref() else { return };
    if rows.iter().any(|row| row.core.is_none()) {
        return;
    }
    let mut siblings: BTreeMap<i32, usize> = BTreeMap::new();
    rows.iter().filter_map(|row| row.core).for_each(|core| *siblings.entry(core).or_default() += 1);
    let alone = |row: &Cpu| row.core.is_some_and(|core| siblings[&core] == 1);
    let mut types = vec![None; rows.len()];
    for cache in winsat.caches.iter().filter(|c| c.level == 2 && c.kind != "Instruction") {
        let cpus = numbering.cpus(0, cache.mask);
        let members = || cpus.iter().filter_map(|cpu| rows.get(*cpu as usize));
        let kind = match cpus.len() {
            2 if members().all(|row| row.core == members().next().and_then(|r| r.core)) => "P",
            CLUSTER if members().all(alone) => "E",
            _ => continue,
        };
        for cpu in &cpus {
            types[*cpu as usize] = Some(kind);
        }
    }
    if types.contains(&Some("P")) && types.contains(&Some("E")) {
        for (row, kind) in rows.iter_mut().zip(types) {
            row.core_type = kind.map(str::to_owned);
        }
    }
}

/// Whether the core types are inferred from caches and siblings rather than recorded.
pub(crate) fn are_inferred(facts: &Facts, rows: &[Cpu]) -> bool {
    facts.classes.is_empty() && rows.iter().any(|row| row.core_type.is_some())
}

fn base_khz(facts: &Facts, cpu: i32, place: Option<(u16, u8)>) -> Option<i64> {
    let nominal = place.and_then(|place| facts.nominal.get(&place)).copied();
    let processor = u32::try_from(cpu).ok().and_then(|cpu| facts.processors.get(&cpu));
    let mhz = nominal.or(processor.map(|processor| processor.mhz)).or(facts.mhz);
    mhz.filter(|mhz| *mhz > 0).map(|mhz| i64::from(mhz) * 1000)
}

/// Cores, caches, nodes and packages of group 0; false if the description is of another machine.
fn from_winsat(facts: &Facts, numbering: &Numbering, rows: &mut [Cpu]) -> bool {
    let Some(winsat) = facts.winsat.as_ref().filter(|winsat| !winsat.cores.is_empty()) else {
        return true;
    };
    let here = rows
        .iter()
        .filter_map(|row| row.place)
        .filter(|(group, _)| *group == 0)
        .fold(0_u64, |mask, (_, number)| mask | 1_u64.checked_shl(number.into()).unwrap_or(0));
    let described = winsat.cores.iter().fold(0, |all, mask| all | mask);
    let disjoint = winsat.cores.iter().map(|mask| mask.count_ones()).sum::<u32>();
    // This recording's flags state which CPUs share a core; an older description may not match
    // them.
    let shared = winsat.cores.iter().filter(|mask| mask.count_ones() > 1);
    let shared = shared.fold(0, |all, mask| all | mask);
    let flags_agree = facts.sharing.is_none_or(|sharing| sharing == shared);
    if described != here || disjoint != described.count_ones() || !flags_agree {
        return false;
    }
    let mut set = |mask: u64, give: &mut dyn FnMut(&mut Cpu, i32, i32)| {
        let cpus = numbering.cpus(0, mask);
        let Some(first) = cpus.first().copied() else { return };
        for (rank, cpu) in cpus.iter().enumerate() {
            give(&mut rows[*cpu as usize], first, rank as i32);
        }
    };
    for mask in &winsat.cores {
        set(*mask, &mut |row, first, rank| {
            (row.core, row.smt_index) = (Some(first), Some(rank));
        });
    }
    let data = winsat.caches.iter().filter(|cache| cache.kind != "Instruction");
    let last = data.clone().map(|cache| cache.level).max().unwrap_or_default();
    for cache in data {
        if cache.level == 2 {
            set(cache.mask, &mut |row, first, _| row.l2 = Some(first));
        }
        if cache.level == last {
            set(cache.mask, &mut |row, first, _| row.llc = Some(first));
        }
    }
    for (node, mask) in &winsat.nodes {
        set(*mask, &mut |row, _, _| row.node = i32::try_from(*node).ok());
    }
    for (package, mask) in winsat.packages.iter().enumerate() {
        set(*mask, &mut |row, _, _| row.package = Some(package as i32));
    }
    true
}

/// Cores by the flag that states which CPUs share one. APIC ids show which two share a core: they
/// differ in the lowest bit only.
fn from_flags(facts: &Facts, numbering: &Numbering, rows: &mut [Cpu]) {
    let Some(sharing) = facts.sharing else { return };
    let one_group = numbering.only_group() == Some(0);
    let mut cores: BTreeMap<u32, Vec<i32>> = BTreeMap::new();
    for row in rows.iter_mut() {
        let Some((group, number)) = row.place else { continue };
        let shares = match group {
            0 => sharing >> number & 1 == 1,
            // The flags cover group 0; on a machine without siblings there they are 0.
            _ => sharing != 0,
        };
        if !shares && (group == 0 || one_group || sharing == 0) {
            (row.core, row.smt_index) = (Some(row.cpu), Some(0));
        } else if let Some(apic) = facts.apic.get(&(group, number)) {
            cores.entry(apic >> 1).or_default().push(row.cpu);
        }
    }
    for cpus in cores.values().filter(|cpus| cpus.len() == 2) {
        for (rank, cpu) in cpus.iter().enumerate() {
            let row = &mut rows[*cpu as usize];
            (row.core, row.smt_index) = (cpus.first().copied(), Some(rank as i32));
        }
    }
}

/// The names of core types, if all classes are known: one for all, or by rank.
fn core_types(classes: &[Option<u8>]) -> Vec<Option<String>> {
    let Some(known) = classes.iter().copied().collect::<Option<Vec<u8>>>() else {
        return vec![None; classes.len()];
    };
    let known: Vec<u32> = known.into_iter().map(u32::from).collect();
    schedlens_core_types::names(&known).into_iter().map(Some).collect()
}

/// Rows for each time at which a class, or the type derived from it, changes.
fn with_classes(facts: &Facts, numbering: &Numbering, rows: Vec<Cpu>) -> Vec<Cpu> {
    let mut changes: Vec<(Option<i64>, i32, u8)> = Vec::new();
    let mut known: BTreeSet<i32> = BTreeSet::new();
    let mut events: Vec<&ClassRecord> = facts.classes.iter().collect();
    events.sort_by_key(|event| event.ts);
    for event in events {
        let Some(cpu) = numbering.cpu(event.group, event.number) else { continue };
        // Values from a rundown apply from the start, unless an update came earlier.
        let begins = known.insert(cpu) && !event.update;
        changes.push((if begins { None } else { Some(event.ts) }, cpu, event.class));
    }
    changes.sort_by_key(|(from, ..)| *from);
    let mut classes: Vec<Option<u8>> = vec![None; rows.len()];
    let mut shown: Vec<Cpu> = rows;
    let mut all: Vec<Cpu> = Vec::new();
    let mut next = 0;
    let mut from = None;
    loop {
        while let Some((_, cpu, class)) = changes.get(next).filter(|(at, ..)| *at <= from) {
            classes[*cpu as usize] = Some(*class);
            next += 1;
        }
        for (row, kind) in shown.iter_mut().zip(core_types(&classes)) {
            let class = classes[row.cpu as usize];
            let kind = if changes.is_empty() { row.core_type.clone() } else { kind };
            if from.is_some() && row.class == class && row.core_type == kind {
                continue;
            }
            (row.class, row.core_type, row.valid_from_ns) = (class, kind, from);
            all.push(row.clone());
        }
        match changes.get(next) {
            Some((at, ..)) => from = *at,
            None => break,
        }
    }
    all.sort_by_key(|row| (row.cpu, row.valid_from_ns));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::winsat::{Cache, Processors};

    fn one_group(cpus: usize) -> Numbering {
        Numbering::new(&[], &[], cpus)
    }

    fn cores(rows: &[Cpu]) -> Vec<(Option<i32>, Option<i32>)> {
        rows.iter().map(|row| (row.core, row.smt_index)).collect()
    }

    #[test]
    fn winsat_describes_cores_caches_and_nodes() {
        let cache = |mask, level, kind: &str| Cache { mask, level, kind: kind.to_owned() };
        let winsat = Processors {
            cores: vec![0b0011, 0b0100, 0b1000],
            caches: vec![
                cache(0b0011, 2, "Unified"),
                cache(0b1100, 2, "Unified"),
                cache(0b1111, 3, "Unified"),
                cache(0b0011, 3, "Instruction"),
            ],
            nodes: vec![(0, 0b1111)],
            packages: vec![0b1111],
            ..Processors::default()
        };
        let facts = Facts { winsat: Some(winsat), sharing: Some(3), ..Facts::default() };
        let (rows, problems) = cpus(&facts, &one_group(4));
        assert!(problems.is_empty());
        let some = |a, b| (Some(a), Some(b));
        assert_eq!(cores(&rows), [some(0, 0), some(0, 1), some(2, 0), some(3, 0)]);
        assert_eq!((rows[3].l2, rows[3].llc, rows[3].node, rows[3].package), {
            (Some(2), Some(0), Some(0), Some(0))
        });
        // The same text on another machine is not used.
        for (count, sharing) in [(5, Some(3)), (4, Some(15)), (3, None)] {
            let facts = Facts { sharing, ..facts.clone() };
            let (rows, problems) = cpus(&facts, &one_group(count));
            assert_eq!(problems.len(), 1, "{count}");
            assert!(rows.iter().all(|row| row.llc.is_none()));
        }
    }

    /// Two P cores with SMT, followed by a cluster of four E cores; `e_l2`: masks of their L2.
    fn hybrid(e_l2: &[u64]) -> Facts {
        let cache = |mask, level| Cache { mask, level, kind: "Unified".to_owned() };
        let mut caches = vec![cache(0b0011, 2), cache(0b1100, 2), cache(0xff, 3)];
        caches.extend(e_l2.iter().map(|mask| cache(*mask, 2)));
        let winsat = Processors {
            cores: vec![0b0011, 0b1100, 0x10, 0x20, 0x40, 0x80],
            caches,
            nodes: vec![(0, 0xff)],
            packages: vec![0xff],
            ..Processors::default()
        };
        Facts { winsat: Some(winsat), sharing: Some(0b1111), ..Facts::default() }
    }

    #[test]
    fn smt_pairs_with_a_cluster_of_four_are_p_and_e_cores() {
        let facts = hybrid(&[0xf0]);
        let (rows, _) = cpus(&facts, &one_group(8));
        let names: Vec<_> = rows.iter().map(|row| row.core_type.as_deref().unwrap_or("")).collect();
        assert_eq!(names, ["P", "P", "P", "P", "E", "E", "E", "E"]);
        assert!(rows.iter().all(|row| row.class.is_none()));
        assert!(are_inferred(&facts, &rows));
    }

    #[test]
    fn core_types_are_not_inferred_without_a_cluster_or_where_classes_are_recorded() {
        let (rows, _) = cpus(&hybrid(&[0x30, 0xc0]), &one_group(8));
        assert!(rows.iter().all(|row| row.core_type.is_none()));
        let classes = (0..8).map(|number| class(0, number, 0, false)).collect();
        let facts = Facts { classes, ..hybrid(&[0xf0]) };
        let (rows, _) = cpus(&facts, &one_group(8));
        assert!(rows.iter().all(|row| row.core_type.as_deref() == Some("U")));
        assert!(!are_inferred(&facts, &rows));
    }

    #[test]
    fn flag_alone_shows_that_a_core_is_shared_but_not_by_whom() {
        let facts = Facts { sharing: Some(0b0011), ..Facts::default() };
        let (rows, _) = cpus(&facts, &one_group(3));
        assert_eq!(cores(&rows), [(None, None), (None, None), (Some(2), Some(0))]);
        let apic = [((0, 0), 0), ((0, 1), 1), ((0, 2), 8)].into_iter().collect();
        let (rows, _) = cpus(&Facts { apic, ..facts }, &one_group(3));
        assert_eq!(cores(&rows), [(Some(0), Some(0)), (Some(0), Some(1)), (Some(2), Some(0))]);
        let (rows, _) = cpus(&Facts::default(), &one_group(2));
        assert_eq!(cores(&rows), [(None, None), (None, None)]);
    }

    #[test]
    fn flag_covers_other_groups_only_if_empty() {
        let two = Numbering::new(&[(0, 0), (0, 1), (1, 0), (1, 1)], &[], 4);
        let (rows, _) = cpus(&Facts { sharing: Some(0b10), ..Facts::default() }, &two);
        assert_eq!(cores(&rows), [(Some(0), Some(0)), (None, None), (None, None), (None, None)]);
        let (rows, _) = cpus(&Facts { sharing: Some(0), ..Facts::default() }, &two);
        assert!(rows.iter().all(|row| row.core == Some(row.cpu)));
    }

    fn class(ts: i64, number: u8, class: u8, update: bool) -> ClassRecord {
        ClassRecord { ts, group: 0, number, class, update }
    }

    /// CPU, start of validity, class, type.
    type Row<'a> = (i32, Option<i64>, Option<u8>, Option<&'a str>);

    fn types(rows: &[Cpu]) -> Vec<Row<'_>> {
        rows.iter()
            .map(|row| (row.cpu, row.valid_from_ns, row.class, row.core_type.as_deref()))
            .collect()
    }

    #[test]
    fn classes_may_change_while_the_recording_runs() {
        let classes = vec![class(5, 0, 1, false), class(6, 1, 0, false), class(70, 1, 1, true)];
        let (rows, _) = cpus(&Facts { classes, ..Facts::default() }, &one_group(2));
        assert_eq!(
            types(&rows),
            [
                (0, None, Some(1), Some("P")),
                (0, Some(70), Some(1), Some("U")),
                (1, None, Some(0), Some("E")),
                (1, Some(70), Some(1), Some("U")),
            ]
        );
    }

    #[test]
    fn before_an_update_the_class_is_unknown_without_a_rundown() {
        let classes = vec![class(5, 0, 0, true), class(9, 1, 0, true)];
        let (rows, _) = cpus(&Facts { classes, ..Facts::default() }, &one_group(2));
        assert_eq!(
            types(&rows),
            [
                (0, None, None, None),
                (0, Some(5), Some(0), None),
                (0, Some(9), Some(0), Some("U")),
                (1, None, None, None),
                (1, Some(9), Some(0), Some("U")),
            ]
        );
    }

    #[test]
    fn three_classes_have_three_names() {
        let classes = vec![class(0, 0, 2, false), class(0, 1, 1, false), class(0, 2, 0, false)];
        let (rows, _) = cpus(&Facts { classes, ..Facts::default() }, &one_group(3));
        let names: Vec<_> = rows.iter().map(|row| row.core_type.as_deref()).collect();
        assert_eq!(names, [Some("P"), Some("E"), Some("LP-E")]);
    }
}

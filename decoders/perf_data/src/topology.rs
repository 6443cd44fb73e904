//! The rows of `cpu` from the features, for recordings without a description of their own.

use schedlens_input::bytes::CPU_LIMIT;

use crate::features::Features;

/// One row of `cpu`, as far as a perf.data file states it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Logical CPU.
    pub cpu: i32,
    /// First CPU of its core.
    pub core: Option<i32>,
    /// Position among the CPUs of its core.
    pub smt_index: Option<i32>,
    /// Type of core on a hybrid part.
    pub core_type: Option<&'static str>,
    /// First CPU that shares its L2 cache.
    pub l2: Option<i32>,
    /// First CPU that shares its last-level cache.
    pub llc: Option<i32>,
    /// Package.
    pub package: Option<i32>,
    /// NUMA node.
    pub numa_node: Option<i32>,
    /// It was online.
    pub online: Option<bool>,
}

/// All CPUs that the features name, and those in `seen` (sorted), by number.
pub fn cpus(features: &Features, seen: &[i32]) -> Vec<Cpu> {
    let last_level = features.caches.iter().map(|cache| cache.level).max();
    let cache_group = |cpu: i32, level: Option<u32>| {
        let level = level?;
        let mut groups = features.caches.iter();
        let group = groups
            .find(|c| c.level == level && c.kind != "Instruction" && c.cpus.contains(&cpu))?;
        group.cpus.iter().min().copied()
    };
    let mut numbers: Vec<i32> = features.siblings.iter().flatten().copied().collect();
    numbers.extend(seen);
    // If all CPUs that the machine can have are online, their numbers are known.
    let all = features.cpus_available.filter(|all| features.cpus_online == Some(*all));
    let all = all.and_then(|all| i32::try_from(all).ok()).filter(|all| *all <= CPU_LIMIT);
    numbers.extend(0..all.unwrap_or_default());
    numbers.sort_unstable();
    numbers.dedup();
    let row = |cpu: i32| {
        let core = features.siblings.iter().find(|list| list.contains(&cpu));
        let mut ranked = core.cloned().unwrap_or_default();
        ranked.sort_unstable();
        let node = features.numa.iter().find(|(_, list)| list.contains(&cpu));
        let is_online =
            seen.binary_search(&cpu).is_ok() || core.is_some() || all.is_some_and(|all| cpu < all);
        let online = is_online.then_some(true);
        Cpu {
            cpu,
            core: ranked.first().copied(),
            smt_index: ranked.iter().position(|other| *other == cpu).map(|rank| rank as i32),
            core_type: core_type(features, cpu),
            l2: cache_group(cpu, Some(2)),
            llc: cache_group(cpu, last_level),
            package: features.packages.get(cpu as usize).copied().flatten(),
            numa_node: node.map(|(node, _)| *node),
            online,
        }
    };
    numbers.into_iter().map(row).collect()
}

/// `HEADER_HYBRID_TOPOLOGY` names a CPU's core type by its PMU; other files do not contain it.
fn core_type(features: &Features, cpu: i32) -> Option<&'static str> {
    let (pmu, _) = features.hybrid.iter().find(|(_, cpus)| cpus.contains(&cpu))?;
    match pmu.as_str() {
        "cpu_core" => Some("P"),
        "cpu_atom" => Some("E"),
        "cpu_lowpower" => Some("LP-E"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Cache;

    #[test]
    fn siblings_caches_and_nodes_become_columns() {
        let cache = |level, kind: &str, cpus: &[i32]| Cache {
            level,
            kind: kind.to_owned(),
            cpus: cpus.to_vec(),
        };
        let features = Features {
            siblings: vec![vec![0, 2], vec![1, 3]],
            packages: vec![Some(0); 4],
            numa: vec![(5, vec![0, 1, 2, 3])],
            caches: vec![
                cache(1, "Instruction", &[0, 2]),
                cache(2, "Unified", &[0, 2]),
                cache(2, "Unified", &[1, 3]),
                cache(3, "Unified", &[0, 1, 2, 3]),
            ],
            hybrid: vec![("cpu_core".into(), vec![0, 2]), ("cpu_atom".into(), vec![1, 3])],
            ..Features::default()
        };
        let rows = cpus(&features, &[3, 7]);
        assert_eq!(rows.iter().map(|row| row.cpu).collect::<Vec<_>>(), [0, 1, 2, 3, 7]);
        assert_eq!(
            rows[3],
            Cpu {
                cpu: 3,
                core: Some(1),
                smt_index: Some(1),
                core_type: Some("E"),
                l2: Some(1),
                llc: Some(0),
                package: Some(0),
                numa_node: Some(5),
                online: Some(true),
            }
        );
        assert_eq!(rows[4], Cpu { cpu: 7, online: Some(true), ..Cpu::default() });
    }
}

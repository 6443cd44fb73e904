//! The machine of a script: its logical CPUs and what they share.

use serde::Deserialize;

/// One logical CPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Its number over all groups.
    pub cpu: u16,
    /// Number of its core.
    pub core: u32,
    /// Windows' class: higher is faster.
    #[serde(default)]
    pub efficiency_class: u8,
    /// Linux's PMU of its core type: `cpu_core`, `cpu_atom` or `cpu_lowpower`.
    #[serde(default)]
    pub pmu: Option<String>,
    /// Number of its level 2 cache.
    #[serde(default)]
    pub l2: Option<u32>,
    /// Number of its level 3 cache.
    #[serde(default)]
    pub l3: Option<u32>,
    /// Number of its package.
    #[serde(default)]
    pub package: u32,
    /// Number of its NUMA node.
    #[serde(default)]
    pub numa_node: u32,
    /// Windows' processor group; by default 64 CPUs fill one.
    #[serde(default)]
    pub group: Option<u16>,
    /// Number in that group.
    #[serde(default)]
    pub number: Option<u8>,
}

/// All of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its logical CPUs, by number from 0.
    pub cpus: Vec<Cpu>,
    /// Name of the computer.
    #[serde(default = "computer")]
    pub name: String,
    /// Name of the processor.
    #[serde(default = "model")]
    pub cpu_model: String,
    /// Base frequency.
    #[serde(default = "mhz")]
    pub mhz: u32,
}

fn computer() -> String {
    "drawn".to_owned()
}

fn model() -> String {
    "Drawn processor".to_owned()
}

fn mhz() -> u32 {
    3000
}

impl Machine {
    /// Group and number in the group of a CPU.
    #[must_use]
    pub fn place(&self, cpu: u16) -> (u16, u8) {
        let known = self.cpus.iter().find(|other| other.cpu == cpu);
        let group = known.and_then(|known| known.group).unwrap_or(cpu / 64);
        (group, known.and_then(|known| known.number).unwrap_or((cpu % 64) as u8))
    }

    /// CPUs that share the value of `of`, in groups by their first CPU.
    pub fn sharing<K: PartialEq>(&self, of: impl Fn(&Cpu) -> Option<K>) -> Vec<Vec<&Cpu>> {
        let mut groups: Vec<(K, Vec<&Cpu>)> = Vec::new();
        for cpu in &self.cpus {
            let Some(key) = of(cpu) else { continue };
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, members)) => members.push(cpu),
                None => groups.push((key, vec![cpu])),
            }
        }
        groups.into_iter().map(|(_, members)| members).collect()
    }

    /// Mask of these CPUs, of those in the first group.
    #[must_use]
    pub fn mask(&self, cpus: &[&Cpu]) -> u64 {
        let places = cpus.iter().map(|cpu| self.place(cpu.cpu));
        places.filter(|(group, _)| *group == 0).fold(0, |mask, (_, number)| mask | 1 << number)
    }

    /// Highest CPU number plus 1.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.cpus.iter().map(|cpu| u32::from(cpu.cpu) + 1).max().unwrap_or_default()
    }
}

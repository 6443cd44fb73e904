//! `HEADER_*` features: the machine description that perf writes next to the records.

use std::collections::HashMap;

use schedlens_input::bytes::{Bytes, CPU_LIMIT};
use schedlens_system::cpu_list;
use schedlens_tracepoints::formats::{self, Format};

use crate::attrs::Attr;
use crate::error::Error;

const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const VERSION: u32 = 5;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const CPUDESC: u32 = 8;
const CPUID: u32 = 9;
const CMDLINE: u32 = 11;
const EVENT_DESC: u32 = 12;
const CPU_TOPOLOGY: u32 = 13;
const NUMA_TOPOLOGY: u32 = 14;
const CACHE: u32 = 20;
const CLOCKID: u32 = 23;
const CLOCK_DATA: u32 = 29;
const HYBRID_TOPOLOGY: u32 = 30;

/// Entries of all CPU lists together: caches, cores and nodes of the largest machines.
const MOST_LISTED: usize = 1 << 20;

/// Names of the features by number, as shown to users.
const NAMES: [&str; 33] = [
    "RESERVED",
    "TRACING_DATA",
    "BUILD_ID",
    "HOSTNAME",
    "OSRELEASE",
    "VERSION",
    "ARCH",
    "NRCPUS",
    "CPUDESC",
    "CPUID",
    "TOTAL_MEM",
    "CMDLINE",
    "EVENT_DESC",
    "CPU_TOPOLOGY",
    "NUMA_TOPOLOGY",
    "BRANCH_STACK",
    "PMU_MAPPINGS",
    "GROUP_DESC",
    "AUXTRACE",
    "STAT",
    "CACHE",
    "SAMPLE_TIME",
    "MEM_TOPOLOGY",
    "CLOCKID",
    "DIR_FORMAT",
    "BPF_PROG_INFO",
    "BPF_BTF",
    "COMPRESSED",
    "CPU_PMU_CAPS",
    "CLOCK_DATA",
    "HYBRID_TOPOLOGY",
    "PMU_CAPS",
    "E_MACHINE",
];

/// One event of `HEADER_EVENT_DESC`.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) ids: Vec<u64>,
    pub(crate) attr: Attr,
}

/// One cache of `HEADER_CACHE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    pub(crate) level: u32,
    pub(crate) kind: String,
    pub(crate) cpus: Vec<i32>,
}

/// `HEADER_CLOCK_DATA`: one moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockData {
    /// The timestamp clock.
    pub clockid: i32,
    /// Wall time in ns since 1970.
    pub wall_ns: u64,
    /// Timestamp of the same moment.
    pub clock_ns: u64,
}

/// All features that are read.
#[derive(Clone, Debug, Default)]
pub struct Features {
    pub(crate) formats: Vec<Format>,
    /// Place in `formats` of the first one with that number.
    pub(crate) formats_by_id: HashMap<u64, usize>,
    /// Names of the features in the file.
    pub present: Vec<&'static str>,
    /// `HEADER_HOSTNAME`
    pub host: Option<String>,
    /// `HEADER_OSRELEASE`
    pub os_release: Option<String>,
    /// `HEADER_VERSION`
    pub perf_version: Option<String>,
    /// `HEADER_ARCH`
    pub arch: Option<String>,
    /// `HEADER_CPUDESC`
    pub cpu_model: Option<String>,
    /// `HEADER_CPUID`
    pub cpu_id: Option<String>,
    /// `HEADER_CMDLINE`
    pub command: Option<Vec<String>>,
    /// Number of CPUs the machine can have (`HEADER_NRCPUS`).
    pub cpus_available: Option<u32>,
    /// Number of CPUs that were online (`HEADER_NRCPUS`).
    pub cpus_online: Option<u32>,
    pub(crate) described: Vec<Described>,
    /// Lists of the CPUs of each core.
    pub(crate) siblings: Vec<Vec<i32>>,
    /// Package by CPU; `None`: offline or not recorded.
    pub(crate) packages: Vec<Option<i32>>,
    pub(crate) numa: Vec<(i32, Vec<i32>)>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) hybrid: Vec<(String, Vec<i32>)>,
    /// `HEADER_CLOCKID`
    pub clock_resolution_ns: Option<u64>,
    /// `HEADER_CLOCK_DATA`
    pub clock: Option<ClockData>,
    /// CPUs in all lists so far.
    pub(crate) listed: usize,
}

/// Name of a feature.
pub(crate) fn name(number: u32) -> &'static str {
    NAMES.get(number as usize).copied().unwrap_or("UNKNOWN")
}

impl Features {
    /// Reads one feature.
    ///
    /// # Errors
    /// The lengths in the feature exceed it. Parts already read are kept.
    pub(crate) fn add(&mut self, number: u32, data: &[u8]) -> Result<(), Error> {
        self.present.push(name(number));
        let mut bytes = Bytes::new(data, name(number));
        match number {
            TRACING_DATA => {
                self.formats = formats::read(data)?;
                let numbers =
                    self.formats.iter().enumerate().map(|(place, format)| (format.id, place));
                // Backwards, so that the first one remains.
                self.formats_by_id = numbers.rev().collect();
            }
            HOSTNAME => self.host = Some(bytes.string()?),
            OSRELEASE => self.os_release = Some(bytes.string()?),
            VERSION => self.perf_version = Some(bytes.string()?),
            ARCH => self.arch = Some(bytes.string()?),
            NRCPUS => {
                self.cpus_available = Some(bytes.u32()?);
                self.cpus_online = Some(bytes.u32()?);
            }
            CPUDESC => self.cpu_model = Some(bytes.string()?),
            CPUID => self.cpu_id = Some(bytes.string()?),
            CMDLINE => self.command = Some(strings(&mut bytes)?),
            EVENT_DESC => self.event_desc(&mut bytes)?,
            CPU_TOPOLOGY => self.cpu_topology(&mut bytes)?,
            NUMA_TOPOLOGY => {
                for _ in 0..bytes.u32()? {
                    let node = bytes.u32()?.cast_signed();
                    bytes.take(16)?;
                    let cpus = self.cpus(&bytes.string()?)?;
                    self.numa.push((node, cpus));
                }
            }
            CACHE => {
                let _version = bytes.u32()?;
                for _ in 0..bytes.u32()? {
                    let level = bytes.u32()?;
                    bytes.take(12)?;
                    let kind = bytes.string()?;
                    let _size = bytes.string()?;
                    let cpus = self.cpus(&bytes.string()?)?;
                    self.caches.push(Cache { level, kind, cpus });
                }
            }
            CLOCKID => self.clock_resolution_ns = Some(bytes.u64()?),
            CLOCK_DATA => {
                let _version = bytes.u32()?;
                let clockid = bytes.u32()?.cast_signed();
                let wall_ns = bytes.u64()?;
                self.clock = Some(ClockData { clockid, wall_ns, clock_ns: bytes.u64()? });
            }
            HYBRID_TOPOLOGY => {
                for _ in 0..bytes.u32()? {
                    let pmu = bytes.string()?;
                    let cpus = self.cpus(&bytes.string()?)?;
                    self.hybrid.push((pmu, cpus));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// CPUs of a list, none if it is malformed. A few bytes can name many CPUs, so the total over all lists is bounded.
    fn cpus(&mut self, list: &str) -> Result<Vec<i32>, Error> {
        let cpus = cpu_list(list, CPU_LIMIT.cast_unsigned()).unwrap_or_default();
        self.listed += cpus.len();
        if self.listed > MOST_LISTED {
            let (needed, left) = (self.listed as u64, MOST_LISTED as u64);
            return Err(Error::TooShort { what: "a list of CPUs", needed, left });
        }
        Ok(cpus.into_iter().map(u32::cast_signed).collect())
    }

    fn event_desc(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Error> {
        let events = bytes.u32()?;
        let attr_size = u64::from(bytes.u32()?);
        for _ in 0..events {
            let attr = Attr::read(bytes.take(attr_size)?)?;
            let id_count = bytes.u32()?;
            let name = bytes.string()?;
            let words = bytes.take(u64::from(id_count) * 8)?;
            self.described.push(Described { name, ids: ids(words), attr });
        }
        Ok(())
    }

    fn cpu_topology(&mut self, bytes: &mut Bytes<'_>) -> Result<(), Error> {
        let _of_packages = strings(bytes)?;
        for list in strings(bytes)? {
            let cpus = self.cpus(&list)?;
            self.siblings.push(cpus);
        }
        // Files of old recorders end here.
        let cpus = self.cpus_available.unwrap_or_default().min(CPU_LIMIT.cast_unsigned());
        if bytes.left() < cpus as usize * 8 {
            return Ok(());
        }
        for _ in 0..cpus {
            let _core = bytes.u32()?;
            let package = bytes.u32()?.cast_signed();
            self.packages.push((package >= 0).then_some(package));
        }
        Ok(())
    }

    /// The format of the tracepoint with that number.
    pub(crate) fn format(&self, id: u64) -> Option<&Format> {
        self.formats.get(*self.formats_by_id.get(&id)?)
    }
}

/// Event ids, eight bytes each.
pub(crate) fn ids(words: &[u8]) -> Vec<u64> {
    words
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
        .collect()
}

fn strings(bytes: &mut Bytes<'_>) -> Result<Vec<String>, Error> {
    let count = bytes.u32()?;
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(bytes.string()?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Vec<u8> {
        let mut bytes = (text.len() as u32 + 1).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.push(0);
        bytes
    }

    fn words(list: &[u32]) -> Vec<u8> {
        list.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn topology_is_read_with_its_packages() {
        let mut data = words(&[1]);
        data.extend(string("0-3"));
        data.extend(words(&[2]));
        data.extend(string("0,2"));
        data.extend(string("1,3"));
        data.extend(words(&[0, 7, 1, 7, 0, 7, 1, 7]));
        let mut features = Features { cpus_available: Some(4), ..Features::default() };
        features.add(CPU_TOPOLOGY, &data).expect("read");
        assert_eq!(features.siblings, [vec![0, 2], vec![1, 3]]);
        assert_eq!(features.packages, [Some(7); 4]);
    }

    #[test]
    fn a_count_larger_than_the_feature_is_refused() {
        let mut features = Features::default();
        let error = features.add(CMDLINE, &words(&[u32::MAX])).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "CMDLINE needs 4 bytes, 0 are left: the file is cut off or damaged, record it again"
        );
    }

    #[test]
    fn clock_data_relates_two_clocks() {
        let mut data = words(&[1, 1]);
        data.extend(5_u64.to_le_bytes());
        data.extend(3_u64.to_le_bytes());
        let mut features = Features::default();
        features.add(CLOCK_DATA, &data).expect("read");
        assert_eq!(features.clock, Some(ClockData { clockid: 1, wall_ns: 5, clock_ns: 3 }));
    }
}

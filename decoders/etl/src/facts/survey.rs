//! The first pass: collects data from anywhere in a file that must be known before its records are
//! read.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::compression::lznt1;
use crate::facts::manifests::{self, Manifests};
use crate::facts::numbering::Numbering;
use crate::guid::Guid;
use crate::passes::chosen::Chosen;
use crate::payload::manifest::schemas;
use crate::payload::providers::{self, D3D9, DXGI, PROCESSOR_POWER};
use crate::payload::schema::Schema;
use crate::payload::value::{Fields, Value};
use crate::payload::{known, winsat};
use crate::records::{Id, Record};

/// KernelTraceControl's EventMetadata, added by merging.
pub(crate) const METADATA: Guid = Guid::from_text_order(0xbbccf6c1_6cd1_48c4_80ff_839482e37671);
pub(crate) const METADATA_EVENT: u8 = 32;
/// The kernel's classes whose events may have a classic header.
const PROCESS: Guid = Guid::from_text_order(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c);
const SYSTEM_CONFIG: Guid = Guid::from_text_order(0x01853a65_418f_4f36_aefc_dc0f1d2fd235);
const PERF_INFO: Guid = Guid::from_text_order(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc);
/// KernelTraceControl's WinSAT provider, added by merging.
pub(crate) const WINSAT: Guid = Guid::from_text_order(0xed54dff8_c409_4cf6_bf83_05e1e61a09c4);
const WINSAT_SYSTEM: u8 = 37;
/// SystemConfigEx, added by merging.
const SYSTEM_EX: Guid = Guid::from_text_order(0x9b79ee91_b5fd_41c0_a243_4248e266e9d0);
const SYSTEM_EX_BUILD: u8 = 32;
/// Maximum number of schemas; more means damaged data.
const MOST_SCHEMAS: usize = 1 << 14;
/// WinSAT's XML is about 100 KB long.
const LONGEST_XML: usize = 8 << 20;
/// Maximum number of class updates.
const MOST_UPDATES: usize = 1 << 16;

/// A CPU's class becomes known or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassRecord {
    pub(crate) ts: i64,
    pub(crate) group: u16,
    pub(crate) number: u8,
    pub(crate) class: u8,
    /// An update states a change at this moment; a rundown states a value that applied before.
    pub(crate) update: bool,
}

/// A processor as described by hook 0B23.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processor {
    pub(crate) mhz: u32,
    pub(crate) name: String,
}

/// What the records contain about the machine.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Name of the computer.
    pub host: Option<String>,
    /// Product name of the system, from the registry.
    pub product: Option<String>,
    /// Build of the system.
    pub build_lab: Option<String>,
    /// MHz of all CPUs (hook 0B0A).
    pub(crate) mhz: Option<u32>,
    /// CPUs of group 0 that share their core (hook 0B0A).
    pub(crate) sharing: Option<u64>,
    pub(crate) processors: HashMap<u32, Processor>,
    /// NUMA nodes in their order: group and mask.
    pub(crate) nodes: Vec<(u16, u64)>,
    pub(crate) winsat: Option<winsat::Processors>,
    /// APIC id by group and number (event 68).
    pub(crate) apic: HashMap<(u16, u8), u32>,
    pub(crate) classes: Vec<ClassRecord>,
    /// Nominal MHz by group and number.
    pub(crate) nominal: HashMap<(u16, u8), u32>,
    /// Rows of `machine_setting`.
    pub settings: Vec<(String, String)>,
}

/// The results of the first pass.
#[derive(Debug, Default)]
pub struct Survey {
    /// The mapping from a number in a processor group to a logical CPU.
    pub numbering: Numbering,
    /// Names of the counters in the order of the headers.
    pub counters: Vec<String>,
    /// CPUs whose counters something else used, and the raw time until which they are valid.
    spoiled: BTreeMap<u32, i64>,
    schemas: HashMap<(Guid, u16, u8), Schema>,
    /// Names of the providers that have schemas.
    providers: HashMap<Guid, String>,
    /// What the records contain about the machine.
    pub facts: Facts,
    /// Processes with presents from DXGI or D3D9.
    pub presenters: HashSet<u32>,
    /// Process names that occur only in a rundown at the end.
    pub late_names: HashMap<u32, String>,
    numbers: Vec<(u16, u8)>,
    group_masks: Vec<u64>,
    /// Event schemas that cannot be read.
    pub damaged_schemas: i64,
    /// The recording contains the kernel logger's own process records.
    pub kernel_logger_processes: bool,
    /// Manifests that EventSources wrote into the recording.
    pub manifests: Manifests,
}

impl Survey {
    /// The records that [`Survey::take`] needs.
    pub fn chosen() -> Chosen {
        let hooks =
            [0x0304, 0x0b0a, 0x0b18, 0x0b19, 0x0b1a, 0x0b1b, 0x0b23, 0x0b24, 0x0f30, 0x0f31];
        let classes = [METADATA, WINSAT, SYSTEM_EX, PROCESS, SYSTEM_CONFIG, PERF_INFO];
        let providers = [PROCESSOR_POWER, DXGI, D3D9];
        Chosen::of(hooks, classes.into_iter().chain(providers)).with_event(manifests::CHUNK)
    }

    /// Processes a record; `ts` is in ns.
    pub fn take(&mut self, record: &Record<'_>, ts: i64) {
        match record.id {
            Id::Hook(hook) => self.hook(hook, record),
            Id::Classic { class, opcode } => match (class, opcode) {
                (METADATA, METADATA_EVENT) => self.metadata(record.payload),
                (WINSAT, WINSAT_SYSTEM) => self.winsat(record.payload),
                (SYSTEM_EX, SYSTEM_EX_BUILD) => self.build(record),
                _ => {
                    if let Some(hook) = class_hook(&record.id) {
                        self.hook(hook, record);
                    }
                }
            },
            Id::Event { id: manifests::CHUNK, .. } => self.manifest(record),
            Id::Event { provider: PROCESSOR_POWER, id, .. } => self.power(id, record, ts),
            Id::Event { provider: DXGI, id: 42 | 55, .. }
            | Id::Event { provider: D3D9, id: 1, .. } => {
                self.presenters.extend(record.pid.filter(|_| self.presenters.len() < 1 << 16));
            }
            _ => {}
        }
    }

    /// Times count from a later moment than expected.
    pub fn count_from(&mut self, start_ns: i64) {
        self.facts.classes.iter_mut().for_each(|class| class.ts -= start_ns);
    }

    /// Call this after the last record; `cpus` is from the header.
    pub fn finish(&mut self, cpus: usize) {
        self.numbering = Numbering::new(&self.numbers, &self.group_masks, cpus);
    }

    /// Name and fields of a manifest event, by the schema in the file or else by the built-in ones.
    pub fn event(&self, record: &Record<'_>) -> Option<(String, Fields)> {
        let Id::Event { provider, id, .. } = record.id else { return None };
        let pointer = record.pointer.size();
        if let Some(schema) = self.schema(provider, id, record.version) {
            return Some((schema.title(), schema.fields(record.payload, pointer)));
        }
        if id == manifests::CHUNK
            && let Some(fields) = manifests::fields(record.payload)
        {
            return Some(("ManifestData".to_owned(), fields));
        }
        let event = (provider, id, record.version);
        let (name, fields) = providers::event(event, record.payload, pointer)?;
        Some((name.to_owned(), fields))
    }

    /// The raw time until which the counters of a CPU are valid; `None`: to the end.
    pub fn counters_good_until(&self, cpu: i32) -> Option<i64> {
        self.spoiled.get(&u32::try_from(cpu).ok()?).copied()
    }

    /// The schema of an event in the file.
    pub(crate) fn schema(&self, provider: Guid, id: u16, version: u8) -> Option<&Schema> {
        self.schemas.get(&(provider, id, version))
    }

    /// The name of a provider with schemas in the file.
    pub fn provider(&self, provider: Guid) -> Option<&str> {
        self.providers.get(&provider).map(String::as_str)
    }

    /// The title of a manifest event from the schema of that version, or else of any version.
    pub fn title(&self, provider: Guid, id: u16, version: u8) -> Option<String> {
        if id == manifests::CHUNK {
            return Some("ManifestData".to_owned());
        }
        let exact = self.schema(provider, id, version);
        let any = || {
            let alike = self.schemas.values().filter(|s| (s.provider, s.id) == (provider, id));
            alike.min_by_key(|schema| schema.version)
        };
        exact.or_else(any).map(Schema::title)
    }

    fn metadata(&mut self, payload: &[u8]) {
        match Schema::read(payload) {
            Some(schema) if self.schemas.len() < MOST_SCHEMAS => {
                self.name_provider(&schema);
                self.schemas.insert((schema.provider, schema.id, schema.version), schema);
            }
            Some(_) => {}
            None => self.damaged_schemas += 1,
        }
    }

    /// The schema embedded by merging takes precedence over the manifest.
    fn manifest(&mut self, record: &Record<'_>) {
        let Some((provider, xml)) = self.manifests.take(record) else { return };
        let Some(found) = schemas(&xml, provider, MOST_SCHEMAS) else {
            self.manifests.refused += 1;
            return;
        };
        for schema in found {
            if self.schemas.len() < MOST_SCHEMAS {
                self.name_provider(&schema);
                let key = (schema.provider, schema.id, schema.version);
                self.schemas.entry(key).or_insert(schema);
            }
        }
    }

    fn name_provider(&mut self, schema: &Schema) {
        if !schema.provider_name.is_empty() {
            let name = || schema.provider_name.clone();
            self.providers.entry(schema.provider).or_insert_with(name);
        }
    }

    fn winsat(&mut self, payload: &[u8]) {
        if let Some(xml) = winsat_xml(payload) {
            self.facts.winsat = Some(winsat::Processors::read(&xml));
        }
    }

    fn build(&mut self, record: &Record<'_>) {
        let pointer = record.pointer.size();
        let found = known::class(SYSTEM_EX.first(), SYSTEM_EX_BUILD, record.payload, pointer);
        if let Some((_, fields)) = found {
            self.facts.build_lab = fields.text("BuildLab").map(str::to_owned);
            self.facts.product = fields.text("ProductName").map(str::to_owned);
        }
    }

    fn hook(&mut self, hook: u16, record: &Record<'_>) {
        let pointer = record.pointer.size();
        let Some((_, fields)) = known::hook(hook, record.version, record.payload, pointer) else {
            return;
        };
        let text = |name: &str| fields.text(name).filter(|t| !t.is_empty()).map(str::to_owned);
        match hook {
            0x0304 => {
                if let (Some(pid), Some(name)) = (fields.id("ProcessId"), text("ImageFileName"))
                    && self.late_names.len() < 1 << 16
                {
                    self.late_names.insert(pid, name);
                }
            }
            0x0b0a => {
                self.facts.host = text("ComputerName");
                self.facts.mhz = fields.id("MHz");
                self.facts.sharing = fields.number("HyperThreadingFlag");
            }
            0x0b18 => {
                let node = |value: &Value| match value {
                    Value::Record(node) => {
                        Some((u16::try_from(node.number("Group")?).ok()?, node.number("Mask")?))
                    }
                    _ => None,
                };
                self.facts.nodes = fields.list("Nodes").iter().filter_map(node).collect();
            }
            0x0b19 => {
                for (field, key) in [
                    ("SystemManufacturer", "system_manufacturer"),
                    ("SystemProductName", "system_product"),
                    ("BiosVersion", "bios_version"),
                ] {
                    self.setting(key, text(field));
                }
            }
            0x0b1a => {
                let mask = |value: &Value| match value {
                    Value::Unsigned(mask) => Some(*mask),
                    _ => None,
                };
                self.group_masks = fields.list("Affinity").iter().filter_map(mask).collect();
            }
            0x0b1b => {
                let place = |value: &Value| match value {
                    Value::Record(place) => {
                        let group = u16::try_from(place.number("Group")?).ok()?;
                        Some((group, u8::try_from(place.number("Number")?).ok()?))
                    }
                    _ => None,
                };
                self.numbers = fields.list("ProcessorNumber").iter().filter_map(place).collect();
            }
            0x0b23 => {
                if let Some(index) = fields.id("ProcessorIndex").filter(|index| *index < 1 << 11) {
                    let mhz = fields.id("ProcessorSpeed").unwrap_or_default();
                    let name = text("ProcessorName").unwrap_or_default().trim().to_owned();
                    self.facts.processors.insert(index, Processor { mhz, name });
                }
            }
            0x0b24 => {
                for (field, key) in [
                    ("VbsEnabled", "virtualization_based_security"),
                    ("HvciEnabled", "hvci"),
                    ("HyperVisorEnabled", "hypervisor"),
                ] {
                    let value = fields.flag(field).map(|on| if on { "on" } else { "off" });
                    self.setting(key, value.map(str::to_owned));
                }
            }
            0x0f30 => {
                let name = |value: &Value| match value {
                    Value::Text(text) => text.clone(),
                    _ => String::new(),
                };
                self.counters = fields.list("CounterName").iter().map(name).take(16).collect();
            }
            0x0f31 => self.spoil(&fields),
            _ => {}
        }
    }

    /// The counters of a CPU are invalid from the earliest of the recorded times.
    fn spoil(&mut self, fields: &Fields) {
        let good_until = |value: &Value| match value {
            Value::Record(counter) => counter.number("LastGoodTime").map(u64::cast_signed),
            _ => None,
        };
        let until = fields.list("CounterStatus").iter().filter_map(good_until).min();
        let cpu = fields.id("ProcessorNumber").filter(|cpu| *cpu < 1 << 11);
        if let (Some(until), Some(cpu)) = (until, cpu) {
            let known = self.spoiled.entry(cpu).or_insert(until);
            *known = until.min(*known);
        }
    }

    fn setting(&mut self, key: &str, value: Option<String>) {
        if let Some(value) = value
            && !self.facts.settings.iter().any(|(known, _)| known == key)
        {
            self.facts.settings.push((key.to_owned(), value));
        }
    }

    fn power(&mut self, id: u16, record: &Record<'_>, ts: i64) {
        if !matches!(id, 55 | 56 | 64 | 68 | 118) {
            return;
        }
        let Some((_, fields)) = self.event(record) else { return };
        let group = fields.number("Group").and_then(|group| u16::try_from(group).ok());
        let number = fields.number("Number").and_then(|number| u8::try_from(number).ok());
        let (Some(group), Some(number)) = (group, number) else { return };
        let facts = &mut self.facts;
        if let Some(mhz) = fields.id("NominalFrequency").filter(|mhz| *mhz > 0) {
            facts.nominal.insert((group, number), mhz);
        }
        if let Some(apic) = fields.id("InterruptControllerId") {
            facts.apic.insert((group, number), apic);
        }
        let class = fields.number("EfficiencyClass").and_then(|class| u8::try_from(class).ok());
        if let Some(class) = class.filter(|_| facts.classes.len() < MOST_UPDATES) {
            facts.classes.push(ClassRecord { ts, group, number, class, update: id == 118 });
        }
    }
}

/// The XML of a WinSAT record: version and unpacked length precede the packed text.
pub(crate) fn winsat_xml(payload: &[u8]) -> Option<String> {
    let (length, packed) = (schedlens_input::bytes::u32_at(payload, 4)?, payload.get(8..)?);
    let longest = lznt1::longest(packed).min(LONGEST_XML);
    let mut xml = vec![0; (length as usize).min(longest)];
    let unpacked = lznt1::unpack(packed, &mut xml);
    let units = xml.get(..unpacked.bytes)?.chunks_exact(2);
    let units = units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    Some(char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect())
}

/// The hook equivalent to a classic event of one of the kernel's classes.
pub fn class_hook(id: &Id) -> Option<u16> {
    match id {
        Id::Classic { class, opcode } => known::hook_of_class(class.first(), *opcode),
        _ => None,
    }
}

//! Images: which files are at which addresses of a process, and when.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use schedlens_input::bytes::u32_at;

use crate::guid::Guid;
use crate::payload::known;
use crate::records::{Id, Record};

/// Hooks of images.
pub(crate) const HOOKS: [u16; 4] = [LOAD, UNLOAD, RUNDOWN_BEGIN, RUNDOWN_END];
const LOAD: u16 = 0x030a;
const UNLOAD: u16 = 0x1402;
const RUNDOWN_BEGIN: u16 = 0x1403;
const RUNDOWN_END: u16 = 0x1404;
/// The kernel's class of images, for records with a classic header.
pub(crate) const IMAGE: Guid = Guid::from_text_order(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518);
/// KernelTraceControl's ImageID, added by merging.
pub(crate) const IMAGE_ID: Guid = Guid::from_text_order(0xb3e675d7_2554_4f18_830b_2762732560de);
/// Its event `DbgID_RSDS`.
const RSDS: u8 = 36;
/// SystemConfigEx, added by merging; its volumes and system folders are read.
pub(crate) const SYSTEM_EX: Guid = Guid::from_text_order(0x9b79ee91_b5fd_41c0_a243_4248e266e9d0);
const SYSTEM_PATHS: u8 = 33;
const VOLUME: u8 = 35;

/// More images and debug records than this are not read: a real recording has tens of thousands.
const MOST: usize = 1 << 20;
const MOST_VOLUMES: usize = 1 << 10;

/// What identifies the PDB file of an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pdb {
    /// Its signature.
    pub guid: Guid,
    /// Number of times that it was written.
    pub age: u32,
    /// Its path where it was linked, or its name.
    pub name: String,
}

impl Pdb {
    /// Signature and age, as symbol servers name a folder.
    pub fn id(&self) -> String {
        let signature: String = self.guid.to_string().to_uppercase().replace('-', "");
        format!("{signature}{:X}", self.age)
    }
}

/// A file with code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// Its path; the drive's letter replaces the device, if that is recorded.
    pub path: Arc<str>,
    /// `TimeDateStamp` of its header; 0 if not recorded.
    pub stamp: u32,
    /// Bytes in memory.
    pub size: u64,
    /// Its PDB file, if recorded.
    pub pdb: Option<Arc<Pdb>>,
}

/// An image appears at an address of a process, or disappears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Time in ns; the least: before the recording.
    pub ts: i64,
    /// Process; 0 for the kernel.
    pub pid: u32,
    /// First address.
    pub base: u64,
    /// Number of the image; `None`: what was there disappears.
    pub image: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    ts: i64,
    hook: u16,
    pid: u32,
    base: u64,
    size: u64,
    stamp: u32,
    name: u32,
}

/// By process and address: the PDBs recorded there, with raw times.
type PdbsByPlace = HashMap<(u32, u64), Vec<(i64, Arc<Pdb>)>>;

/// All images of a recording.
#[derive(Debug, Default)]
pub struct Images {
    events: Vec<Event>,
    names: Vec<Arc<str>>,
    name_numbers: HashMap<Arc<str>, u32>,
    pdbs: PdbsByPlace,
    pdb_count: usize,
    volumes: Vec<(String, String)>,
    windows: Option<String>,
    /// Records that were left out.
    pub left_out: i64,
    /// All images.
    pub all: Vec<Image>,
    /// By time.
    pub changes: Vec<Change>,
}

impl Images {
    /// Reads a record; `false` if it is not about an image.
    pub(crate) fn take(&mut self, record: &Record<'_>) -> bool {
        match record.id {
            Id::Hook(hook) if HOOKS.contains(&hook) => self.event(hook, record, false),
            Id::Classic { class: IMAGE, opcode } => {
                match known::hook_of_class(IMAGE.first(), opcode) {
                    Some(hook) if HOOKS.contains(&hook) => self.event(hook, record, true),
                    _ => return false,
                }
            }
            Id::Classic { class: IMAGE_ID, opcode: RSDS } => self.pdb(record),
            Id::Classic { class: SYSTEM_EX, opcode: opcode @ (SYSTEM_PATHS | VOLUME) } => {
                self.place(opcode, record);
            }
            _ => return false,
        }
        true
    }

    fn event(&mut self, hook: u16, record: &Record<'_>, foreign: bool) {
        let (version, pointer) = (record.version, record.pointer.size());
        let read = if foreign { known::foreign_hook } else { known::hook };
        let Some((_, fields)) = read(hook, version, record.payload, pointer) else { return };
        let (Some(base), Some(size)) = (fields.number("ImageBase"), fields.number("ImageSize"))
        else {
            return;
        };
        if self.events.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let name = self.name(fields.text("FileName").unwrap_or_default());
        self.events.push(Event {
            ts: record.ts,
            hook,
            // The first version has no process but that of the header.
            pid: fields.id("ProcessId").or(record.pid).unwrap_or_default(),
            base,
            size,
            stamp: fields.id("TimeDateStamp").unwrap_or_default(),
            name,
        });
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(number) = self.name_numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        let name: Arc<str> = Arc::from(name);
        self.names.push(Arc::clone(&name));
        self.name_numbers.insert(name, number);
        number
    }

    fn pdb(&mut self, record: &Record<'_>) {
        let (payload, pointer) = (record.payload, record.pointer.size());
        let Some((_, fields)) = known::class(IMAGE_ID.first(), RSDS, payload, pointer) else {
            return;
        };
        let (Some(base), Some(pid)) = (fields.number("ImageBase"), fields.id("ProcessId")) else {
            return;
        };
        let guid = Guid::at(payload, pointer + 4);
        let (Some(guid), Some(age)) = (guid, u32_at(payload, pointer + 20)) else { return };
        if self.pdb_count >= MOST {
            self.left_out += 1;
            return;
        }
        self.pdb_count += 1;
        let name = fields.text("PdbFileName").unwrap_or_default().to_owned();
        let pdb = Arc::new(Pdb { guid, age, name });
        self.pdbs.entry((pid, base)).or_default().push((record.ts, pdb));
    }

    fn place(&mut self, opcode: u8, record: &Record<'_>) {
        let (payload, pointer) = (record.payload, record.pointer.size());
        let Some((_, fields)) = known::class(SYSTEM_EX.first(), opcode, payload, pointer) else {
            return;
        };
        let text = |name| fields.text(name).map(str::to_owned);
        if opcode == SYSTEM_PATHS {
            self.windows = text("SystemWindowsDirectory").filter(|path| !path.is_empty());
        } else if let (Some(device), Some(drive)) = (text("NtPath"), text("DosPath"))
            && !device.is_empty()
            && self.volumes.len() < MOST_VOLUMES
        {
            self.volumes.push((device, drive));
        }
    }

    /// A path with the drive's letter, if it is known.
    pub(crate) fn path(&self, name: &str) -> Arc<str> {
        let below = |prefix: &str| {
            let rest = name.get(prefix.len()..)?;
            let is_below = name.get(..prefix.len())?.eq_ignore_ascii_case(prefix);
            is_below.then_some(rest.trim_start_matches('\\'))
        };
        for (device, drive) in &self.volumes {
            if let Some(rest) =
                below(device).filter(|rest| device.ends_with('\\') || !rest.is_empty())
            {
                return format!("{}\\{rest}", drive.trim_end_matches('\\')).into();
            }
        }
        if let (Some(rest), Some(windows)) = (below("\\SystemRoot\\"), &self.windows) {
            return format!("{}\\{rest}", windows.trim_end_matches('\\')).into();
        }
        name.into()
    }

    /// Call this after the last record.
    ///
    /// What a rundown at the end lists was there from the start, or from when something else was
    /// last seen to disappear from that address.
    pub(crate) fn finish(&mut self, ns: &impl Fn(i64) -> i64) {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.ts);
        self.pdbs.values_mut().for_each(|found| found.sort_by_key(|(ts, _)| *ts));
        let paths: Vec<Arc<str>> = self.names.iter().map(|name| self.path(name)).collect();
        let mut by_file: HashMap<(u32, u32, u64), Arc<Pdb>> = HashMap::new();
        for event in &events {
            if let Some(pdb) = self.pdb_of(event) {
                by_file.insert((event.name, event.stamp, event.size), pdb);
            }
        }
        let mut numbers: HashMap<Image, u32> = HashMap::new();
        // What is at each address now, and since when the address has been free.
        let mut open: BTreeMap<(u32, u64), u32> = BTreeMap::new();
        let mut free: HashMap<(u32, u64), i64> = HashMap::new();
        for event in &events {
            let key = (event.pid, event.base);
            let of_file = by_file.get(&(event.name, event.stamp, event.size));
            let image = Image {
                path: paths.get(event.name as usize).cloned().unwrap_or_else(|| Arc::from("")),
                stamp: event.stamp,
                size: event.size,
                pdb: self.pdb_of(event).or_else(|| of_file.cloned()),
            };
            let image = match numbers.get(&image) {
                Some(number) => *number,
                None => {
                    let number = self.all.len() as u32;
                    self.all.push(image.clone());
                    numbers.insert(image, number);
                    number
                }
            };
            let mut change = |ts, image| {
                self.changes.push(Change { ts, pid: event.pid, base: event.base, image });
            };
            let since = free.get(&key).copied().unwrap_or(i64::MIN);
            let is_open = open.get(&key) == Some(&image);
            match event.hook {
                LOAD => {
                    change(event.ts, Some(image));
                    open.insert(key, image);
                }
                UNLOAD => {
                    if !is_open {
                        change(since, Some(image));
                    }
                    change(event.ts, None);
                    open.remove(&key);
                    free.insert(key, event.ts);
                }
                _ if !is_open => {
                    change(since, Some(image));
                    open.insert(key, image);
                }
                _ => {}
            }
        }
        // At equal times what disappears makes room for what appears.
        self.changes.sort_by_key(|change| (change.ts, change.image.is_some()));
        for change in self.changes.iter_mut().filter(|change| change.ts != i64::MIN) {
            change.ts = ns(change.ts);
        }
        (self.names, self.name_numbers, self.pdbs) = Default::default();
    }

    /// The PDB of an image: from the record next to it, else from another of that address.
    fn pdb_of(&self, event: &Event) -> Option<Arc<Pdb>> {
        let found = self.pdbs.get(&(event.pid, event.base))?;
        let before = found.partition_point(|(ts, _)| *ts <= event.ts);
        let (_, pdb) = found.get(before.saturating_sub(1))?;
        Some(Arc::clone(pdb))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ts: i64, hook: u16, base: u64, name: u32) -> Event {
        Event { ts, hook, pid: 7, base, size: 0x1000, stamp: 1, name }
    }

    fn images(events: Vec<Event>) -> Images {
        let mut images = Images { events, ..Images::default() };
        for name in [r"\Device\HarddiskVolume3\a.dll", r"\SystemRoot\b.sys", r"\Other\c.exe"] {
            images.name(name);
        }
        images.volumes.push((r"\Device\HarddiskVolume3\".to_owned(), r"C:\".to_owned()));
        images.windows = Some(r"C:\Windows".to_owned());
        images.finish(&|raw| raw);
        images
    }

    fn changes(images: &Images) -> Vec<(i64, u64, Option<&str>)> {
        let path = |image: u32| &*images.all[image as usize].path;
        images.changes.iter().map(|c| (c.ts, c.base, c.image.map(path))).collect()
    }

    #[test]
    fn paths_get_the_letter_of_their_drive() {
        let rundown = |base, name| event(9, RUNDOWN_BEGIN, base, name);
        let images = images(vec![rundown(1, 0), rundown(2, 1), rundown(3, 2)]);
        let paths: Vec<_> = images.all.iter().map(|image| &*image.path).collect();
        assert_eq!(paths, [r"C:\a.dll", r"C:\Windows\b.sys", r"\Other\c.exe"]);
    }

    // base 1: loaded at 5, unloaded at 8, listed again at the end (its load was lost)
    // base 2: only listed at the end; base 3: only unloaded, at 6
    #[test]
    fn images_are_there_from_their_load_or_from_the_start() {
        let found = images(vec![
            event(20, RUNDOWN_END, 1, 0),
            event(5, LOAD, 1, 0),
            event(8, UNLOAD, 1, 0),
            event(20, RUNDOWN_END, 2, 1),
            event(6, UNLOAD, 3, 2),
        ]);
        let (a, b, c) = (Some(r"C:\a.dll"), Some(r"C:\Windows\b.sys"), Some(r"\Other\c.exe"));
        let expected =
            [(i64::MIN, 3, c), (i64::MIN, 2, b), (5, 1, a), (6, 3, None), (8, 1, None), (8, 1, a)];
        assert_eq!(changes(&found), expected);
    }

    #[test]
    fn an_image_has_the_pdb_of_its_file_in_any_process() {
        let guid = Guid::from_text_order(0x3844dbb9_2017_4967_be7a_a4a2c20430fa);
        let pdb = Arc::new(Pdb { guid, age: 11, name: "a.pdb".to_owned() });
        assert_eq!(pdb.id(), "3844DBB920174967BE7AA4A2C20430FAB");
        let mut images = Images {
            events: vec![
                event(5, LOAD, 1, 0),
                Event { pid: 8, ..event(6, LOAD, 0x9000, 0) },
                Event { pid: 8, stamp: 2, ..event(7, LOAD, 0xf000, 0) },
            ],
            ..Images::default()
        };
        images.name("a.dll");
        images.pdbs.insert((7, 1), vec![(5, Arc::clone(&pdb))]);
        images.finish(&|raw| raw);
        let found: Vec<_> = images.all.iter().map(|image| image.pdb.clone()).collect();
        assert_eq!(found, [Some(pdb), None]);
        let used: Vec<_> = images.changes.iter().map(|change| change.image).collect();
        assert_eq!(used, [Some(0), Some(0), Some(1)]);
    }
}

//! Which code is at which addresses of a process, now.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use schedlens_etl::facts::images::Image;
use schedlens_perf_data::mapping::Mapping;

use super::Part;
use super::modules::{Kind, Modules};
use super::tree::Frame;

/// A mapping without its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// Address after the last one.
    pub(crate) end: u64,
    /// Address minus this is the offset in the file.
    pub(crate) shift: u64,
    /// Number of the module.
    pub(crate) module: u32,
}

type Maps = BTreeMap<u64, Mapped>;

/// The memory of one process.
#[derive(Clone, Debug, Default)]
struct Space {
    maps: Rc<Maps>,
    version: u64,
}

/// The address spaces of all processes.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    by_pid: HashMap<i32, Space>,
    /// Versions are never reused, so that equal versions mean equal mappings.
    versions: u64,
    /// Files that were loaded into the kernel, where their addresses are recorded.
    kernel_maps: Maps,
    /// It changes with each of them.
    pub(crate) kernel_version: u64,
    pub(crate) modules: Modules,
    /// Where the kernel's `_text` or `_stext` was, and its build id.
    pub(crate) kernel: Option<Kernel>,
}

/// What identifies the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The symbol whose address is recorded.
    pub(crate) symbol: String,
    /// Its address.
    pub(crate) address: u64,
    /// Build id, if recorded.
    pub(crate) build_id: Option<Vec<u8>>,
}

/// First address that can belong to the kernel, on x86-64 and aarch64.
const KERNEL_HALF: u64 = 1 << 63;

impl Spaces {
    /// The version of a process's mappings: it changes with each of them.
    pub(crate) fn version(&mut self, pid: i32) -> u64 {
        if let Some(space) = self.by_pid.get(&pid) {
            return space.version;
        }
        self.versions += 1;
        let space = Space { maps: Rc::default(), version: self.versions };
        self.by_pid.insert(pid, space);
        self.versions
    }

    /// Code is mapped, in place of what was there.
    pub(crate) fn map(&mut self, mapping: Mapping) {
        if mapping.is_kernel {
            if let Some(symbol) = mapping.name.strip_prefix("[kernel.kallsyms]")
                && self.kernel.is_none()
            {
                self.kernel = Some(Kernel {
                    symbol: symbol.to_owned(),
                    address: mapping.offset,
                    build_id: mapping.build_id,
                });
            }
            return;
        }
        let Some(end) = mapping.start.checked_add(mapping.length) else { return };
        if mapping.length == 0 {
            return;
        }
        let kind = Kind::of(mapping.pid, &mapping.name, mapping.build_id);
        // Anonymous code has no file: its addresses are those of the process.
        let shift = match kind {
            Kind::File { .. } => mapping.start.wrapping_sub(mapping.offset),
            Kind::Special(_) => mapping.start,
            _ => 0,
        };
        let module = self.modules.number(kind);
        let maps = self.maps_to_change(mapping.pid);
        place(maps, mapping.start, Mapped { end, shift, module });
    }

    fn maps_to_change(&mut self, pid: i32) -> &mut Maps {
        self.versions += 1;
        let version = self.versions;
        let space = self.by_pid.entry(pid).or_default();
        space.version = version;
        Rc::make_mut(&mut space.maps)
    }

    /// A file of Windows is loaded at an address of a process; process 0 is the kernel. Without a
    /// file, what was there disappears.
    pub(crate) fn load(&mut self, pid: u32, start: u64, image: Option<Image>) {
        let is_kernel = pid == 0;
        let loaded = image.and_then(|image| {
            let end = start.checked_add(image.size).filter(|end| *end > start)?;
            Some((end, self.modules.number(Kind::Image { image, is_kernel })))
        });
        let maps = if is_kernel {
            self.kernel_version += 1;
            &mut self.kernel_maps
        } else {
            self.maps_to_change(pid.cast_signed())
        };
        match loaded {
            Some((end, module)) => place(maps, start, Mapped { end, shift: start, module }),
            None => drop(maps.remove(&start)),
        }
    }

    /// A new process has the mappings of its creator.
    pub(crate) fn fork(&mut self, from: i32, to: i32) {
        if from != to
            && let Some(space) = self.by_pid.get(&from)
        {
            self.by_pid.insert(to, space.clone());
        }
    }

    /// A process runs another program: all its mappings are gone.
    pub(crate) fn exec(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
    }

    /// The mappings of a process by start.
    pub(crate) fn maps(&self, pid: i32) -> Option<&Maps> {
        self.by_pid.get(&pid).map(|space| &*space.maps)
    }

    /// An address as a frame.
    pub(crate) fn frame(&mut self, pid: i32, part: Part, address: u64, returns: bool) -> Frame {
        let is_kernel = part == Part::Kernel || address >= KERNEL_HALF;
        let maps = match is_kernel {
            true => Some(&self.kernel_maps),
            false => self.maps(pid),
        };
        let found = maps.and_then(|maps| {
            // A call at the very end of a mapping returns to the byte after it.
            let inside = address - u64::from(returns && address > 0);
            let (_, mapped) = maps.range(..=inside).next_back()?;
            (inside < mapped.end).then_some(*mapped)
        });
        match found {
            Some(mapped) => Frame {
                module: mapped.module,
                address: address.wrapping_sub(mapped.shift),
                returns,
            },
            None if is_kernel => {
                Frame { module: self.modules.number(Kind::Kernel), address, returns }
            }
            None => Frame { module: self.modules.number(Kind::Unknown { pid }), address, returns },
        }
    }
}

/// Puts a mapping in place of whatever it overlaps.
fn place(maps: &mut Maps, start: u64, mapped: Mapped) {
    if let Some((_, before)) = maps.range_mut(..start).next_back()
        && before.end > start
    {
        let rest = *before;
        before.end = start;
        if rest.end > mapped.end {
            maps.insert(mapped.end, rest);
        }
    }
    let covered: Vec<u64> = maps.range(start..mapped.end).map(|(start, _)| *start).collect();
    for old in covered {
        if let Some(rest) = maps.remove(&old)
            && rest.end > mapped.end
        {
            maps.insert(mapped.end, rest);
        }
    }
    maps.insert(start, mapped);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(path: &str) -> Image {
        Image { path: path.into(), stamp: 1, size: 0x100, pdb: None }
    }

    #[test]
    fn files_of_windows_are_loaded_into_the_kernel_or_into_a_process() {
        let mut spaces = Spaces::default();
        let kernel = 0xffff_f800_0000_0000;
        spaces.load(0, kernel, Some(image("ntoskrnl.exe")));
        spaces.load(7, 0x5000, Some(image("a.dll")));
        let module = |spaces: &mut Spaces, pid, part, address| {
            let frame = spaces.frame(pid, part, address, false);
            let kind = spaces.modules.kinds[frame.module as usize].clone();
            match kind {
                Kind::Image { image, .. } => format!("{}+{:x}", image.path, frame.address),
                other => format!("{other:?}"),
            }
        };
        let cases = [
            (7, Part::Kernel, kernel + 0x10, "ntoskrnl.exe+10"),
            (7, Part::Kernel, kernel + 0x100, "Kernel"),
            (7, Part::User, 0x5010, "a.dll+10"),
            (8, Part::User, 0x5010, "Unknown { pid: 8 }"),
        ];
        for (pid, part, address, expected) in cases {
            assert_eq!(module(&mut spaces, pid, part, address), expected);
        }
        let version = spaces.version(7);
        spaces.load(7, 0x5000, None);
        assert_ne!(spaces.version(7), version);
        assert_eq!(module(&mut spaces, 7, Part::User, 0x5010), "Unknown { pid: 7 }");
        // A size that goes beyond the last address is damage.
        spaces.load(7, u64::MAX - 1, Some(image("b.dll")));
        assert_eq!(module(&mut spaces, 7, Part::Kernel, u64::MAX - 1), "Kernel");
    }

    fn mapped(end: u64, module: u32) -> Mapped {
        Mapped { end, shift: 0, module }
    }

    // 0 AAAAAAAA 8, then B on [2, 4), then C on [3, 9)
    #[test]
    fn a_new_mapping_replaces_what_it_overlaps() {
        let mut maps = Maps::new();
        place(&mut maps, 0, mapped(8, 0));
        place(&mut maps, 2, mapped(4, 1));
        let found: Vec<_> = maps.iter().map(|(start, m)| (*start, m.end, m.module)).collect();
        assert_eq!(found, [(0, 2, 0), (2, 4, 1), (4, 8, 0)]);
        place(&mut maps, 3, mapped(9, 2));
        let found: Vec<_> = maps.iter().map(|(start, m)| (*start, m.end, m.module)).collect();
        assert_eq!(found, [(0, 2, 0), (2, 3, 1), (3, 9, 2)]);
    }
}

//! Which code is at which addresses of a process, now.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use schedlens_etl::facts::images::Image;
use schedlens_perf_data::mapping::Mapping;

use super::Part;
use super::modules::{Kind, Method, Modules};
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
    /// What just-in-time compilers made, which is in front of what is mapped there.
    methods: Rc<Maps>,
    version: u64,
    /// It changes with each file.
    files: u64,
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

impl Spaces {
    /// The version of a process's mappings: it changes with each of them.
    pub(crate) fn version(&mut self, pid: i32) -> u64 {
        if let Some(space) = self.by_pid.get(&pid) {
            return space.version;
        }
        self.space_to_change(pid).version
    }

    /// The version of a process's files, which code of just-in-time compilers leaves alone.
    pub(crate) fn files(&mut self, pid: i32) -> u64 {
        self.version(pid);
        self.by_pid.get(&pid).map_or(0, |space| space.files)
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
        let maps = self.maps_to_change(mapping.pid, mapping.start..end);
        place(maps, mapping.start, Mapped { end, shift, module });
    }

    fn space_to_change(&mut self, pid: i32) -> &mut Space {
        self.versions += 1;
        let version = self.versions;
        let space = self.by_pid.entry(pid).or_default();
        space.version = version;
        space
    }

    /// The files of a process; those at these addresses are replaced, and so is compiled code.
    fn maps_to_change(&mut self, pid: i32, replaced: Range<u64>) -> &mut Maps {
        let space = self.space_to_change(pid);
        space.files = space.version;
        if space.methods.range(replaced.clone()).next().is_some() {
            Rc::make_mut(&mut space.methods).retain(|start, _| !replaced.contains(start));
        }
        Rc::make_mut(&mut space.maps)
    }

    /// A just-in-time compiler made a function at an address of a process; without a function,
    /// what was there disappears.
    pub(crate) fn compile(&mut self, pid: i32, code: Range<u64>, method: Option<Arc<Method>>) {
        if code.is_empty() {
            return;
        }
        let Some(method) = method else {
            let space = self.space_to_change(pid);
            Rc::make_mut(&mut space.methods).remove(&code.start);
            return;
        };
        let around = self.maps(pid).and_then(|maps| at(maps, code.start));
        let kind = around.and_then(|mapped| self.modules.kinds.get(mapped.module as usize));
        let (file, shift) = match (kind, around) {
            (Some(Kind::Image { image, .. }), Some(mapped)) => {
                (Some(Arc::clone(&image.path)), mapped.shift)
            }
            _ => (None, 0),
        };
        let module = self.modules.number(Kind::Method { method, file });
        let space = self.space_to_change(pid);
        let mapped = Mapped { end: code.end, shift, module };
        place(Rc::make_mut(&mut space.methods), code.start, mapped);
    }

    /// A file of Windows is loaded at an address of a process; process 0 is the kernel. Without a
    /// file, what was there disappears.
    pub(crate) fn load(&mut self, pid: u32, start: u64, image: Option<Image>) {
        let is_kernel = pid == 0;
        let loaded = image.and_then(|image| {
            let end = start.checked_add(image.size).filter(|end| *end > start)?;
            Some((end, self.modules.number(Kind::Image { image, is_kernel })))
        });
        let of = |mapped: Mapped| (mapped.module, mapped.shift);
        let known = if is_kernel { Some(&self.kernel_maps) } else { self.maps(pid.cast_signed()) };
        let old = known.and_then(|maps| maps.get(&start)).copied().map(of);
        let old_kind = old.and_then(|(module, _)| self.modules.kinds.get(module as usize));
        let old_end = match old_kind {
            Some(Kind::Image { image, .. }) => start.saturating_add(image.size.max(1)),
            _ => start,
        };
        let maps = if is_kernel {
            self.kernel_version += 1;
            &mut self.kernel_maps
        } else {
            let end = loaded.map_or(start, |(end, _)| end);
            self.maps_to_change(pid.cast_signed(), start..end)
        };
        match loaded {
            Some((end, module)) => place(maps, start, Mapped { end, shift: start, module }),
            // If something was loaded into its middle, it is in parts.
            None => {
                let parts = maps.range(start..old_end).filter(|(_, part)| Some(of(**part)) == old);
                let parts: Vec<u64> = parts.map(|(start, _)| *start).collect();
                for part in parts {
                    maps.remove(&part);
                }
            }
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
        let is_kernel = part == Part::Kernel;
        // A call at the very end of a mapping returns to the byte after it.
        let inside = address - u64::from(returns && address > 0);
        let found = match is_kernel {
            true => at(&self.kernel_maps, inside),
            false => self
                .by_pid
                .get(&pid)
                .and_then(|space| at(&space.methods, inside).or_else(|| at(&space.maps, inside))),
        };
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

/// The mapping of an address.
fn at(maps: &Maps, address: u64) -> Option<Mapped> {
    let (_, mapped) = maps.range(..=address).next_back()?;
    (address < mapped.end).then_some(*mapped)
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
            // A frame pointer that is none leads to any address.
            (7, Part::User, kernel + 0x10, "Unknown { pid: 7 }"),
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

    #[test]
    fn compiled_code_is_in_front_of_a_file_until_another_is_loaded_there() {
        let mut spaces = Spaces::default();
        spaces.load(7, 0x5000, Some(image("a.dll")));
        let method = |name: &str| {
            let lines = Vec::new();
            Some(Arc::new(Method { name: Arc::from(name), lines }))
        };
        spaces.compile(7, 0x5010..0x5020, method("Main"));
        spaces.compile(7, 0x9010..0x9020, method("Compiled"));
        let files = spaces.files(7);
        let found = |spaces: &mut Spaces, address| {
            let frame = spaces.frame(7, Part::User, address, false);
            match spaces.modules.kinds[frame.module as usize].clone() {
                Kind::Method { method, file } => {
                    (method.name.to_string(), file.as_deref().map(str::to_owned), frame.address)
                }
                Kind::Image { image, .. } => (image.path.to_string(), None, frame.address),
                other => (format!("{other:?}"), None, frame.address),
            }
        };
        let of =
            |name: &str, file: Option<&str>, at| (name.to_owned(), file.map(str::to_owned), at);
        assert_eq!(found(&mut spaces, 0x5010), of("Main", Some("a.dll"), 0x10));
        assert_eq!(found(&mut spaces, 0x5020), of("a.dll", None, 0x20));
        assert_eq!(found(&mut spaces, 0x901f), of("Compiled", None, 0x901f));
        assert_eq!(spaces.files(7), files);
        let version = spaces.version(7);
        spaces.compile(7, 0x9010..0x9020, None);
        assert_ne!(spaces.version(7), version);
        assert_eq!(found(&mut spaces, 0x901f).0, "Unknown { pid: 7 }");
        spaces.load(7, 0x5000, Some(image("b.dll")));
        assert_eq!(found(&mut spaces, 0x5010), of("b.dll", None, 0x10));
    }

    // 0x5000 AAAAAAAA 0x5100, then B on [0x5040, 0x5080), whose unload was lost; then A is unloaded
    #[test]
    fn a_file_with_another_one_in_its_middle_is_unloaded_as_a_whole() {
        let mut spaces = Spaces::default();
        spaces.load(7, 0x5000, Some(image("a.dll")));
        let middle = Image { size: 0x40, ..image("b.dll") };
        spaces.load(7, 0x5040, Some(middle));
        spaces.load(7, 0x6000, Some(image("a.dll")));
        spaces.load(7, 0x5000, None);
        let left: Vec<u64> = spaces.maps(7).expect("maps").keys().copied().collect();
        assert_eq!(left, [0x5040, 0x6000]);
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

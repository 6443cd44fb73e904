//! Names of the functions in all stacks, once all records are read.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schedlens_etl::facts::images;
use schedlens_symbols::exports::{self, Recorded};
use schedlens_symbols::{
    Elsewhere, Function, Image, KernelSymbols, Missing, PerfMap, Places, SymbolPath, pdb,
};

use super::modules::Kind;
use super::rows::{FrameRow, Named};
use super::spaces::Kernel;
use super::{Stacks, tree};

/// The kernel's list of functions, and its build id.
const OWN_LIST: &str = "/proc/kallsyms";
const OWN_NOTES: &str = "/sys/kernel/notes";

/// Where names of functions are looked for.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A copy of `/proc/kallsyms` that was made when the recording was.
    pub kallsyms: Option<PathBuf>,
    /// Folders with `perf-PID.map` files, in order of preference.
    pub perf_maps: Vec<PathBuf>,
    /// Folders with debug files in addition to the usual ones.
    pub debug: Vec<PathBuf>,
    /// Where PDB files are looked for.
    pub pdbs: SymbolPath,
    /// Caches of debuginfod clients in addition to the usual one.
    pub debuginfod: Vec<PathBuf>,
    /// What fetches missing files into the last of these places; `None`: nothing is fetched.
    pub fetch: Option<Fetch>,
}

/// Fetches a file: `pdb` by name and identifier, `executable` or `debuginfo` by build id. Returns
/// whether it is there now.
#[derive(Clone)]
pub struct Fetch(pub Arc<FetchFile>);

/// Kind, name, and identifier.
pub type FetchFile = dyn Fn(&str, &str, &str) -> bool + Send + Sync;

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fetch")
    }
}

impl Sources {
    fn fetch(&self, kind: &str, name: &str, id: &str) -> bool {
        self.fetch.as_ref().is_some_and(|Fetch(fetch)| fetch(kind, name, id))
    }
}

/// Why the functions of a module are unknown: the words of `frame_symbol.unknown_reason`.
mod reason {
    pub(super) const NO_FILE: &str = "file_missing";
    pub(super) const OTHER_BUILD: &str = "other_build";
    pub(super) const UNREADABLE: &str = "unreadable";
    pub(super) const NO_SYMBOL: &str = "no_symbol";
    pub(super) const STRIPPED: &str = "stripped";
    pub(super) const KERNEL_HIDDEN: &str = "kernel_hidden";
    pub(super) const NO_MAP: &str = "generated_code";
    pub(super) const SPECIAL: &str = "no_file";
    pub(super) const NO_PDB: &str = "pdb_missing";
    pub(super) const OTHER_PDB: &str = "pdb_other_build";
    pub(super) const UNREADABLE_PDB: &str = "pdb_unreadable";
    pub(super) const UNKNOWN_PDB: &str = "pdb_not_recorded";
    pub(super) const COMPRESSED_PDB: &str = "pdb_compressed";
    pub(super) const ELSEWHERE_PDB: &str = "pdb_elsewhere";
    pub(super) const UNMAPPED: &str = "unmapped";
}

/// Where names come from: the words of `frame_symbol.symbol_source`.
mod source {
    pub(super) const ELF: &str = "elf";
    pub(super) const PDB: &str = "pdb";
    pub(super) const EXPORT: &str = "export";
    pub(super) const KERNEL: &str = "kernel";
    pub(super) const COMPILER: &str = "compiler";
    pub(super) const PERF_MAP: &str = "perf_map";
}

/// What can name the code of a module.
enum Namer {
    Image(Box<Image>),
    Kernel,
    Method,
    Map(PerfMap),
    /// The functions at each address that is asked for.
    Pdb(HashMap<u64, Vec<Function>>),
    /// The nearest export below each address, and why there is nothing better.
    Exports(HashMap<u64, String>, &'static str),
    Nothing(&'static str),
}

impl Namer {
    fn source(&self) -> Option<&'static str> {
        Some(match self {
            Self::Image(_) => source::ELF,
            Self::Kernel => source::KERNEL,
            Self::Method => source::COMPILER,
            Self::Map(_) => source::PERF_MAP,
            Self::Pdb(_) => source::PDB,
            Self::Exports(..) => source::EXPORT,
            Self::Nothing(_) => return None,
        })
    }
}

impl Stacks {
    /// Looks up all functions. Inlined functions become nodes between the existing ones, which
    /// keep their numbers.
    pub(crate) fn resolve(self, sources: &Sources) -> Named {
        let mut places = Places::of_this_machine();
        places.debug.extend(sources.debug.iter().cloned());
        places.debuginfod.extend(sources.debuginfod.iter().cloned());
        let mut kernel = kernel_symbols(sources, self.spaces.kernel.as_ref());
        if let Some(kernel) = &mut kernel {
            for code in &self.kernel_code {
                kernel.insert(code.start, &code.name);
            }
        }
        let kinds = &self.spaces.modules.kinds;
        let mut by_module: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (number, frame) in self.tree.frames.iter().enumerate() {
            by_module.entry(frame.module).or_default().push(number as u32);
        }
        let mut named: HashMap<u32, Vec<FrameRow>> = HashMap::new();
        for (module, frames) in by_module {
            let Some(kind) = kinds.get(module as usize) else { continue };
            let frames: Vec<_> = frames
                .into_iter()
                .filter_map(|number| Some((number, self.tree.frames.get(number as usize)?)))
                .collect();
            let places_in = frames.iter().map(|(_, frame)| place(frame)).collect::<Vec<_>>();
            let namer = namer(kind, &places_in, sources, &places);
            for (number, frame) in frames {
                named.insert(number, rows_of(*frame, kind, &namer, kernel.as_ref()));
            }
        }
        self.with_names(&named)
    }

    fn with_names(&self, named: &HashMap<u32, Vec<FrameRow>>) -> Named {
        let mut all = Named::new(self.base);
        let mut frame_ids = HashMap::new();
        for number in 0..self.tree.frames.len() as u32 {
            let rows = named.get(&number).cloned().unwrap_or_default();
            let ids: Vec<i64> = rows.into_iter().map(|row| all.frame(row)).collect();
            frame_ids.insert(number, ids);
        }
        let mut depths: Vec<i32> = Vec::with_capacity(self.tree.nodes.len());
        let mut extra = self.tree.nodes.len() as i64;
        for (node, (caller, frame)) in self.tree.nodes.iter().enumerate() {
            let mut parent = caller.map(|caller| i64::from(caller) | self.base);
            let mut depth = caller.map_or(0, |caller| depths[caller as usize] + 1);
            let ids = frame_ids.get(frame).map(Vec::as_slice).unwrap_or_default();
            // Outermost first: the innermost function is the node that records refer to.
            for (place, id) in ids.iter().enumerate().rev() {
                if place == 0 {
                    all.node(node as i64 | self.base, parent, depth, *id);
                } else {
                    all.node(extra | self.base, parent, depth, *id);
                    parent = Some(extra | self.base);
                    extra += 1;
                    depth += 1;
                }
            }
            depths.push(depth);
        }
        all
    }
}

/// The call is before the address it returns to, which may belong to the next function.
fn place(frame: &tree::Frame) -> u64 {
    frame.address.saturating_sub(u64::from(frame.returns))
}

fn namer(kind: &Kind, addresses: &[u64], sources: &Sources, places: &Places) -> Namer {
    match kind {
        Kind::Kernel => Namer::Kernel,
        Kind::Method { .. } => Namer::Method,
        Kind::Image { image, .. } => match of_windows(image, addresses, sources) {
            Namer::Nothing(why) => of_exports(image, addresses, sources, why),
            namer => namer,
        },
        Kind::Special(_) => Namer::Nothing(reason::SPECIAL),
        Kind::Unknown { pid } | Kind::Anonymous { pid } => {
            let name = format!("perf-{pid}.map");
            let maps = sources.perf_maps.iter().map(|folder| folder.join(&name));
            let fallback = match kind {
                Kind::Anonymous { .. } => reason::NO_MAP,
                _ => reason::UNMAPPED,
            };
            maps.into_iter()
                .find_map(|path| PerfMap::read(&path).ok())
                .map_or(Namer::Nothing(fallback), Namer::Map)
        }
        Kind::File { path, build_id } => {
            match of_file(&places.file(path), build_id.as_deref(), sources, places) {
                Ok(image) => Namer::Image(Box::new(image)),
                Err(Missing::File) => Namer::Nothing(reason::NO_FILE),
                Err(Missing::OtherBuild(_)) => Namer::Nothing(reason::OTHER_BUILD),
                Err(Missing::Unreadable(_)) => Namer::Nothing(reason::UNREADABLE),
            }
        }
    }
}

/// The file of that build, with its debug information as far as there is any.
fn of_file(
    path: &Path,
    build_id: Option<&[u8]>,
    sources: &Sources,
    places: &Places,
) -> Result<Image, Missing> {
    let open = || Image::of_build(path, build_id, places).map(|(image, _)| image);
    let fetch = |kind| build_id.is_some_and(|id| sources.fetch(kind, "", &hex(id)));
    let image = match open() {
        Err(Missing::File | Missing::OtherBuild(_)) if fetch("executable") => open()?,
        found => found?,
    };
    if !image.has_lines() && fetch("debuginfo") { open() } else { Ok(image) }
}

/// The PDB of a file, fetched if it is not here.
fn of_windows(image: &images::Image, addresses: &[u64], sources: &Sources) -> Namer {
    let Some(pdb) = &image.pdb else { return Namer::Nothing(reason::UNKNOWN_PDB) };
    let id = pdb.id();
    match of_pdb(&pdb.name, &id, addresses, sources) {
        Namer::Nothing(_) if sources.fetch("pdb", &pdb.name, &id) => {
            of_pdb(&pdb.name, &id, addresses, sources)
        }
        namer => namer,
    }
}

/// The first PDB of that signature; otherwise why the best of those found is of no use.
fn of_pdb(name: &str, id: &str, addresses: &[u64], sources: &Sources) -> Namer {
    let mut why = match sources.pdbs.elsewhere(name, id) {
        Some(Elsewhere::Compressed(_)) => reason::COMPRESSED_PDB,
        Some(Elsewhere::Pointer(_)) => reason::ELSEWHERE_PDB,
        None => reason::NO_PDB,
    };
    for path in sources.pdbs.candidates(name, id) {
        match pdb::functions(&path, id, addresses) {
            Ok(found) => return Namer::Pdb(addresses.iter().copied().zip(found).collect()),
            Err(Missing::Unreadable(_)) => why = reason::UNREADABLE_PDB,
            Err(Missing::OtherBuild(_)) if why == reason::NO_PDB => why = reason::OTHER_PDB,
            Err(_) => {}
        }
    }
    Namer::Nothing(why)
}

/// The exports of a file, if it is on the symbol path; `why` there is no PDB.
fn of_exports(
    image: &images::Image,
    addresses: &[u64],
    sources: &Sources,
    why: &'static str,
) -> Namer {
    let pdb = image.pdb.as_ref().map(|pdb| pdb.id());
    let recorded = Recorded { stamp: image.stamp, size: image.size, pdb: pdb.as_deref() };
    let found = sources
        .pdbs
        .candidates(&image.path, &recorded.id().unwrap_or_default())
        .iter()
        .find_map(|path| exports::nearest(path, &recorded, addresses).ok());
    let Some(found) = found else { return Namer::Nothing(why) };
    let named = addresses.iter().copied().zip(found);
    Namer::Exports(named.filter_map(|(address, name)| Some((address, name?))).collect(), why)
}

fn rows_of(
    frame: tree::Frame,
    kind: &Kind,
    namer: &Namer,
    kernel: Option<&KernelSymbols>,
) -> Vec<FrameRow> {
    let mut row = FrameRow {
        module: module_name(kind),
        build_id: match kind {
            Kind::File { build_id, .. } => build_id.as_deref().map(hex),
            Kind::Image { image, .. } => image.pdb.as_ref().map(|pdb| pdb.id()),
            _ => None,
        },
        address: frame.address.cast_signed(),
        is_kernel: kind.is_kernel(),
        ..FrameRow::default()
    };
    let place = place(&frame);
    let functions = match namer {
        Namer::Nothing(why) => {
            row.unknown_reason = Some(why);
            return vec![row];
        }
        Namer::Kernel => match kernel.filter(|kernel| !kernel.is_empty()) {
            None => {
                row.unknown_reason = Some(reason::KERNEL_HIDDEN);
                return vec![row];
            }
            Some(symbols) => symbols
                .at(place)
                .map(|found| {
                    if let Some(module) = found.module {
                        row.module = Some(format!("[{module}]"));
                    }
                    Function { name: found.name.to_owned(), file: None, line: None }
                })
                .into_iter()
                .collect(),
        },
        Namer::Method => function_of(kind, place).into_iter().collect(),
        Namer::Map(map) => map
            .at(place)
            .map(|name| Function { name: name.to_owned(), file: None, line: None })
            .into_iter()
            .collect(),
        Namer::Pdb(found) => found.get(&place).cloned().unwrap_or_default(),
        Namer::Exports(found, why) => {
            // The name is approximate, and what gives the exact one is still missing.
            row.unknown_reason = Some(why);
            row.symbol = found.get(&place).map(|name| format!("{name} (export)"));
            row.symbol_source = row.symbol.is_some().then_some(source::EXPORT);
            return vec![row];
        }
        Namer::Image(image) => {
            image.address_of(place).map(|address| image.functions(address)).unwrap_or_default()
        }
    };
    if functions.is_empty() {
        row.unknown_reason = Some(match namer {
            Namer::Image(image) if !image.has_symbols() => reason::STRIPPED,
            Namer::Map(_) => reason::NO_MAP,
            _ => reason::NO_SYMBOL,
        });
        return vec![row];
    }
    let outermost = functions.len() - 1;
    functions
        .into_iter()
        .enumerate()
        .map(|(place, function)| FrameRow {
            symbol: Some(function.name),
            symbol_source: namer.source(),
            file: function.file,
            line: function.line.and_then(|line| i32::try_from(line).ok()),
            is_inlined: place < outermost,
            ..row.clone()
        })
        .collect()
}

/// The function that a just-in-time compiler made.
fn function_of(kind: &Kind, address: u64) -> Option<Function> {
    let Kind::Method { method, .. } = kind else { return None };
    let after = method.lines.partition_point(|(start, ..)| *start <= address);
    let line = method.lines.get(after.wrapping_sub(1));
    Some(Function {
        name: method.name.to_string(),
        file: line.map(|(_, file, _)| file.to_string()),
        line: line.map(|(_, _, line)| *line),
    })
}

fn module_name(kind: &Kind) -> Option<String> {
    match kind {
        Kind::File { path, .. } => Some(path.clone()),
        Kind::Image { image, .. } => Some(image.path.to_string()),
        Kind::Kernel => Some("[kernel]".to_owned()),
        Kind::Method { file: Some(path), .. } => Some(path.to_string()),
        Kind::Anonymous { .. } | Kind::Method { file: None, .. } => Some("[anonymous]".to_owned()),
        Kind::Special(name) => Some(name.clone()),
        Kind::Unknown { .. } => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The functions of the kernel that ran: from the copy made then, else from this machine, if its
/// kernel is the same.
fn kernel_symbols(sources: &Sources, kernel: Option<&Kernel>) -> Option<KernelSymbols> {
    let kernel = kernel?;
    let fits = |list: &KernelSymbols| list.address_of(&kernel.symbol) == Some(kernel.address);
    let copy = sources.kallsyms.as_deref().and_then(|path| KernelSymbols::read(path).ok());
    if let Some(copy) = copy.filter(fits) {
        return Some(copy);
    }
    let build_id = kernel.build_id.as_deref()?;
    let own = std::fs::read(OWN_NOTES).ok()?;
    let is_same = own.windows(build_id.len()).any(|part| part == build_id);
    is_same.then(|| KernelSymbols::read(Path::new(OWN_LIST)).ok())?.filter(fits)
}

//! Fuzz targets in one binary, so that it is linked once: `SCHEDLENS_FUZZ_TARGET` selects one.
//!
//! libFuzzer provides `main` and the options; `tools/fuzz/run.py` builds and calls it.

#![no_main]

mod bytes;
mod caught;
mod dat;
mod etl;
mod intervals;
mod laws;
mod loaded;
mod memory;
mod perf;
mod printed;
mod show;
mod states;
mod symbols;
mod tables;
mod texts;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: memory::Limited = memory::Limited;

type Target = fn(&[u8]);

/// All targets by name.
const TARGETS: [(&str, Target); 30] = [
    ("etl_file", etl::file),
    ("etl_buffers", etl::buffers),
    ("etl_schedule", etl::schedule),
    ("etl_zip", etl::archive),
    ("lznt1", etl::lznt1),
    ("xpress", etl::xpress),
    ("xpress_huffman", etl::xpress_huffman),
    ("kernel_event", etl::kernel_event),
    ("event_info", etl::event_info),
    ("manifest", etl::manifest),
    ("tracelogging", etl::tracelogging),
    ("winsat", etl::winsat),
    ("dat_file", dat::file),
    ("dat_pages", dat::pages),
    ("perf_file", perf::file),
    ("perf_features", perf::features),
    ("perf_formats", perf::formats),
    ("perf_records", perf::records),
    ("perf_script", printed::perf_script),
    ("dumper", printed::dumper),
    ("precise", printed::precise),
    ("states", states::target),
    ("intervals", intervals::target),
    ("tables", tables::target),
    ("samples", texts::samples),
    ("processors", texts::processors),
    ("pdb_file", symbols::pdb_file),
    ("pdb_streams", symbols::pdb_streams),
    ("exports", symbols::exports),
    ("jit_dump", symbols::jit_dump),
];

static SELECTED: OnceLock<Target> = OnceLock::new();

fn selected() -> Target {
    let name = std::env::var("SCHEDLENS_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let Some((_, target)) = found else {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("SCHEDLENS_FUZZ_TARGET must be one of {}", names.join(" "));
        std::process::exit(2);
    };
    *target
}

fuzz_target!(
    init: {
        SELECTED.get_or_init(selected);
    },
    |data: &[u8]| SELECTED.get_or_init(selected)(data)
);

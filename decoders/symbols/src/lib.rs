//! Names of functions for addresses: ELF, PDB and PE files, the kernel, and the code of just-in-time
//! compilers; and unwinding by the tables that compilers write.
//!
//! Files are only read. Nothing is fetched from other machines.

#![deny(missing_docs)]

mod debug_file;
pub mod exports;
mod function;
mod image;
pub mod jit_dump;
mod kernel;
pub mod pdb;
mod perf_map;
mod symbol_path;
pub mod unwind;

pub use self::debug_file::Places;
pub use self::function::{Function, LONGEST_NAME, demangled};
pub use self::image::{Image, Missing};
pub use self::kernel::{KernelSymbol, KernelSymbols};
pub use self::perf_map::PerfMap;
pub use self::symbol_path::{Elsewhere, SymbolPath};

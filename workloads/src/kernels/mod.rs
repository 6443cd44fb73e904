//! The kernels, one per file, and their common parts.

pub mod add1;
pub mod add8;
pub mod aes;
mod asm_loop;
pub mod atomic_counter;
pub mod false_sharing;
pub mod frame;
pub mod game;
pub mod housekeeping;
pub mod imul;
pub mod imul_add;
pub mod matmul;
pub mod mem_seq;
pub mod mem_stride;
pub mod mpmc_queue;
pub mod mutex;
pub mod pause;
pub mod pointer_chase;
pub mod queue;
mod register_loop;
pub mod ruler;
pub mod scan;
pub mod serve;
pub mod sha256;
pub mod spin_handoff;
pub mod spin_lock;

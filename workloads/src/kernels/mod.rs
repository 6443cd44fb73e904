//! The kernels, one per file.

pub mod add1;
pub mod add8;
pub mod imul;
pub mod imul_add;
pub mod mem_seq;
pub mod mem_stride;
pub mod pause;
pub mod pointer_chase;
pub mod queue;
pub mod ruler;
pub mod sha256;
pub mod spin_handoff;

/// An odd number of no special form: added or multiplied in by the register kernels.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Where their registers begin.
const SEED: u64 = 0x0123_4567_89ab_cdef;

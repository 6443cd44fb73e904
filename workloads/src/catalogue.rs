//! The list of all kernels.

use crate::kernel::Kernel;
use crate::kernels::{
    add1, add8, aes, atomic_counter, false_sharing, frame, game, housekeeping, imul, imul_add,
    matmul, mem_seq, mem_stride, mpmc_queue, mutex, pause, pointer_chase, queue, ruler, scan,
    serve, sha256, spin_handoff, spin_lock,
};

/// In the order in which they are listed and verified.
pub static KERNELS: &[&Kernel] = &[
    &imul::IMUL1,
    &imul::IMUL2,
    &imul::IMUL3,
    &imul::IMUL4,
    &imul::IMUL5,
    &imul::IMUL6,
    &imul::IMUL7,
    &imul::IMUL8,
    &imul::IMUL9,
    &imul::IMUL10,
    &add1::KERNEL,
    &add8::KERNEL,
    &imul_add::KERNEL,
    &ruler::KERNEL,
    &sha256::KERNEL,
    &mem_seq::KERNEL,
    &mem_stride::KERNEL,
    &pointer_chase::KERNEL,
    &aes::KERNEL,
    &matmul::KERNEL,
    &scan::KERNEL,
    &serve::KERNEL,
    &pause::KERNEL,
    &housekeeping::KERNEL,
    &spin_handoff::KERNEL,
    &frame::KERNEL,
    &game::KERNEL,
    &queue::KERNEL,
    &mpmc_queue::KERNEL,
    &atomic_counter::KERNEL,
    &spin_lock::KERNEL,
    &mutex::KERNEL,
    &false_sharing::KERNEL,
];

/// The kernel of that name.
pub fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().copied().find(|kernel| kernel.name == name)
}

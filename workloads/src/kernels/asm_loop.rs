//! Loops in assembly: the instructions differ by architecture, the operands do not.

/// An `asm!` with this architecture's instructions and the operands that all share.
macro_rules! asm_by_arch {
    (
        x86_64: [$($x86:expr),+ $(,)?],
        aarch64: [$($arm:expr),+ $(,)?],
        $($operands:tt)+
    ) => {
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!($($x86,)+ $($operands)+);
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!($($arm,)+ $($operands)+);
    };
}

/// A loop that runs `left` times, which must not be 0.
macro_rules! counted_loop {
    (
        $iterations:expr,
        x86_64: [$($x86:expr),+ $(,)?],
        aarch64: [$($arm:expr),+ $(,)?],
        $($operands:tt)+
    ) => {
        $crate::kernels::asm_loop::asm_by_arch!(
            x86_64: [".p2align 6", "2:", $($x86,)+ "dec {left}", "jnz 2b"],
            aarch64: [".p2align 6", "2:", $($arm,)+ "subs {left}, {left}, #1", "b.ne 2b"],
            left = inout(reg) $iterations => _,
            $($operands)+
        )
    };
}

pub(super) use {asm_by_arch, counted_loop};

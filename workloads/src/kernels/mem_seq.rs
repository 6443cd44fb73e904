//! mem_seq: 32 Ki byte reads in sequence, the best case for the L1 cache.

use super::asm_loop::asm_by_arch;
use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};
use crate::os::Memory;

const BYTES: usize = 32 * 1024;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "mem_seq",
    summary: "a pass of byte reads in sequence over 32 KiB",
    note: "one read a cycle: the loop's branch and its sum, not the load ports; memory in L1d",
    unit: Unit::Bytes,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: anywhere,
        crew: |threads, _| Crew::alone(threads, |_| Reading::new()),
    }],
    usual_cycles: Some(BYTES as f64),
    instructions: None,
};

/// The byte at `index`: never 0, so that pages never written show in the sum.
fn pattern(index: usize) -> u8 {
    (index * 151 % 255) as u8 + 1
}

struct Reading {
    memory: Memory,
    sum: u64,
    iterations: u64,
}

impl Reading {
    fn new() -> Result<Reading, String> {
        let mut memory =
            Memory::new(BYTES).map_err(|error| format!("no memory for {BYTES} bytes: {error}"))?;
        for (index, byte) in memory.bytes_mut().iter_mut().enumerate() {
            *byte = pattern(index);
        }
        Ok(Reading { memory, sum: 0, iterations: 0 })
    }
}

/// Sum of all bytes, read one by one.
fn sum_of(bytes: &[u8]) -> u64 {
    let mut sum = 0_u64;
    if bytes.is_empty() {
        return sum;
    }
    // SAFETY: reads exactly the slice.
    unsafe {
        asm_by_arch!(
            x86_64: [
                ".p2align 6",
                "2:",
                "movzx {byte:e}, byte ptr [{at}]",
                "add {sum}, {byte}",
                "inc {at}",
                "cmp {at}, {end}",
                "jne 2b",
            ],
            aarch64: [
                ".p2align 6",
                "2:",
                "ldrb {byte:w}, [{at}], #1",
                "add {sum}, {sum}, {byte}",
                "cmp {at}, {end}",
                "b.ne 2b",
            ],
            byte = out(reg) _,
            sum = inout(reg) sum,
            at = inout(reg) bytes.as_ptr() => _,
            end = in(reg) bytes.as_ptr_range().end,
            options(nostack, readonly),
        );
    }
    sum
}

impl Work for Reading {
    fn batch(&mut self, iterations: u64) -> u64 {
        for _ in 0..iterations {
            self.sum = self.sum.wrapping_add(sum_of(self.memory.bytes()));
        }
        self.iterations += iterations;
        iterations
    }

    fn bytes_per_iteration(&self) -> u64 {
        BYTES as u64
    }

    fn prove(&mut self) -> Vec<Proof> {
        let pass: u64 = (0..BYTES).map(|index| u64::from(pattern(index))).sum();
        vec![Proof::new(
            format!("checksum of {} passes", self.iterations),
            pass.wrapping_mul(self.iterations),
            self.sum,
        )]
    }

    fn sizes(&self) -> Vec<(&'static str, u64)> {
        vec![("memory_bytes_per_worker", BYTES as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read_once() {
        assert_eq!(sum_of(&[]), 0);
        assert_eq!(sum_of(&[255]), 255);
        assert_eq!(sum_of(&[1, 2, 3, 250]), 256);
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let mut work = Reading::new().expect("32 KiB are free");
        work.batch(3);
        assert!(work.prove().iter().all(Proof::holds));
        work.memory.bytes_mut()[BYTES - 1] ^= 1;
        work.batch(1);
        assert!(!work.prove().iter().any(Proof::holds));
    }
}

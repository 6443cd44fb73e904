//! mem_stride: 32 Ki byte reads far apart, in base pages.
//!
//! Both variants touch the same number of cache lines (32768, or 2 MiB of lines), but in different
//! cache sets and pages. All memory is written first: pages never written all map to one zero page,
//! and reading it looks three times as fast.

use super::asm_loop::counted_loop;
use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work};
use crate::os::{self, Memory};

const READS: u64 = 32 * 1024;
const LARGE_BYTES: usize = 1 << 30;
const SMALL_BYTES: usize = 64 << 20;
/// Memory to leave to the rest of the machine.
const SPARE_BYTES: u64 = 256 << 20;
/// The value of the bytes that are not read.
const FILL: u8 = 0x5a;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "mem_stride",
    summary: "byte reads with a stride: 1 GiB by 32 KiB, 64 MiB by 2 KiB",
    note: "caches and TLB miss; both variants touch 32768 lines, only sets and pages differ; \
           each worker has its own memory",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[
        Variant {
            name: "1g",
            refusal: |threads| refusal(threads, LARGE_BYTES),
            crew: |threads, _| Crew::alone(threads, |_| Striding::new(LARGE_BYTES)),
        },
        Variant {
            name: "64m",
            refusal: |threads| refusal(threads, SMALL_BYTES),
            crew: |threads, _| Crew::alone(threads, |_| Striding::new(SMALL_BYTES)),
        },
    ],
    usual_cycles: None,
    instructions: None,
};

fn refusal(threads: usize, bytes: usize) -> Option<String> {
    refusal_with(threads, bytes, os::available_memory_bytes())
}

fn refusal_with(threads: usize, bytes: usize, available: Option<u64>) -> Option<String> {
    let Some(available) = available else {
        return Some("the available memory is unknown".to_owned());
    };
    // Page tables take 1/512 of it.
    let needed = (bytes as u64 + bytes as u64 / 512).saturating_mul(threads as u64) + SPARE_BYTES;
    (available < needed).then(|| {
        format!(
            "{threads} worker(s) need {} MiB of memory, {} MiB are available",
            needed >> 20,
            available >> 20
        )
    })
}

/// The byte at this read of a pass; never 0.
fn pattern(read: u64) -> u8 {
    (read * 151 % 255) as u8 + 1
}

struct Striding {
    memory: Memory,
    stride: u64,
    offset: u64,
    sum: u64,
    iterations: u64,
}

impl Striding {
    fn new(bytes: usize) -> Result<Striding, String> {
        let mut memory =
            Memory::new(bytes).map_err(|error| format!("no memory for {bytes} bytes: {error}"))?;
        let stride = bytes as u64 / READS;
        let target = memory.bytes_mut();
        target.fill(FILL);
        for read in 0..READS {
            target[(read * stride) as usize] = pattern(read);
        }
        Ok(Striding { memory, stride, offset: 0, sum: 0, iterations: 0 })
    }
}

impl Work for Striding {
    fn batch(&mut self, iterations: u64) -> u64 {
        if iterations == 0 {
            return 0;
        }
        let bytes = self.memory.bytes();
        let mask = bytes.len() as u64 - 1;
        // SAFETY: the mask keeps every offset inside the memory, whose size is a power of two.
        unsafe {
            counted_loop!(
                iterations,
                x86_64: [
                    "movzx {byte:e}, byte ptr [{base} + {offset}]",
                    "add {sum}, {byte}",
                    "add {offset}, {stride}",
                    "and {offset}, {mask}",
                ],
                aarch64: [
                    "ldrb {byte:w}, [{base}, {offset}]",
                    "add {sum}, {sum}, {byte}",
                    "add {offset}, {offset}, {stride}",
                    "and {offset}, {offset}, {mask}",
                ],
                byte = out(reg) _,
                sum = inout(reg) self.sum,
                offset = inout(reg) self.offset,
                base = in(reg) bytes.as_ptr(),
                stride = in(reg) self.stride,
                mask = in(reg) mask,
                options(nostack, readonly),
            );
        }
        self.iterations += iterations;
        iterations
    }

    fn bytes_per_iteration(&self) -> u64 {
        1
    }

    fn prove(&mut self) -> Vec<Proof> {
        let sum_to = |reads: u64| (0..reads).map(|read| u64::from(pattern(read))).sum::<u64>();
        let (passes, rest) = (self.iterations / READS, self.iterations % READS);
        vec![Proof::new(
            format!("checksum of {} reads", self.iterations),
            sum_to(READS).wrapping_mul(passes).wrapping_add(sum_to(rest)),
            self.sum,
        )]
    }

    fn sizes(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("memory_bytes_per_worker", self.memory.bytes().len() as u64),
            ("stride_bytes", self.stride),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_go_round_and_a_wrong_byte_is_found() {
        let mut work = Striding::new(1 << 20).expect("1 MiB is free");
        assert_eq!(work.stride, 32);
        work.batch(0);
        work.batch(3);
        assert_eq!(work.sum, u64::from(pattern(0)) + u64::from(pattern(1)) + u64::from(pattern(2)));
        assert_eq!(work.offset, 96);
        work.batch(2 * READS);
        assert_eq!(work.offset, 96);
        assert!(work.prove().iter().all(Proof::holds));
        work.memory.bytes_mut()[96] ^= 0x80;
        work.batch(1);
        assert!(!work.prove().iter().any(Proof::holds));
    }

    #[test]
    fn memory_never_written_is_found() {
        let memory = Memory::new(1 << 20).expect("1 MiB is free");
        let mut work = Striding { memory, stride: 32, offset: 0, sum: 0, iterations: 0 };
        work.batch(READS);
        assert!(!work.prove().iter().any(Proof::holds));
    }

    #[test]
    fn it_is_refused_where_memory_is_short_or_unknown() {
        let gib = Some(1_u64 << 30);
        assert_eq!(refusal_with(1, SMALL_BYTES, gib), None);
        assert_eq!(
            refusal_with(1, LARGE_BYTES, gib),
            Some("1 worker(s) need 1282 MiB of memory, 1024 MiB are available".to_owned())
        );
        assert_eq!(
            refusal_with(12, SMALL_BYTES, gib),
            Some("12 worker(s) need 1025 MiB of memory, 1024 MiB are available".to_owned())
        );
        assert_eq!(refusal_with(11, SMALL_BYTES, gib), None);
        let unknown = Some("the available memory is unknown".to_owned());
        assert_eq!(refusal_with(1, SMALL_BYTES, None), unknown);
    }
}

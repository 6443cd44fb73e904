//! Maps by thread.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by `utid`. The same insertions give the same order, so that output is deterministic.
pub type ByThread<V> = HashMap<i64, V, BuildHasherDefault<UtidHasher>>;

/// Spreads the low bits of a `utid`, which contain the thread's number within its recording.
#[derive(Default)]
pub struct UtidHasher(u64);

impl Hasher for UtidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // The odd number nearest to 2^64 divided by the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value.cast_unsigned());
    }
}

//! A record in the merged order of all CPUs.

use schedlens_input::bytes::{u16_at, u32_at};

/// A record with its time and CPU.
#[derive(Clone, Copy, Debug)]
pub struct Merged<'a> {
    /// All its bytes, header included.
    pub bytes: &'a [u8],
    /// Logical CPU that wrote it.
    pub cpu: i32,
    /// For samples: index of the event.
    pub event: usize,
}

impl Merged<'_> {
    /// `perf_event_header.type`
    #[inline(always)]
    pub fn kind(&self) -> u32 {
        u32_at(self.bytes, 0).unwrap_or_default()
    }

    /// `perf_event_header.misc`
    pub fn misc(&self) -> u16 {
        u16_at(self.bytes, 4).unwrap_or_default()
    }
}

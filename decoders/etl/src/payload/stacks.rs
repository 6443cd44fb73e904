//! Stacks and samples: which code ran.

use schedlens_input::bytes::{u16_at, u32_at, u64_at};

use super::switching::stack_owner;

/// Hook of `SampledProfile`.
pub const SAMPLED_PROFILE: u16 = 0x0f2e;
/// Hook of `PmcCounterProfile`: a sample when a hardware counter overflows.
pub const COUNTER_PROFILE: u16 = 0x0f2f;
/// Hook of a stack with its addresses.
pub const STACK_WALK: u16 = 0x1820;
/// Hooks of the addresses that a key stands for: create, delete, rundown.
pub const DEFINITIONS: [u16; 3] = [CREATE, DELETE, RUNDOWN];
pub(crate) const CREATE: u16 = 0x1822;
const DELETE: u16 = 0x1823;
const RUNDOWN: u16 = 0x1824;
/// Hooks of a stack with the key of its kernel part, and of its user part.
pub const KEYED: [u16; 2] = [0x1825, 0x1826];

fn pointer_at(bytes: &[u8], at: usize, pointer: usize) -> Option<u64> {
    match pointer {
        4 => u32_at(bytes, at).map(u64::from),
        _ => u64_at(bytes, at),
    }
}

/// Addresses, the innermost first.
pub fn addresses(bytes: &[u8], pointer: usize) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(pointer).filter_map(move |chunk| pointer_at(chunk, 0, pointer))
}

/// Whether an address of a traced system belongs to the kernel.
pub fn is_kernel(address: u64, pointer: usize) -> bool {
    address >> (8 * pointer.min(8) - 1) & 1 != 0
}

/// A part of a stack: of which event and thread, and its addresses or the key that stands for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackPart<'a> {
    /// Raw time of the event to which it belongs.
    pub event: i64,
    /// Process of the thread.
    pub pid: u32,
    /// Thread whose stack it is.
    pub tid: u32,
    /// What follows.
    pub content: StackContent<'a>,
}

/// The addresses of a stack, or what stands for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackContent<'a> {
    /// Addresses, as recorded.
    Addresses(&'a [u8]),
    /// A key.
    Key(u64),
}

impl<'a> StackPart<'a> {
    /// Bytes before the addresses.
    const HEAD: usize = 16;

    /// Reads a payload of [`STACK_WALK`] or [`KEYED`].
    pub fn read(hook: u16, payload: &'a [u8], pointer: usize) -> Option<Self> {
        let (event, pid, tid) = stack_owner(payload)?;
        let content = match hook {
            STACK_WALK => StackContent::Addresses(payload.get(Self::HEAD..)?),
            _ => StackContent::Key(pointer_at(payload, Self::HEAD, pointer)?),
        };
        Some(Self { event, pid, tid, content })
    }
}

/// What a key stands for: its addresses as recorded.
pub fn definition(payload: &[u8], pointer: usize) -> Option<(u64, &[u8])> {
    Some((pointer_at(payload, 0, pointer)?, payload.get(pointer..)?))
}

/// `SampledProfile` or `PmcCounterProfile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// `InstructionPointer`
    pub address: u64,
    /// `ThreadId`
    pub tid: u32,
    /// `Count` of a `SampledProfile`: samples that it stands for; else `ProfileSource`.
    pub number: u16,
}

impl Sample {
    /// Reads a payload of any version.
    pub fn read(payload: &[u8], pointer: usize) -> Option<Self> {
        Some(Self {
            address: pointer_at(payload, 0, pointer)?,
            tid: u32_at(payload, pointer)?,
            number: u16_at(payload, pointer + 4)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_and_keys_are_read_in_both_pointer_sizes() {
        let payload: Vec<u8> = (1..=32).collect();
        let part = StackPart::read(STACK_WALK, &payload, 8).expect("stack");
        assert_eq!((part.event, part.pid, part.tid), {
            (0x0807_0605_0403_0201, 0x0c0b_0a09, 0x100f_0e0d)
        });
        let StackContent::Addresses(bytes) = part.content else { panic!("addresses") };
        let wide: Vec<u64> = addresses(bytes, 8).collect();
        assert_eq!(wide, [0x1817_1615_1413_1211, 0x201f_1e1d_1c1b_1a19]);
        let narrow: Vec<u64> = addresses(bytes, 4).collect();
        assert_eq!(narrow, [0x1413_1211, 0x1817_1615, 0x1c1b_1a19, 0x201f_1e1d]);
        for (pointer, key) in [(8, 0x1817_1615_1413_1211), (4, 0x1413_1211)] {
            let part = StackPart::read(0x1826, &payload, pointer).expect("key");
            assert_eq!(part.content, StackContent::Key(key));
        }
        assert_eq!(StackPart::read(0x1825, &payload[..20], 8), None);
        assert_eq!(StackPart::read(STACK_WALK, &payload[..12], 8), None);
    }

    #[test]
    fn a_definition_is_a_key_and_its_addresses() {
        let payload: Vec<u8> = (1..=12).collect();
        assert_eq!(definition(&payload, 4), Some((0x0403_0201, &payload[4..])));
        assert_eq!(definition(&payload[..7], 8), None);
    }

    #[test]
    fn samples_are_read_in_both_pointer_sizes() {
        let payload: Vec<u8> = (1..=16).collect();
        let wide = Sample::read(&payload, 8).expect("sample");
        assert_eq!((wide.address, wide.tid, wide.number), {
            (0x0807_0605_0403_0201, 0x0c0b_0a09, 0x0e0d)
        });
        assert_eq!(Sample::read(&payload, 4).map(|sample| sample.number), Some(0x0a09));
        assert_eq!(Sample::read(&payload[..13], 8), None);
    }

    #[test]
    fn the_upper_half_belongs_to_the_kernel() {
        assert!(is_kernel(0x8000_0000, 4) && !is_kernel(0x7fff_ffff, 4));
        assert!(is_kernel(1 << 63, 8) && !is_kernel(0x8000_0000, 8));
    }
}

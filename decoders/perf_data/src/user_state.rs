//! Registers and stack of the user part of a thread, for unwinding: `--call-graph dwarf`.

use schedlens_input::bytes::u64_at;

use crate::attrs::{Attr, SAMPLE_RAW};

const SAMPLE_BRANCH_STACK: u64 = 1 << 11;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
/// `PERF_SAMPLE_BRANCH_HW_INDEX`
const BRANCH_HW_INDEX: u64 = 1 << 17;
/// `PERF_SAMPLE_BRANCH_CALL_STACK`
const BRANCH_CALL_STACK: u64 = 1 << 11;
/// Bytes of a `perf_branch_entry`.
const BRANCH: usize = 24;
/// `PERF_SAMPLE_REGS_ABI_64`
const ABI_64: u64 = 2;

/// What a sample contains of the user part of its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserState<'a> {
    mask: u64,
    registers: &'a [u8],
    /// The bytes from the stack pointer up.
    pub stack: &'a [u8],
    branches: &'a [u8],
}

impl UserState<'_> {
    /// A register by its number in `perf_regs.h` of the architecture.
    pub fn register(&self, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        let place = (self.mask & (bit - 1)).count_ones() as usize;
        (self.mask & bit != 0).then(|| u64_at(self.registers, place * 8)).flatten()
    }

    /// Return addresses, innermost first, from the last branch records in call stack mode.
    pub fn callers(&self) -> impl Iterator<Item = u64> {
        self.branches.chunks_exact(BRANCH).filter_map(|entry| u64_at(entry, 0))
    }
}

impl Attr {
    /// Whether samples contain a copy of the user stack.
    pub fn has_user_stack(&self) -> bool {
        self.sample_type & (SAMPLE_REGS_USER | SAMPLE_STACK_USER)
            == SAMPLE_REGS_USER | SAMPLE_STACK_USER
    }

    /// Whether samples contain calls from last branch records.
    pub fn has_branch_stack(&self) -> bool {
        self.sample_type & SAMPLE_BRANCH_STACK != 0 && self.branch_type & BRANCH_CALL_STACK != 0
    }

    /// Registers and stack of a sample; `None` if there are none or lengths exceed the record.
    pub fn user_state<'a>(&self, record: &'a [u8]) -> Option<UserState<'a>> {
        let mut at = self.end_of_callchain(record)?;
        if self.sample_type & SAMPLE_RAW != 0 {
            let size = schedlens_input::bytes::u32_at(record, at)? as usize;
            at = at.checked_add(4)?.checked_add(size)?;
        }
        let mut state = UserState { mask: self.regs_user, ..UserState::default() };
        if self.sample_type & SAMPLE_BRANCH_STACK != 0 {
            let count = usize::try_from(u64_at(record, at)?).ok()?;
            at += if self.branch_type & BRANCH_HW_INDEX != 0 { 16 } else { 8 };
            let end = at.checked_add(count.checked_mul(BRANCH)?)?;
            state.branches = record.get(at..end)?;
            at = end;
        }
        if self.sample_type & SAMPLE_REGS_USER != 0 {
            let abi = u64_at(record, at)?;
            at += 8;
            if abi != 0 {
                let end = at.checked_add(self.regs_user.count_ones() as usize * 8)?;
                state.registers = record.get(at..end)?;
                at = end;
            }
            if abi != ABI_64 {
                state.mask = 0;
            }
        }
        if self.sample_type & SAMPLE_STACK_USER != 0 {
            let size = usize::try_from(u64_at(record, at)?).ok()?;
            at += 8;
            if size > 0 {
                let end = at.checked_add(size)?;
                let stack = record.get(at..end)?;
                let copied = usize::try_from(u64_at(record, end)?).ok()?;
                state.stack = stack.get(..copied)?;
            }
        }
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attrs::SAMPLE_CALLCHAIN;

    fn record(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn attr() -> Attr {
        let kinds = SAMPLE_CALLCHAIN | SAMPLE_REGS_USER | SAMPLE_STACK_USER;
        let mut attr = Attr { sample_type: kinds, regs_user: 0b1_0110, ..Attr::default() };
        attr.sample.varying = 8;
        attr
    }

    // header, 1 address, ABI, 3 registers, 16 bytes of stack of which 8 were copied
    const WORDS: [u64; 10] = [0, 1, 5, ABI_64, 11, 12, 14, 16, 77, 0];

    #[test]
    fn registers_and_the_copied_part_of_the_stack_are_found() {
        let bytes = record(&[&WORDS[..], &[8]].concat());
        let state = attr().user_state(&bytes).expect("fits");
        let registers: Vec<_> = (0..6).map(|number| state.register(number)).collect();
        assert_eq!(registers, [None, Some(11), Some(12), None, Some(14), None]);
        assert_eq!(state.stack, 77_u64.to_le_bytes());
    }

    #[test]
    fn lengths_beyond_the_record_are_refused() {
        for (at, value) in [(1, u64::MAX), (7, 1 << 40), (10, 17)] {
            let mut words = [&WORDS[..], &[8]].concat();
            words[at] = value;
            assert_eq!(attr().user_state(&record(&words)), None, "{at}");
        }
    }
}

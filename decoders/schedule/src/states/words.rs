//! The words of the derived tables' text columns, and their numbers.

use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{ArrayRef, DictionaryArray, StringArray, UInt8Array};
use schedlens_system::thread_states::{KWAIT_REASON, LINUX_LETTERS};

/// State of a thread, in the order of [`STATES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// On a CPU.
    Running = 0,
    /// Runnable, not on a CPU.
    Ready = 1,
    /// Blocked.
    Waiting = 2,
    /// Created, not yet runnable.
    New = 3,
    /// Unknown.
    Unknown = 4,
}

/// Texts of [`State`].
pub(super) const STATES: [&str; 5] = ["running", "ready", "waiting", "new", "unknown"];

/// State of a logical CPU, in the order of [`CPU_STATES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuWord {
    /// Runs a thread other than its idle thread.
    Thread = 0,
    /// Interrupt work inside the idle thread.
    Interrupt = 1,
    /// The idle thread.
    Idle = 2,
    /// Unknown.
    Unknown = 3,
    /// Not in use by the system.
    Offline = 4,
}

/// Texts of [`CpuWord`].
pub(super) const CPU_STATES: [&str; 5] = ["thread", "interrupt", "idle", "unknown", "offline"];

/// Why a slice ended, in the order of [`END_REASONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    /// The thread ended.
    Exit = 0,
    /// It waits.
    Blocked = 1,
    /// Its quantum was used up.
    QuantumEnd = 2,
    /// Its quantum was used up, or it yielded: the recording does not show which.
    QuantumEndOrYield = 3,
    /// It yielded.
    Yield = 4,
    /// Another thread became ready and took its place.
    Preempted = 5,
    /// It left runnable and its CPU went idle.
    ThrottledOrMoved = 6,
    /// It left runnable for another reason.
    RunnableOther = 7,
    /// Unknown.
    Unknown = 8,
    /// The recording ended first.
    TraceEnd = 9,
}

/// Texts of [`EndReason`].
pub(super) const END_REASONS: [&str; 10] = [
    "exit",
    "blocked",
    "quantum_end",
    "quantum_end_or_yield",
    "yield",
    "preempted",
    "throttled_or_moved",
    "runnable_other",
    "unknown",
    "trace_end",
];

/// Texts in order of first use, at most 256.
#[derive(Debug, Default)]
pub(super) struct Words {
    texts: Vec<String>,
}

impl Words {
    /// The number of a text; `None` if 256 others are present.
    pub(super) fn number(&mut self, text: &str) -> Option<u8> {
        if let Some(found) = self.texts.iter().position(|known| known == text) {
            return u8::try_from(found).ok();
        }
        let number = u8::try_from(self.texts.len()).ok()?;
        self.texts.push(text.to_owned());
        Some(number)
    }

    /// Letter of a sleeping Linux state: that of its highest bit, as the kernel prints it.
    pub(super) fn linux_state(&mut self, state: i32) -> Option<u8> {
        let low = state as u32 & 0xff;
        let letter = LINUX_LETTERS.get(low.checked_ilog2()? as usize)?;
        self.number(letter)
    }

    /// Name of a `KWAIT_REASON`; unnamed numbers remain numbers.
    pub(super) fn wait_reason(&mut self, reason: Option<i32>) -> Option<u8> {
        let reason = reason?;
        match usize::try_from(reason).ok().and_then(|number| KWAIT_REASON.get(number)) {
            Some(name) => self.number(name),
            None => self.number(&reason.to_string()),
        }
    }

    /// A dictionary column over these texts.
    pub(super) fn column(&self, keys: UInt8Array) -> ArrayRef {
        column(keys, &self.texts)
    }
}

/// A dictionary column over a fixed list of texts.
pub(super) fn column<T: AsRef<str>>(keys: UInt8Array, texts: &[T]) -> ArrayRef {
    let values = StringArray::from_iter_values(texts.iter().map(AsRef::as_ref));
    Arc::new(DictionaryArray::<UInt8Type>::new(keys, Arc::new(values)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_states_are_letters_of_the_highest_bit() {
        let mut words = Words::default();
        let letters: Vec<_> = [1, 2, 4, 8, 16, 32, 64, 128, 0x82, 0x102]
            .into_iter()
            .map(|state| words.linux_state(state).map(|n| words.texts[usize::from(n)].clone()))
            .map(|text| text.expect("a letter"))
            .collect();
        assert_eq!(letters, ["S", "D", "T", "t", "X", "Z", "P", "I", "I", "D"]);
        assert_eq!(words.linux_state(0x100), None);
        assert_eq!(words.linux_state(0), None);
    }

    #[test]
    fn wait_reasons_are_names_and_unknown_ones_numbers() {
        let mut words = Words::default();
        let text =
            |n: Option<u8>, words: &Words| words.texts[usize::from(n.expect("number"))].clone();
        for (reason, name) in [
            (5, "Suspended"),
            (12, "WrSuspended"),
            (24, "WrCpuRateControl"),
            (30, "WrQuantumEnd"),
            (42, "WrRcu"),
            (43, "43"),
            (-1, "-1"),
        ] {
            let number = words.wait_reason(Some(reason));
            assert_eq!(text(number, &words), name);
        }
        assert_eq!(words.wait_reason(None), None);
    }

    #[test]
    fn no_more_than_256_texts_are_kept() {
        let mut words = Words::default();
        for n in 0..256 {
            assert_eq!(words.number(&n.to_string()), u8::try_from(n).ok());
        }
        assert_eq!(words.number("one more"), None);
        assert_eq!(words.number("255"), Some(255));
    }
}

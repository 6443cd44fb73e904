//! Callchains of samples: addresses from the innermost function outwards, split by context markers.

use schedlens_input::bytes::u64_at;

use crate::attrs::{Attr, SAMPLE_CALLCHAIN, SAMPLE_READ};

/// `PERF_CONTEXT_MAX`: this value and all above it are markers, not addresses.
const LOWEST_MARKER: u64 = 4095_u64.wrapping_neg();

/// Whose code an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// `PERF_CONTEXT_HV`
    Hypervisor,
    /// `PERF_CONTEXT_KERNEL`
    Kernel,
    /// `PERF_CONTEXT_USER`
    User,
    /// `PERF_CONTEXT_GUEST`
    Guest,
    /// `PERF_CONTEXT_GUEST_KERNEL`
    GuestKernel,
    /// `PERF_CONTEXT_GUEST_USER`
    GuestUser,
}

impl Context {
    fn of_marker(marker: u64) -> Option<Self> {
        match marker.wrapping_neg() {
            32 => Some(Self::Hypervisor),
            128 => Some(Self::Kernel),
            512 => Some(Self::User),
            2048 => Some(Self::Guest),
            2176 => Some(Self::GuestKernel),
            2560 => Some(Self::GuestUser),
            _ => None,
        }
    }

    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hypervisor => "hypervisor",
            Self::Kernel => "kernel",
            Self::User => "user",
            Self::Guest => "guest",
            Self::GuestKernel => "guest kernel",
            Self::GuestUser => "guest user",
        }
    }
}

/// The addresses of a callchain, each with its context; `None` without a known marker before it.
#[derive(Clone, Copy, Debug)]
pub struct Callchain<'a> {
    rest: &'a [u8],
    context: Option<Context>,
}

impl<'a> Callchain<'a> {
    /// Addresses and markers as recorded.
    pub fn bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl Iterator for Callchain<'_> {
    type Item = (Option<Context>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let word = u64_at(self.rest, 0)?;
            self.rest = self.rest.get(8..).unwrap_or_default();
            if word < LOWEST_MARKER {
                return Some((self.context, word));
            }
            self.context = Context::of_marker(word);
        }
    }
}

impl Attr {
    /// The callchain of a sample; `None` if the event records none or its length exceeds the record.
    pub fn callchain<'a>(&self, record: &'a [u8]) -> Option<Callchain<'a>> {
        if self.sample_type & SAMPLE_CALLCHAIN == 0 {
            return None;
        }
        let mut at = self.sample.varying;
        if self.sample_type & SAMPLE_READ != 0 {
            at = at.checked_add(self.read_size(record, at)?)?;
        }
        let size = usize::try_from(u64_at(record, at)?).ok()?.checked_mul(8)?;
        at = at.checked_add(8)?;
        Some(Callchain { rest: record.get(at..at.checked_add(size)?)?, context: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    fn attr(sample_type: u64) -> Attr {
        let mut attr = Attr { sample_type, ..Attr::default() };
        attr.sample.varying = 8;
        attr
    }

    #[test]
    fn markers_divide_the_addresses_and_are_none() {
        let minus = u64::wrapping_neg;
        let bytes = record(&[7, 1, minus(128), 2, 3, minus(512), 4, minus(700)]);
        let chain = attr(SAMPLE_CALLCHAIN).callchain(&bytes).expect("fits");
        let (kernel, user) = (Some(Context::Kernel), Some(Context::User));
        assert_eq!(chain.collect::<Vec<_>>(), [(None, 1), (kernel, 2), (kernel, 3), (user, 4)]);
        // An unknown marker ends the part before it.
        let bytes = record(&[4, minus(512), 4, minus(700), 5]);
        let chain = attr(SAMPLE_CALLCHAIN).callchain(&bytes).expect("fits");
        assert_eq!(chain.collect::<Vec<_>>(), [(user, 4), (None, 5)]);
    }

    #[test]
    fn counter_values_before_the_callchain_are_passed_over() {
        let bytes = record(&[99, 1, 5]);
        let chain = attr(SAMPLE_CALLCHAIN | SAMPLE_READ).callchain(&bytes).expect("fits");
        assert_eq!(chain.collect::<Vec<_>>(), [(None, 5)]);
    }

    #[test]
    fn lengths_that_do_not_fit_and_events_without_callchains_have_none() {
        for frames in [2, 1 << 61, u64::MAX] {
            assert!(attr(SAMPLE_CALLCHAIN).callchain(&record(&[frames, 1])).is_none());
        }
        assert!(attr(0).callchain(&record(&[1, 1])).is_none());
    }
}

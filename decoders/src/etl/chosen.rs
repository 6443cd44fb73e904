//! Which records somebody wants to see.

use super::guid::Guid;
use super::record::Head;

/// A choice of records by hook, and by class or provider.
#[derive(Clone, Debug)]
pub struct Chosen {
    hooks: Vec<u64>,
    /// Sorted.
    guids: Vec<Guid>,
    /// Every record of any kind.
    all: bool,
}

impl Chosen {
    /// No record at all.
    pub fn none() -> Self {
        Self { hooks: vec![0; 1 << 10], guids: Vec::new(), all: false }
    }

    /// Every record.
    pub fn all() -> Self {
        Self { all: true, ..Self::none() }
    }

    /// Those with one of these hooks, classes or providers.
    pub fn of(hooks: impl IntoIterator<Item = u16>, guids: impl IntoIterator<Item = Guid>) -> Self {
        let mut chosen = Self::none();
        for hook in hooks {
            chosen.hooks[usize::from(hook >> 6)] |= 1 << (hook & 63);
        }
        chosen.guids.extend(guids);
        chosen.guids.sort_unstable();
        chosen
    }

    /// Whether the record with that head is chosen.
    #[inline(always)]
    pub fn has(&self, head: &Head, records: &[u8], at: usize) -> bool {
        if let Some(hook) = head.hook(records, at) {
            return self.all || self.hooks[usize::from(hook >> 6)] >> (hook & 63) & 1 != 0;
        }
        self.all || self.has_guid(head, records, at)
    }

    #[inline(never)]
    fn has_guid(&self, head: &Head, records: &[u8], at: usize) -> bool {
        let guid = head.guid(records, at);
        guid.is_some_and(|guid| self.guids.binary_search(&guid).is_ok())
    }
}

//! Which records somebody wants to see.

use super::guid::Guid;
use super::head::Head;

/// Words with a bit for each of the hooks there can be.
const WORDS: usize = 1 << 10;

/// A choice of records by hook, and by class or provider.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// A bit for each hook.
    hooks: Box<[u64; WORDS]>,
    /// Sorted.
    guids: Vec<Guid>,
    /// Events with this number too, whoever their provider is.
    event: Option<u16>,
    /// Every record, whether it has a GUID or not.
    all: bool,
}

impl Chosen {
    /// No record at all.
    pub fn none() -> Self {
        Self { hooks: Box::new([0; WORDS]), guids: Vec::new(), event: None, all: false }
    }

    /// Every record.
    pub fn all() -> Self {
        Self { hooks: Box::new([u64::MAX; WORDS]), guids: Vec::new(), event: None, all: true }
    }

    /// Those with one of these hooks, classes or providers.
    pub fn of(hooks: impl IntoIterator<Item = u16>, guids: impl IntoIterator<Item = Guid>) -> Self {
        let mut chosen = Self::none();
        for hook in hooks {
            chosen.add(hook);
        }
        chosen.guids.extend(guids);
        chosen.guids.sort_unstable();
        chosen
    }

    /// The same and manifest events with that number, whoever their provider is.
    pub(super) fn with_event(self, event: u16) -> Self {
        Self { event: Some(event), ..self }
    }

    /// Whether the record with that head is chosen.
    #[inline(always)]
    pub fn has(&self, head: &Head, records: &[u8], at: usize) -> bool {
        match head.hook() {
            Some(hook) => self.has_hook(hook),
            None => self.all || self.has_guid(head, records, at),
        }
    }

    /// Whether records with a hook are chosen.
    #[inline(always)]
    pub(super) fn has_hook(&self, hook: u16) -> bool {
        self.hooks[usize::from(hook >> 6)] >> (hook & 63) & 1 != 0
    }

    /// The same and records with these hooks too.
    pub(super) fn and(&self, hooks: &[u16]) -> Self {
        let mut chosen = self.clone();
        hooks.iter().for_each(|hook| chosen.add(*hook));
        chosen
    }

    fn add(&mut self, hook: u16) {
        self.hooks[usize::from(hook >> 6)] |= 1 << (hook & 63);
    }

    #[inline(never)]
    fn has_guid(&self, head: &Head, records: &[u8], at: usize) -> bool {
        let guid = head.guid(records, at);
        guid.is_some_and(|guid| self.guids.binary_search(&guid).is_ok())
            || self.event.is_some_and(|event| head.event(records, at) == Some(event))
    }
}

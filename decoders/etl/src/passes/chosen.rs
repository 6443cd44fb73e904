//! The choice of records to read.

use crate::guid::Guid;
use crate::records::head::Head;

/// Hook of `CSwitch`.
const SWITCH: u16 = 0x0524;
/// Hook of `ReadyThread`.
const READY: u16 = 0x0532;

/// Number of possible hooks.
const HOOKS: usize = 1 << 16;

/// What is requested for a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing.
    #[default]
    None,
    /// Its records.
    Record,
    /// Its records, which are switches.
    Switch,
    /// Its records, which are wakeups.
    Ready,
}

impl Class {
    fn of(hook: u16) -> Self {
        match hook {
            SWITCH => Self::Switch,
            READY => Self::Ready,
            _ => Self::Record,
        }
    }
}

/// A choice of records by hook, and by class or provider.
#[derive(Clone, Debug)]
pub struct Chosen {
    hooks: Box<[Class; HOOKS]>,
    /// Sorted.
    guids: Vec<Guid>,
    /// Also events with this number from any provider.
    event: Option<u16>,
    /// Every record, with or without a GUID.
    all: bool,
}

impl Chosen {
    /// No record at all.
    pub fn none() -> Self {
        let hooks = Box::new([Class::None; HOOKS]);
        Self { hooks, guids: Vec::new(), event: None, all: false }
    }

    /// Every record.
    pub fn all() -> Self {
        let mut chosen = Self { all: true, ..Self::none() };
        // Choosing the hooks one by one takes longer than reading a small log.
        chosen.hooks.fill(Class::Record);
        chosen.add(SWITCH);
        chosen.add(READY);
        chosen
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

    /// The same, plus manifest events with that number from any provider.
    pub(crate) fn with_event(self, event: u16) -> Self {
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
    pub(crate) fn has_hook(&self, hook: u16) -> bool {
        self.class(hook) != Class::None
    }

    /// What is requested for a hook.
    #[inline(always)]
    pub(crate) fn class(&self, hook: u16) -> Class {
        self.hooks[usize::from(hook)]
    }

    /// The same, plus records with these hooks.
    pub(crate) fn and(&self, hooks: &[u16]) -> Self {
        let mut chosen = self.clone();
        hooks.iter().for_each(|hook| chosen.add(*hook));
        chosen
    }

    /// The same, plus records of these classes or providers.
    pub(crate) fn with(mut self, guids: &[Guid]) -> Self {
        self.guids.extend(guids);
        self.guids.sort_unstable();
        self
    }

    fn add(&mut self, hook: u16) {
        self.hooks[usize::from(hook)] = Class::of(hook);
    }

    #[inline(never)]
    fn has_guid(&self, head: &Head, records: &[u8], at: usize) -> bool {
        let guid = head.guid(records, at);
        guid.is_some_and(|guid| self.guids.binary_search(&guid).is_ok())
            || self.event.is_some_and(|event| head.event(records, at) == Some(event))
    }
}

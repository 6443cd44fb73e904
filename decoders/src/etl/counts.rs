//! How many records of each kind of event there are.

use std::collections::HashMap;

use super::guid::Guid;
use super::head::Head;
use super::record::{Kind, Pointer};
use crate::bytes::u16_at;

/// What is counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which header.
    pub kind: Kind,
    /// Width of its pointers.
    pub pointer: Pointer,
    /// Which event.
    pub event: Event,
    /// Version of its layout.
    pub version: u8,
}

/// An event without what differs from record to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// `HookId`.
    Hook(u16),
    /// Class and opcode.
    Classic(Guid, u8),
    /// Provider and number.
    Manifest(Guid, u16),
    /// Number of a WPP message.
    Message(u16),
    /// Nothing names it.
    None,
}

/// Hooks there can be.
const HOOKS: usize = 1 << 16;

/// Counts by [`Key`].
#[derive(Debug)]
pub(super) struct Counts {
    /// First word of the header (kind, pointers, version; 0 without a hook), key, count.
    slots: Vec<(u32, Key, u64)>,
    by_key: HashMap<Key, u32>,
    /// Slot that the last record with a hook had; beyond all: there was none.
    by_hook: Box<[u32; HOOKS]>,
    /// Slot that the last record without a hook had.
    last: Option<(Key, u32)>,
}

impl Default for Counts {
    fn default() -> Self {
        let by_hook = Box::new([u32::MAX; HOOKS]);
        Self { slots: Vec::new(), by_key: HashMap::new(), by_hook, last: None }
    }
}

impl Counts {
    /// Counts a record with a hook.
    #[inline(always)]
    pub(super) fn add_hook(&mut self, hook: u16, head: &Head) {
        // The high byte of the version word tells of counters, not of the event.
        let word = head.marker() & 0xffff_00ff;
        let slot = self.by_hook[usize::from(hook)] as usize;
        match self.slots.get_mut(slot) {
            Some((known, _, count)) if *known == word => *count += 1,
            _ => self.add_changed(head, hook, word),
        }
    }

    #[inline(never)]
    fn add_changed(&mut self, head: &Head, hook: u16, word: u32) {
        let key = Key {
            kind: head.kind(),
            pointer: head.pointer(),
            event: Event::Hook(hook),
            version: word as u8,
        };
        let slot = self.slot(key);
        self.slots[slot as usize].0 = word;
        self.slots[slot as usize].2 += 1;
        self.by_hook[usize::from(hook)] = slot;
    }

    fn slot(&mut self, key: Key) -> u32 {
        let next = self.slots.len() as u32;
        let slot = *self.by_key.entry(key).or_insert(next);
        if slot == next {
            self.slots.push((0, key, 0));
        }
        slot
    }

    /// Counts a record without a hook.
    #[inline(never)]
    pub(super) fn add_other(&mut self, head: &Head, records: &[u8], at: usize) {
        let byte = |offset: usize| records.get(at + offset).copied().unwrap_or_default();
        let kind = head.kind();
        let guid = head.guid(records, at);
        let (event, version) = match (kind, guid) {
            (Kind::Event, Some(provider)) => {
                let id = u16_at(records, at + 40).unwrap_or_default();
                (Event::Manifest(provider, id), byte(42))
            }
            (_, Some(class)) => (Event::Classic(class, byte(4)), byte(6)),
            (Kind::Message, None) => {
                (Event::Message(u16_at(records, at + 4).unwrap_or_default()), 0)
            }
            (_, None) => (Event::None, 0),
        };
        let key = Key { kind, pointer: head.pointer(), event, version };
        let slot = match self.last {
            Some((last, slot)) if last == key => slot,
            _ => self.slot(key),
        };
        self.last = Some((key, slot));
        self.slots[slot as usize].2 += 1;
    }

    /// All of them, in the order of their keys.
    pub(super) fn into_sorted(self) -> Vec<(Key, u64)> {
        let mut counts: Vec<_> =
            self.slots.into_iter().map(|(_, key, count)| (key, count)).collect();
        counts.sort_unstable();
        counts
    }
}

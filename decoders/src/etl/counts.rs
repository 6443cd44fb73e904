//! How many records of each kind of event there are.

use std::collections::HashMap;

use super::guid::Guid;
use super::record::{Head, Kind, Pointer};
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

/// Counts by [`Key`].
#[derive(Debug)]
pub(super) struct Counts {
    slots: Vec<(Key, u64)>,
    by_key: HashMap<Key, u32>,
    /// Slot that the last record with a hook had, plus one.
    by_hook: Vec<u32>,
    /// First word of that record's header: kind, pointers, version.
    words: Vec<u32>,
    /// Slot that the last record without a hook had.
    last: Option<(Key, u32)>,
}

impl Default for Counts {
    fn default() -> Self {
        let by_hook = vec![0; 1 << 16];
        Self { slots: Vec::new(), by_key: HashMap::new(), by_hook, words: Vec::new(), last: None }
    }
}

impl Counts {
    /// Counts the record with that head.
    #[inline(always)]
    pub(super) fn add(&mut self, head: &Head, records: &[u8], at: usize) {
        let Some(hook) = head.hook(records, at) else { return self.add_other(head, records, at) };
        // The high byte of the version word tells of counters, not of the event.
        let word = crate::bytes::u32_at(records, at).unwrap_or_default() & 0xffff_00ff;
        let slot = self.by_hook[usize::from(hook)] as usize;
        if slot != 0 && self.words.get(slot - 1) == Some(&word) {
            self.slots[slot - 1].1 += 1;
        } else {
            self.add_hook(head, hook, word);
        }
    }

    #[inline(never)]
    fn add_hook(&mut self, head: &Head, hook: u16, word: u32) {
        let key = Key {
            kind: head.kind(),
            pointer: head.pointer(),
            event: Event::Hook(hook),
            version: word as u8,
        };
        let slot = self.slot(key);
        self.slots[slot as usize].1 += 1;
        self.by_hook[usize::from(hook)] = slot + 1;
        self.words[slot as usize] = word;
    }

    fn slot(&mut self, key: Key) -> u32 {
        let next = self.slots.len() as u32;
        let slot = *self.by_key.entry(key).or_insert(next);
        if slot == next {
            self.slots.push((key, 0));
            self.words.push(0);
        }
        slot
    }

    #[inline(never)]
    fn add_other(&mut self, head: &Head, records: &[u8], at: usize) {
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
        self.slots[slot as usize].1 += 1;
    }

    /// All of them, in the order of their keys.
    pub(super) fn into_sorted(self) -> Vec<(Key, u64)> {
        let mut slots = self.slots;
        slots.sort_unstable();
        slots
    }
}

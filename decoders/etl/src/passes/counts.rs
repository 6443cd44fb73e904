//! Number of records of each kind of event.

use std::collections::HashMap;

use schedlens_input::bytes::{prefetch, u16_at};

use crate::container::clock::Clock;
use crate::guid::Guid;
use crate::payload::tracelogging;
use crate::records::head::Head;
use crate::records::plain::Opening;
use crate::records::record::{EXT_SCHEMA, EXT_TRAITS, HAS_ITEMS, split_items};
use crate::records::{Id, Kind, Pointer};

/// The key by which records are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Header kind.
    pub kind: Kind,
    /// Width of its pointers.
    pub pointer: Pointer,
    /// The event.
    pub event: Event,
    /// Version of its layout.
    pub version: u8,
}

/// An event without the parts that vary between records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// `HookId`.
    Hook(u16),
    /// Class and opcode.
    Classic(Guid, u8),
    /// Provider and number.
    Manifest(Guid, u16),
    /// Provider of a TraceLogging event, and the number of its name within the recording.
    SelfDescribing(Guid, u32),
    /// Number of a WPP message.
    Message(u16),
    /// Unnamed.
    None,
}

impl Event {
    /// The event of a record; for TraceLogging without its name.
    pub fn of(id: &Id) -> Self {
        match *id {
            Id::Hook(hook) => Self::Hook(hook),
            Id::Classic { class, opcode } => Self::Classic(class, opcode),
            Id::Event { provider, id, .. } => Self::Manifest(provider, id),
            Id::Message { number, .. } => Self::Message(number),
            Id::None => Self::None,
        }
    }
}

/// Number of possible hooks.
const HOOKS: usize = 1 << 16;
/// Record kinds tallied at once; their hooks differ in the lower bits.
const TALLIES: usize = 1 << 12;

/// A kind of record that is only counted.
#[derive(Clone, Copy, Debug)]
struct Tally {
    /// First word of its records, without their size.
    word: u64,
    count: u64,
}

/// The initial value: no word without its size equals it.
const NO_TALLY: Tally = Tally { word: u64::MAX, count: 0 };

/// Counts by [`Key`].
#[derive(Debug)]
pub(crate) struct Counts {
    /// First word of the header (kind, pointers, version; 0 without a hook), key, count.
    slots: Vec<(u32, Key, u64)>,
    by_key: HashMap<Key, u32>,
    /// Last slot used for each hook; out of range if none.
    by_hook: Box<[u32; HOOKS]>,
    /// By the lower bits of the hook.
    tallies: Box<[Tally; TALLIES]>,
    /// The slot of each tally.
    tally_slots: Box<[u32; TALLIES]>,
    /// Last slot used for a record without a hook.
    last: Option<(Key, u32)>,
    /// Numbers of the names of TraceLogging events, by provider and name.
    numbers: HashMap<Guid, HashMap<Vec<u8>, u32>>,
    /// Names of TraceLogging events by their number.
    pub(crate) described: Vec<SelfDescribed>,
}

/// The names in a TraceLogging event: its provider's, if present, and its own.
pub(crate) type SelfDescribed = (Option<String>, String);

/// Maximum number of distinct TraceLogging names.
const MOST_NAMES: usize = 1 << 12;
/// Size of an `EVENT_HEADER`.
const EVENT_HEADER: usize = 80;

impl Default for Counts {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            by_key: HashMap::new(),
            by_hook: Box::new([u32::MAX; HOOKS]),
            tallies: Box::new([NO_TALLY; TALLIES]),
            tally_slots: Box::new([0; TALLIES]),
            last: None,
            numbers: HashMap::new(),
            described: Vec::new(),
        }
    }
}

impl Counts {
    /// Counts records as long as each is of a kind that is only counted and has a plausible time;
    /// returns the position of the next one.
    #[inline(always)]
    pub(crate) fn tally(
        &mut self,
        records: &[u8],
        mut at: usize,
        clock: &Clock,
        mut passes: impl FnMut(i64),
    ) -> usize {
        while let Some(opening) = Opening::at(records, at) {
            prefetch(records, at);
            let tally = &mut self.tallies[usize::from(opening.hook()) % TALLIES];
            if tally.word != opening.word_without_size() || !clock.is_near(opening.ts) {
                break;
            }
            tally.count += 1;
            passes(opening.ts);
            at = opening.end(at);
        }
        at
    }

    /// Counts a record with a hook. Further records of its kind are only counted.
    #[inline(never)]
    pub(crate) fn begin_tally(&mut self, plain: Opening) {
        let (hook, head) = (plain.hook(), plain.head());
        self.add_hook(hook, &head);
        let at = usize::from(hook) % TALLIES;
        let tally = Tally { word: plain.word_without_size(), count: 0 };
        let before = std::mem::replace(&mut self.tallies[at], tally);
        let slot = std::mem::replace(&mut self.tally_slots[at], self.by_hook[usize::from(hook)]);
        if before.count > 0 {
            self.slots[slot as usize].2 += before.count;
        }
    }

    /// Counts a record with a hook.
    #[inline(always)]
    pub(crate) fn add_hook(&mut self, hook: u16, head: &Head) {
        // The high byte of the version word describes counters, not the event.
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
    pub(crate) fn add_other(&mut self, head: &Head, records: &[u8], at: usize) {
        let byte = |offset: usize| records.get(at + offset).copied().unwrap_or_default();
        let kind = head.kind();
        let guid = head.guid(records, at);
        let (event, version) = match (kind, guid) {
            (Kind::Event, Some(provider)) => {
                let id = u16_at(records, at + 40).unwrap_or_default();
                // TraceLogging events have no number; the others are named by number.
                let unnumbered = (id == 0).then_some(());
                let named =
                    unnumbered.and_then(|()| self.self_describing(provider, head, records, at));
                (named.unwrap_or(Event::Manifest(provider, id)), byte(42))
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

    /// The event named in a record's extended items, if any.
    fn self_describing(
        &mut self,
        provider: Guid,
        head: &Head,
        records: &[u8],
        at: usize,
    ) -> Option<Event> {
        let bytes = records.get(at..at + head.size as usize)?;
        if u16_at(bytes, 4)? & HAS_ITEMS == 0 {
            return None;
        }
        let (mut items, _) = split_items(bytes.get(EVENT_HEADER..)?)?;
        let traits = items;
        let name = tracelogging::name(items.find(|item| item.kind == EXT_SCHEMA)?.data)?;
        let known = self.numbers.get(&provider).and_then(|names| names.get(name));
        if let Some(number) = known {
            return Some(Event::SelfDescribing(provider, *number));
        }
        if self.described.len() >= MOST_NAMES {
            return None;
        }
        let number = self.described.len() as u32;
        let traits = { traits }.find(|item| item.kind == EXT_TRAITS);
        let provider_name = traits.and_then(|item| tracelogging::provider(item.data));
        self.described.push((provider_name, tracelogging::text(name)));
        self.numbers.entry(provider).or_default().insert(name.to_vec(), number);
        Some(Event::SelfDescribing(provider, number))
    }

    /// All counts, sorted by key.
    pub(crate) fn into_sorted(mut self) -> Vec<(Key, u64)> {
        for (tally, slot) in self.tallies.iter().zip(&*self.tally_slots) {
            if tally.count > 0 {
                self.slots[*slot as usize].2 += tally.count;
            }
        }
        let mut counts: Vec<_> =
            self.slots.into_iter().map(|(_, key, count)| (key, count)).collect();
        counts.sort_unstable();
        counts
    }
}

//! What the records contain about code: images, compiled methods, what the keys of stacks stand for, and how often
//! samples are taken.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::facts::images::{self, Images};
use crate::facts::methods::{self, Methods};
use crate::facts::survey::class_hook;
use crate::guid::Guid;
use crate::payload::known;
use crate::payload::providers::KERNEL_PROCESS;
use crate::payload::stacks::{self, CREATE, DEFINITIONS, addresses};
use crate::records::{Id, Record};

/// Hooks of the intervals of samples: set, rundown at the start, rundown at the end.
const INTERVALS: [u16; 3] = [0x0f48, 0x0f49, 0x0f4a];
/// The kernel's class of stacks, for records with a classic header.
const STACK_WALK: Guid = Guid::from_text_order(0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3);
/// More addresses than this are not kept: 256 MB.
const MOST_ADDRESSES: usize = 1 << 25;
/// More definitions than this are not kept: 128 MB.
const MOST_DEFINITIONS: usize = 1 << 23;
/// Numbers of `KPROFILE_SOURCE` that have a name here.
const MOST_SOURCES: usize = 64;
/// `ProfileTime`
const TIME: u32 = 0;

/// A moment at which a key begins or ceases to stand for a stack.
#[derive(Clone, Copy, Debug)]
struct Definition {
    ts: i64,
    is_create: bool,
    chain: u32,
    /// Of the definitions of the key by time: the chain of the next one from here on that is a
    /// deletion or a listing, and that of the last creation up to here.
    next_listed: Option<u32>,
    last_created: Option<u32>,
}

impl Definition {
    fn new(ts: i64, is_create: bool, chain: u32) -> Self {
        Self { ts, is_create, chain, next_listed: None, last_created: None }
    }
}

/// Fills in what is next to each definition, so that no look-up walks along them.
fn link(by_time: &mut [Definition]) {
    let mut created = None;
    for definition in by_time.iter_mut() {
        created = if definition.is_create { Some(definition.chain) } else { created };
        definition.last_created = created;
    }
    let mut listed = None;
    for definition in by_time.iter_mut().rev() {
        listed = if definition.is_create { listed } else { Some(definition.chain) };
        definition.next_listed = listed;
    }
}

/// What a recording contains about code.
#[derive(Debug, Default)]
pub struct Code {
    /// Files at addresses.
    pub images: Images,
    /// Code that a runtime compiled.
    pub methods: Methods,
    by_key: HashMap<u64, Vec<Definition>>,
    definitions: usize,
    known: HashMap<(u64, u64), u32>,
    hashers: [RandomState; 2],
    chains: Vec<(u32, u32)>,
    addresses: Vec<u64>,
    /// Definitions that were left out.
    pub left_out: i64,
    /// Time between two samples, ns, if recorded.
    pub sample_interval_ns: Option<i64>,
    /// Names of what hardware samples count, by `ProfileSource`.
    sources: HashMap<u32, String>,
}

impl Code {
    /// Hooks that [`Code::take`] needs.
    pub(crate) fn hooks() -> Vec<u16> {
        [&images::HOOKS[..], &methods::HOOKS, &DEFINITIONS, &INTERVALS].concat()
    }

    /// Classes and providers that [`Code::take`] needs.
    pub(crate) fn classes() -> [Guid; 7] {
        [
            images::IMAGE,
            images::IMAGE_ID,
            images::SYSTEM_EX,
            STACK_WALK,
            methods::RUNTIME,
            methods::RUNDOWN,
            KERNEL_PROCESS,
        ]
    }

    /// Reads a record; `false` if it is not about code.
    pub(crate) fn take(&mut self, record: &Record<'_>) -> bool {
        if self.images.take(record) || self.methods.take(record) {
            return true;
        }
        let hook = match record.id {
            Id::Hook(hook) => hook,
            _ => class_hook(&record.id).unwrap_or_default(),
        };
        if DEFINITIONS.contains(&hook) {
            self.define(hook == CREATE, record);
        } else if INTERVALS.contains(&hook) {
            self.interval(hook, record);
        } else {
            return false;
        }
        true
    }

    fn define(&mut self, is_create: bool, record: &Record<'_>) {
        let pointer = record.pointer.size();
        let Some((key, bytes)) = stacks::definition(record.payload, pointer) else { return };
        let [one, two] = &self.hashers;
        // With 128 bits of two keyed hashes, not even a crafted file has two chains alike.
        let hash = (one.hash_one((pointer, bytes)), two.hash_one((pointer, bytes)));
        let chain = match self.known.get(&hash) {
            Some(chain) => *chain,
            None => {
                let start = self.addresses.len();
                if start + bytes.len() / pointer > MOST_ADDRESSES {
                    self.left_out += 1;
                    return;
                }
                self.addresses.extend(addresses(bytes, pointer));
                let chain = self.chains.len() as u32;
                self.chains.push((start as u32, self.addresses.len() as u32));
                self.known.insert(hash, chain);
                chain
            }
        };
        if self.definitions >= MOST_DEFINITIONS {
            self.left_out += 1;
            return;
        }
        self.definitions += 1;
        let definition = Definition::new(record.ts, is_create, chain);
        self.by_key.entry(key).or_default().push(definition);
    }

    fn interval(&mut self, hook: u16, record: &Record<'_>) {
        let read = known::hook(hook, record.version, record.payload, record.pointer.size());
        let Some((_, fields)) = read else { return };
        let Some(source) = fields.id("Source") else { return };
        if source == TIME {
            // In units of 100 ns.
            let interval = fields.number("NewInterval").and_then(|new| i64::try_from(new).ok());
            let interval = interval.and_then(|new| new.checked_mul(100)).filter(|ns| *ns > 0);
            self.sample_interval_ns = self.sample_interval_ns.or(interval);
        } else if let Some(name) = fields.text("SourceName").filter(|name| !name.is_empty())
            && self.sources.len() < MOST_SOURCES
        {
            self.sources.insert(source, name.to_owned());
        }
    }

    /// Call this after the last record, with the clock that makes ns of raw times.
    pub(crate) fn finish(&mut self, ns: impl Fn(i64) -> i64) {
        self.images.finish(&ns);
        self.methods.finish(&ns);
        for found in self.by_key.values_mut() {
            found.sort_by_key(|definition| definition.ts);
            found.iter_mut().for_each(|definition| definition.ts = ns(definition.ts));
            link(found);
        }
        self.known = HashMap::new();
    }

    /// The addresses that a key stands for in a record of a time in ns: those with which it is next deleted or
    /// listed, else those with which it was last created.
    pub fn stack(&self, key: u64, ts: i64) -> Option<&[u64]> {
        let found = self.by_key.get(&key)?;
        let after = found.partition_point(|definition| definition.ts < ts);
        let next = found.get(after).and_then(|definition| {
            if definition.ts == ts { Some(definition.chain) } else { definition.next_listed }
        });
        let last = || found.get(after.checked_sub(1)?)?.last_created;
        let (start, end) = *self.chains.get(next.or_else(last)? as usize)?;
        self.addresses.get(start as usize..end as usize)
    }

    /// The name of what a hardware sample counts.
    pub fn source(&self, number: u16) -> Option<&str> {
        self.sources.get(&u32::from(number)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // key 1: deleted as A at 10, deleted as B at 20, listed as C at 30; key 2: created as A at 5
    #[test]
    fn a_key_stands_for_what_it_is_next_deleted_as() {
        let mut code = Code {
            chains: vec![(0, 1), (1, 3), (3, 4)],
            addresses: vec![1, 2, 3, 4],
            ..Code::default()
        };
        let definition = Definition::new;
        code.by_key.insert(
            1,
            vec![definition(30, false, 2), definition(10, false, 0), definition(20, false, 1)],
        );
        code.by_key.insert(2, vec![definition(5, true, 0)]);
        code.finish(|raw| raw);
        let cases: [(u64, i64, Option<&[u64]>); 7] = [
            (1, 9, Some(&[1])),
            (1, 10, Some(&[1])),
            (1, 11, Some(&[2, 3])),
            (1, 25, Some(&[4])),
            (1, 31, None),
            (2, 6, Some(&[1])),
            (3, 6, None),
        ];
        for (key, ts, expected) in cases {
            assert_eq!(code.stack(key, ts), expected, "{key} at {ts}");
        }
    }

    // One after the other would be 10^11 steps.
    #[test]
    fn a_key_that_is_created_very_often_is_looked_up_without_walking_along() {
        let count = 1 << 20;
        let mut code = Code { chains: vec![(0, 1)], addresses: vec![7], ..Code::default() };
        let created = (0..count).map(|ts| Definition::new(2 * ts, true, 0));
        let listed = Definition::new(2 * count, false, 0);
        code.by_key.insert(1, created.chain([listed]).collect());
        code.by_key.insert(2, (0..count).map(|ts| Definition::new(ts, false, 0)).collect());
        code.finish(|raw| raw);
        for ts in (0..count).step_by(4) {
            assert_eq!(code.stack(1, ts + 1), Some(&[7][..]));
            assert_eq!(code.stack(2, count + ts), None);
        }
    }
}

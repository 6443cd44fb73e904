//! Stacks of switches, wakeups and samples: interned while records are read, named at the end.

mod generated;
mod modules;
mod resolve;
mod rows;
mod spaces;
mod tree;
mod unwinding;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use schedlens_perf_data::mapping::KernelCode;
use schedlens_symbols::unwind::{Architecture, Registers};

pub(crate) use self::generated::Generated;
use self::modules::Kind;
pub(crate) use self::modules::Method;
pub use self::resolve::{Fetch, Sources};
pub(crate) use self::spaces::Spaces;
use self::tree::{Frame, Tree};
use self::unwinding::Unwinding;

/// Callchains that are remembered, so that repeated ones cost one look-up: 64 MiB.
const REMEMBERED: usize = 1 << 20;

/// Everything about the stacks of a recording.
#[derive(Debug)]
pub struct Stacks {
    base: i64,
    /// Which code is where, by process.
    pub(crate) spaces: Spaces,
    tree: Tree,
    known: HashMap<(u64, u64, u64), Option<u32>>,
    /// Kernel parts on top of user parts, by both.
    joined: HashMap<(u32, u32), Option<u32>>,
    hashers: [RandomState; 2],
    frames: Vec<Frame>,
    addresses: Vec<u64>,
    /// Code that the kernel loaded while it was recorded.
    pub(crate) kernel_code: Vec<KernelCode>,
    unwinding: Option<Unwinding>,
    /// Stacks whose user part ends before its outermost function.
    pub(crate) cut: i64,
    /// Stacks that were left out, because there are too many different ones.
    pub(crate) too_many: i64,
}

/// The user part of a thread from which its callers are unwound.
pub(crate) struct UserPart<'a> {
    pub(crate) registers: Registers,
    pub(crate) stack: &'a [u8],
}

/// Whose code an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Kernel,
    User,
}

impl Stacks {
    /// Starts empty; `trace_id` is the upper half of the numbers.
    pub(crate) fn new(trace_id: i64, architecture: Option<Architecture>) -> Self {
        Self {
            base: trace_id.wrapping_shl(32),
            spaces: Spaces::default(),
            tree: Tree::default(),
            known: HashMap::new(),
            joined: HashMap::new(),
            hashers: [RandomState::new(), RandomState::new()],
            frames: Vec::new(),
            addresses: Vec::new(),
            kernel_code: Vec::new(),
            unwinding: architecture.map(Unwinding::new),
            cut: 0,
            too_many: 0,
        }
    }

    /// The number of the stack with these addresses, innermost first. `recorded` is the chain as
    /// recorded: the same values in the same address space are the same stack.
    pub(crate) fn of_chain(
        &mut self,
        pid: i32,
        recorded: impl Hash,
        chain: impl Iterator<Item = (Part, u64)>,
        user: Option<UserPart<'_>>,
    ) -> Option<i64> {
        let Some(user) = user else {
            // With 128 bits of two keyed hashes, not even a crafted file has two chains alike.
            let [one, two] = &self.hashers;
            let recorded = (self.spaces.kernel_version, recorded);
            let version = self.spaces.version(pid);
            let key = (version, one.hash_one(&recorded), two.hash_one(&recorded));
            if let Some(known) = self.known.get(&key) {
                return known.map(|node| self.number(node));
            }
            self.collect(pid, chain);
            let node = self.intern();
            if self.known.len() >= REMEMBERED {
                self.known.clear();
            }
            self.known.insert(key, node);
            return node.map(|node| self.number(node));
        };
        // The user part of the chain is at most the instruction pointer.
        self.collect(pid, chain.filter(|(part, _)| *part == Part::Kernel));
        self.unwind(pid, &user);
        self.intern().map(|node| self.number(node))
    }

    /// The stack of two parts that were recorded one after the other. A part that is already there
    /// is not added again.
    pub(crate) fn join(&mut self, before: i64, part: i64) -> Option<i64> {
        let (before, part) = (before as u32, part as u32);
        let [(begins, ends), (inner, _)] = [before, part].map(|node| self.is_kernel(node));
        let (kernel, user) = match (begins, ends, inner) {
            (true, _, false) => (before, part),
            (false, false, true) => (part, before),
            _ => return Some(self.number(before)),
        };
        let node = match self.joined.get(&(kernel, user)) {
            Some(known) => *known,
            None => {
                self.frames.clear();
                self.frames.extend(self.tree.chain(kernel));
                let node = self.intern_below(Some(user));
                if self.joined.len() >= REMEMBERED {
                    self.joined.clear();
                }
                self.joined.insert((kernel, user), node);
                node
            }
        };
        node.map(|node| self.number(node))
    }

    /// Whether the outermost and the innermost function of a stack are the kernel's.
    fn is_kernel(&self, node: u32) -> (bool, bool) {
        let kinds = &self.spaces.modules.kinds;
        let is = |frame: Frame| kinds.get(frame.module as usize).is_some_and(Kind::is_kernel);
        let mut chain = self.tree.chain(node);
        let innermost = chain.next().is_some_and(is);
        (chain.last().map_or(innermost, is), innermost)
    }

    fn number(&self, node: u32) -> i64 {
        self.base | i64::from(node)
    }

    fn collect(&mut self, pid: i32, chain: impl Iterator<Item = (Part, u64)>) {
        self.frames.clear();
        let mut last = None;
        for (part, address) in chain {
            // Only the innermost address of each part is where the code was; the others are where
            // it will return to.
            let returns = last == Some(part);
            last = Some(part);
            self.frames.push(self.spaces.frame(pid, part, address, returns));
        }
    }

    fn unwind(&mut self, pid: i32, user: &UserPart<'_>) {
        let Some(unwinding) = &mut self.unwinding else { return };
        self.addresses.clear();
        let whole = unwinding.unwind(&mut self.spaces, pid, user, &mut self.addresses);
        self.cut += i64::from(!whole);
        for (place, address) in self.addresses.iter().enumerate() {
            self.frames.push(self.spaces.frame(pid, Part::User, *address, place > 0));
        }
    }

    fn intern(&mut self) -> Option<u32> {
        self.intern_below(None)
    }

    fn intern_below(&mut self, mut node: Option<u32>) -> Option<u32> {
        for frame in self.frames.iter().rev() {
            let Some(next) = self.tree.child(node, *frame) else {
                self.too_many += 1;
                return None;
            };
            node = Some(next);
        }
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlens_perf_data::mapping::Mapping;

    fn mapping(pid: i32, name: &str) -> Mapping {
        Mapping {
            pid,
            start: 0x1000,
            length: 0x1000,
            offset: 0,
            name: name.to_owned(),
            build_id: None,
            is_kernel: false,
        }
    }

    fn stack(stacks: &mut Stacks, pid: i32, addresses: &[u64]) -> Option<i64> {
        let bytes: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
        let chain = addresses.iter().map(|address| (Part::User, *address));
        stacks.of_chain(pid, &bytes, chain, None)
    }

    #[test]
    fn equal_chains_share_a_stack_until_other_code_is_mapped() {
        let mut stacks = Stacks::new(1, None);
        stacks.spaces.map(mapping(7, "/bin/a"));
        let first = stack(&mut stacks, 7, &[0x1010, 0x1020]);
        assert_eq!(stack(&mut stacks, 7, &[0x1010, 0x1020]), first);
        // Its caller is a node of its own, which a shorter stack shares.
        let caller = stack(&mut stacks, 7, &[0x1020]);
        assert_ne!(caller, first);
        stacks.spaces.map(mapping(7, "/bin/b"));
        assert_ne!(stack(&mut stacks, 7, &[0x1010, 0x1020]), first);
        assert!(first.is_some_and(|id| id >> 32 == 1));
    }

    #[test]
    fn processes_that_run_the_same_file_share_stacks() {
        let mut stacks = Stacks::new(1, None);
        stacks.spaces.map(mapping(7, "/bin/a"));
        stacks.spaces.map(Mapping { start: 0x5000, ..mapping(8, "/bin/a") });
        let one = stack(&mut stacks, 7, &[0x1010]);
        assert_eq!(stack(&mut stacks, 8, &[0x5010]), one);
        stacks.spaces.fork(7, 9);
        assert_eq!(stack(&mut stacks, 9, &[0x1010]), one);
        stacks.spaces.exec(9);
        assert_ne!(stack(&mut stacks, 9, &[0x1010]), one);
    }

    #[test]
    fn kernel_and_user_parts_are_joined_in_any_order() {
        let mut stacks = Stacks::new(1, None);
        let part = |stacks: &mut Stacks, part, addresses: &[u64]| {
            let chain = addresses.iter().map(|address| (part, *address));
            stacks.of_chain(7, addresses, chain, None).expect("stack")
        };
        let user = part(&mut stacks, Part::User, &[0x1010, 0x1020]);
        let kernel = part(&mut stacks, Part::Kernel, &[u64::MAX - 7, u64::MAX - 3]);
        let both = stacks.join(user, kernel).expect("joined");
        assert_eq!(stacks.join(kernel, user), Some(both));
        let frames: Vec<u64> = stacks.tree.chain(both as u32).map(|frame| frame.address).collect();
        assert_eq!(frames, [u64::MAX - 7, u64::MAX - 3, 0x1010, 0x1020]);
        // A second part of the same kind adds nothing.
        let other = part(&mut stacks, Part::User, &[0x1030]);
        assert_eq!(stacks.join(user, other), Some(user));
        for again in [user, kernel, other] {
            assert_eq!(stacks.join(both, again), Some(both));
        }
    }

    #[test]
    fn an_empty_chain_is_no_stack() {
        assert_eq!(stack(&mut Stacks::new(1, None), 7, &[]), None);
    }
}

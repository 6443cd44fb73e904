//! A prefix tree of stacks: stacks with the same callers share them.

use std::collections::HashMap;

/// More different nodes than this are not kept: 1.5 GB.
const MOST_NODES: usize = 1 << 24;

/// An address in a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// Number of the module.
    pub(crate) module: u32,
    /// Address in the module.
    pub(crate) address: u64,
    /// The function at the address before it will continue there.
    pub(crate) returns: bool,
}

/// All stacks, from the outermost function inwards.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Caller and frame of each node; callers come first.
    pub(crate) nodes: Vec<(Option<u32>, u32)>,
    pub(crate) frames: Vec<Frame>,
    frame_numbers: HashMap<Frame, u32>,
    children: HashMap<(u32, u32), u32>,
}

impl Tree {
    /// The frames of a stack, innermost first.
    pub(crate) fn chain(&self, node: u32) -> impl Iterator<Item = Frame> + '_ {
        let up = move |node: &u32| self.nodes.get(*node as usize)?.0;
        let nodes = std::iter::successors(Some(node), up);
        nodes.filter_map(|node| {
            let (_, frame) = self.nodes.get(node as usize)?;
            self.frames.get(*frame as usize).copied()
        })
    }

    /// The node of a frame called by a node; `None` if there are too many.
    pub(crate) fn child(&mut self, caller: Option<u32>, frame: Frame) -> Option<u32> {
        let frame = match self.frame_numbers.get(&frame) {
            Some(number) => *number,
            None => {
                let number = self.frames.len() as u32;
                self.frames.push(frame);
                self.frame_numbers.insert(frame, number);
                number
            }
        };
        let key = (caller.unwrap_or(u32::MAX), frame);
        if let Some(node) = self.children.get(&key) {
            return Some(*node);
        }
        if self.nodes.len() >= MOST_NODES {
            return None;
        }
        let node = self.nodes.len() as u32;
        self.nodes.push((caller, frame));
        self.children.insert(key, node);
        Some(node)
    }
}

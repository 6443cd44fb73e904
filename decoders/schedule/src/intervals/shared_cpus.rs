//! How runnable threads and groups of threads divide CPUs by weight.

use std::cmp::Ordering;
use std::collections::HashMap;

/// Times are multiples of 1/1024 ns: sums are exact, so that the query `fair_share`, which adds them
/// up in another order, finds the same.
const PARTS: f64 = 1024.0;

/// A group of threads below the root.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The group that contains it: 0 is the root, and the others count from 1.
    pub parent: usize,
    /// Its weight among the groups and threads around it; above 0.
    pub weight: f64,
}

/// Threads of one weight in one group.
#[derive(Debug)]
struct Class {
    group: usize,
    thread_weight: i32,
    runnable: i64,
    /// The ready time so far of a thread that is always runnable.
    fair_ns: f64,
}

#[derive(Debug)]
struct Node {
    parent: usize,
    weight: f64,
    /// Runnable threads in it and below it.
    runnable: i64,
    /// Classes and groups in it that have runnable threads.
    active: Vec<Member>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Class(usize),
    Group(usize),
}

/// What shares the CPUs of a group.
#[derive(Clone, Copy, Debug)]
struct Entity {
    member: Member,
    weight: f64,
    /// CPUs that it can use.
    most: f64,
}

/// The runnable threads in their groups.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    classes: Vec<Class>,
    /// The class of each group and weight.
    numbers: HashMap<(usize, i32), usize>,
    /// Working memory: what shares the CPUs of the groups that are being divided.
    entities: Vec<Entity>,
}

impl Tree {
    /// Without runnable threads. A parent that is not above its group counts as the root.
    pub fn new(groups: &[Group]) -> Self {
        let node = |parent, weight| Node { parent, weight, runnable: 0, active: Vec::new() };
        let below = groups.iter().enumerate().map(|(before, group)| {
            let parent = if group.parent <= before { group.parent } else { 0 };
            node(parent, if group.weight > 0.0 { group.weight } else { 1.0 })
        });
        let nodes = std::iter::once(node(0, 1.0)).chain(below).collect();
        let (classes, entities) = (Vec::new(), Vec::new());
        Self { nodes, classes, numbers: HashMap::new(), entities }
    }

    /// The class of threads of a weight in a group; an unknown group counts as the root.
    pub fn class(&mut self, group: i32, thread_weight: i32) -> usize {
        let known = usize::try_from(group).ok().filter(|group| *group < self.nodes.len());
        let group = known.unwrap_or(0);
        let classes = &mut self.classes;
        *self.numbers.entry((group, thread_weight)).or_insert_with(|| {
            classes.push(Class { group, thread_weight, runnable: 0, fair_ns: 0.0 });
            classes.len() - 1
        })
    }

    /// Runnable threads in all groups.
    pub fn runnable(&self) -> i64 {
        self.nodes[0].runnable
    }

    /// The ready time so far of a thread of a class that is always runnable.
    pub fn fair_ns(&self, class: usize) -> f64 {
        self.classes[class].fair_ns
    }

    /// Adds so many runnable threads to a class.
    pub fn count(&mut self, class: usize, by: i64) {
        let of_class = &mut self.classes[class];
        let before = of_class.runnable;
        of_class.runnable += by;
        let (mut node, after) = (of_class.group, of_class.runnable);
        self.nodes[node].note(Member::Class(class), before, after);
        loop {
            let before = self.nodes[node].runnable;
            let after = before + by;
            self.nodes[node].runnable = after;
            if node == 0 {
                return;
            }
            let parent = self.nodes[node].parent;
            self.nodes[parent].note(Member::Group(node), before, after);
            node = parent;
        }
    }

    /// Adds a time in which the runnable threads divide these CPUs.
    pub fn advance(&mut self, ns: f64, cpus: f64) {
        self.divide(0, cpus, ns);
    }

    /// Divides CPUs among what is in a group: each gets its weight's part of them, but not more than
    /// it can use; what remains is divided among the others.
    fn divide(&mut self, node: usize, cpus: f64, ns: f64) {
        if self.nodes[node].runnable as f64 <= cpus {
            // All run all the time.
            return;
        }
        let from = self.entities.len();
        for at in 0..self.nodes[node].active.len() {
            let member = self.nodes[node].active[at];
            self.entities.push(self.entity(member));
        }
        let own = &mut self.entities[from..];
        let cpus_by_weight = match own {
            [only] => cpus / only.weight,
            _ => fill(own, cpus),
        };
        for at in from..self.entities.len() {
            let entity = self.entities[at];
            match entity.member {
                Member::Class(class) => {
                    let class = &mut self.classes[class];
                    let part = cpus_by_weight * f64::from(class.thread_weight);
                    class.fair_ns += (ns * (1.0 - part).max(0.0) * PARTS).round() / PARTS;
                }
                Member::Group(group) => {
                    self.divide(group, entity.most.min(cpus_by_weight * entity.weight), ns);
                }
            }
        }
        self.entities.truncate(from);
    }

    fn entity(&self, member: Member) -> Entity {
        match member {
            Member::Class(class) => {
                let class = &self.classes[class];
                let most = class.runnable as f64;
                Entity { member, weight: most * f64::from(class.thread_weight), most }
            }
            Member::Group(group) => {
                let node = &self.nodes[group];
                Entity { member, weight: node.weight, most: node.runnable as f64 }
            }
        }
    }
}

impl Node {
    fn note(&mut self, member: Member, before: i64, after: i64) {
        if before == 0 && after != 0 {
            self.active.push(member);
        } else if before != 0 && after == 0 {
            self.active.retain(|other| *other != member);
        }
    }
}

/// CPUs for each unit of weight. In the order in which they have all that they can use while the
/// CPUs increase, the value after all that do is larger than after fewer or more of them.
fn fill(entities: &mut [Entity], cpus: f64) -> f64 {
    let order = |a: &Entity, b: &Entity| -> Ordering {
        (a.most * b.weight).total_cmp(&(b.most * a.weight))
    };
    entities.sort_unstable_by(order);
    let (mut left, mut weight) = (cpus, entities.iter().map(|entity| entity.weight).sum::<f64>());
    let mut found = 0.0_f64;
    for entity in entities {
        found = found.max(left / weight);
        left -= entity.most;
        weight -= entity.weight;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of one CPU that a thread of each class gets.
    fn parts(groups: &[(usize, f64)], threads: &[(i32, i32, i64)], cpus: f64) -> Vec<f64> {
        let groups: Vec<Group> = groups
            .iter()
            .map(|(parent, weight)| Group { parent: *parent, weight: *weight })
            .collect();
        let mut tree = Tree::new(&groups);
        let classes: Vec<usize> = threads
            .iter()
            .map(|(group, weight, count)| {
                let class = tree.class(*group, *weight);
                tree.count(class, *count);
                class
            })
            .collect();
        tree.advance(1e9, cpus);
        classes.iter().map(|class| 1.0 - tree.fair_ns(*class) / 1e9).collect()
    }

    fn assert_near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (one, other) in found.iter().zip(expected) {
            assert!((one - other).abs() < 1e-9, "{found:?}, not {expected:?}");
        }
    }

    #[test]
    fn what_a_thread_cannot_use_is_divided_among_the_others() {
        // 9 of 11 parts of two CPUs are more than one thread can use.
        assert_near(&parts(&[], &[(0, 9, 1), (0, 1, 2)], 2.0), &[1.0, 0.5]);
        assert_near(&parts(&[], &[(0, 3, 1), (0, 1, 3)], 2.0), &[1.0, 1.0 / 3.0]);
    }

    #[test]
    fn groups_share_before_their_threads() {
        // Half of the CPU for each group.
        let sessions = [(0, 1024.0), (0, 1024.0)];
        assert_near(&parts(&sessions, &[(1, 1024, 1), (2, 1024, 5)], 1.0), &[0.5, 0.1]);
        // A group of one thread cannot use more than one of 8 CPUs.
        assert_near(&parts(&sessions, &[(1, 1024, 1), (2, 1024, 14)], 8.0), &[1.0, 0.5]);
        // A thread of the root competes with a whole group.
        assert_near(&parts(&[(0, 1024.0)], &[(0, 1024, 1), (1, 1024, 4)], 1.0), &[0.5, 0.125]);
    }

    #[test]
    fn groups_in_groups_divide_what_the_outer_one_gets() {
        // /a of weight 1 contains /a/x (3) and /a/y (1); /b has weight 1: 3/8, 1/8 and 4/8.
        let groups = [(0, 1.0), (1, 3.0), (1, 1.0), (0, 1.0)];
        let threads = [(2, 7, 1), (3, 7, 1), (4, 7, 1)];
        assert_near(&parts(&groups, &threads, 1.0), &[0.375, 0.125, 0.5]);
    }

    #[test]
    fn a_group_without_runnable_threads_takes_nothing() {
        let mut tree = Tree::new(&[Group { parent: 0, weight: 1.0 }; 2]);
        let (one, other) = (tree.class(1, 5), tree.class(2, 5));
        tree.count(one, 2);
        tree.count(other, 2);
        tree.count(other, -2);
        tree.advance(10.0, 1.0);
        assert_eq!((tree.fair_ns(one), tree.fair_ns(other)), (5.0, 0.0));
    }

    #[test]
    fn a_group_in_itself_or_unknown_counts_as_of_the_root() {
        let mut tree = Tree::new(&[Group { parent: 9, weight: 0.0 }]);
        let (one, other) = (tree.class(1, 5), tree.class(7, 5));
        tree.count(one, 1);
        tree.count(other, 1);
        assert_eq!(tree.runnable(), 2);
        tree.advance(6.0, 0.0);
        assert_eq!((tree.fair_ns(one), tree.fair_ns(other)), (6.0, 6.0));
    }
}

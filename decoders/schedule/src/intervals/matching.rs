//! The largest matching of threads to idle CPUs or cores.

use super::mask::Mask;

/// Threads that may run in the same places.
#[derive(Debug)]
pub struct Item {
    /// Its group.
    pub group: usize,
    /// Maximum number of its threads that may be placed.
    pub limit: u32,
    /// Where its threads may run.
    pub places: Mask,
}

/// Number of threads that can be placed at once: one thread per place, from each item at most its
/// limit, from each group at most the group's limit.
///
/// This is the maximum flow group -> item -> place. Along an augmenting path, a placed thread moves
/// to another place or is replaced by one from another item of its group.
pub fn largest(group_limits: &[u32], items: &[Item], places: &Mask) -> u32 {
    let free = places.len();
    if free == 0 || items.is_empty() {
        return 0;
    }
    let mut wanted = vec![0_u32; group_limits.len()];
    for item in items {
        wanted[item.group] = wanted[item.group].saturating_add(item.limit);
    }
    let total: u64 = wanted.iter().zip(group_limits).map(|(a, b)| u64::from(*a.min(b))).sum();
    if items.iter().all(|item| &item.places == places) {
        return total.min(free as u64) as u32;
    }
    let mut search = Search {
        items,
        owner: vec![None; places.iter().last().map_or(0, |last| last + 1)],
        used: vec![0; items.len()],
        visited_places: places.clone(),
        visited_items: vec![false; items.len()],
        visited_groups: vec![false; group_limits.len()],
    };
    let mut placed = 0;
    for (group, limit) in group_limits.iter().enumerate() {
        let mut left = (*limit).min(wanted[group]);
        while left > 0 {
            search.forget_visits();
            if !search.add(group) {
                break;
            }
            placed += 1;
            left -= 1;
        }
    }
    placed
}

/// One search for an augmenting path. It visits each group, item and place once: a path that used
/// an item twice would place more of its threads than the limit.
struct Search<'a> {
    items: &'a [Item],
    owner: Vec<Option<usize>>,
    used: Vec<u32>,
    visited_places: Mask,
    visited_items: Vec<bool>,
    visited_groups: Vec<bool>,
}

impl Search<'_> {
    fn forget_visits(&mut self) {
        self.visited_places.clear();
        self.visited_items.fill(false);
        self.visited_groups.fill(false);
    }

    /// Places one more thread of the group.
    fn add(&mut self, group: usize) -> bool {
        if std::mem::replace(&mut self.visited_groups[group], true) {
            return false;
        }
        for at in 0..self.items.len() {
            if self.items[at].group == group
                && self.used[at] < self.items[at].limit
                && self.visit(at)
            {
                self.used[at] += 1;
                return true;
            }
        }
        false
    }

    /// Makes room for one thread of the item: at another place, or by replacing this thread with
    /// one from another item of its group.
    fn visit(&mut self, at: usize) -> bool {
        if std::mem::replace(&mut self.visited_items[at], true) {
            return false;
        }
        let items = self.items;
        for place in items[at].places.iter() {
            if place >= self.owner.len() || self.visited_places.has(place) {
                continue;
            }
            self.visited_places.set(place, true);
            let gives_way = match self.owner[place] {
                None => true,
                Some(other) => self.visit(other),
            };
            if gives_way {
                self.owner[place] = Some(at);
                return true;
            }
        }
        if self.used[at] > 0 && self.add(items[at].group) {
            self.used[at] -= 1;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(places: &[usize]) -> Mask {
        let mut mask = Mask::new(16);
        for place in places {
            mask.set(*place, true);
        }
        mask
    }

    fn item(group: usize, limit: u32, places: &[usize]) -> Item {
        Item { group, limit, places: mask(places) }
    }

    #[test]
    fn thread_moves_for_one_with_less_choice() {
        // Thread 0 may run on 0 or 1, thread 1 only on 0.
        let items = [item(0, 1, &[0, 1]), item(1, 1, &[0])];
        assert_eq!(largest(&[1, 1], &items, &mask(&[0, 1])), 2);
    }

    #[test]
    fn group_is_limited() {
        let items = [item(0, 1, &[0]), item(0, 1, &[1])];
        assert_eq!(largest(&[1], &items, &mask(&[0, 1])), 1);
    }

    #[test]
    fn other_thread_of_a_group_is_used_if_that_frees_a_place() {
        // Group 0 may move one of two threads: one to place 0, one to place 1. Group 1 can only use
        // 0.
        let items = [item(0, 1, &[0]), item(0, 1, &[1]), item(1, 1, &[0])];
        assert_eq!(largest(&[1, 1], &items, &mask(&[0, 1])), 2);
    }

    /// Tries every assignment, place by place.
    fn exhaustive(
        limits: &mut [u32],
        items: &mut [(usize, u32, Vec<usize>)],
        places: &[usize],
    ) -> u32 {
        let Some((place, rest)) = places.split_first() else { return 0 };
        let mut best = exhaustive(limits, items, rest);
        for at in 0..items.len() {
            let group = items[at].0;
            if items[at].1 > 0 && limits[group] > 0 && items[at].2.contains(place) {
                items[at].1 -= 1;
                limits[group] -= 1;
                best = best.max(1 + exhaustive(limits, items, rest));
                items[at].1 += 1;
                limits[group] += 1;
            }
        }
        best
    }

    #[test]
    fn equals_an_exhaustive_search() {
        let mut seed = 7_u64;
        let mut draw = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut placed = [0_u32; 6];
        for _ in 0..3000 {
            let places: Vec<usize> = (0..5).filter(|_| draw(6) > 0).collect();
            let groups = 1 + draw(3) as usize;
            let mut limits: Vec<u32> = (0..groups).map(|_| draw(4) as u32).collect();
            let mut plain: Vec<(usize, u32, Vec<usize>)> = Vec::new();
            for _ in 0..draw(8) {
                let chosen = places.iter().copied().filter(|_| draw(2) == 0).collect();
                plain.push((draw(groups as u64) as usize, 1 + draw(2) as u32, chosen));
            }
            let items: Vec<Item> = plain.iter().map(|(g, n, p)| item(*g, *n, p)).collect();
            let found = largest(&limits, &items, &mask(&places));
            assert_eq!(found, exhaustive(&mut limits, &mut plain, &places));
            placed[found as usize] += 1;
        }
        assert!(
            placed.iter().all(|count| *count >= 10),
            "the drawn cases cover too little: {placed:?}"
        );
    }
}

//! Fair classes: a queue of entities that share a CPU by earliest eligible virtual deadline.
//!
//! EEVDF (I. Stoica and H. Abdel-Wahab, 1995), as the kernel's documentation describes it
//! (Documentation/scheduler/sched-eevdf.rst): an entity is eligible while it has received no more
//! than its share, and of the eligible ones that with the earliest virtual deadline runs.

/// Weight of nice 0.
pub const NICE_0: f64 = 1024.0;
/// Weight of the policy `SCHED_IDLE`.
pub const BACKGROUND: f64 = 3.0;
/// Differences of virtual time below this are rounding.
const ROUNDING_NS: f64 = 1e-3;

/// Weight of a nice value: each step is a factor of 1.25.
pub fn weight_of(nice: i32) -> f64 {
    (NICE_0 / 1.25_f64.powi(nice)).max(2.0)
}

/// A thread, or a group on one CPU.
#[derive(Debug, Clone)]
pub struct Entity {
    pub weight: f64,
    /// Received virtual time, ns of weight `NICE_0`.
    pub virtual_ns: f64,
    pub deadline: f64,
    /// Its deadline when it was picked: until then, nothing of its queue preempts it.
    pub protected_until: f64,
    /// By how much it had received less than its share when it left the queue.
    pub lag: f64,
    pub is_queued: bool,
    /// It sleeps, but remains in the queue until the others have caught up.
    pub is_delayed: bool,
}

impl Entity {
    pub fn new(weight: f64) -> Self {
        Self {
            weight,
            virtual_ns: 0.0,
            deadline: 0.0,
            protected_until: 0.0,
            lag: 0.0,
            is_queued: false,
            is_delayed: false,
        }
    }

    /// Virtual length of a time.
    pub fn virtual_of(&self, ns: f64) -> f64 {
        ns * NICE_0 / self.weight
    }

    pub fn is_protected(&self) -> bool {
        self.virtual_ns < self.protected_until
    }

    /// Accounts for running. Returns whether its slice is used up.
    pub fn run(&mut self, ns: f64, slice_ns: f64) -> bool {
        self.virtual_ns += self.virtual_of(ns);
        if self.virtual_ns < self.deadline {
            return !self.is_protected();
        }
        self.deadline = self.virtual_ns + self.virtual_of(slice_ns);
        true
    }
}

/// The entities of a group on one CPU, with the one that runs.
#[derive(Debug, Clone, Default)]
pub struct FairQueue {
    pub members: Vec<u32>,
    pub current: Option<u32>,
    /// Virtual time of the queue when it was last used; where its next first member starts.
    pub virtual_ns: f64,
}

impl FairQueue {
    /// Sum of the weights.
    pub fn weight(&self, entities: &[Entity]) -> f64 {
        self.members.iter().map(|&member| entities[member as usize].weight).sum()
    }

    /// The virtual time at which every member would have received its share.
    pub fn average(&self, entities: &[Entity]) -> f64 {
        let mut weight = 0.0;
        let mut sum = 0.0;
        for &member in &self.members {
            let known = &entities[member as usize];
            weight += known.weight;
            sum += known.weight * (known.virtual_ns - self.virtual_ns);
        }
        if weight > 0.0 { self.virtual_ns + sum / weight } else { self.virtual_ns }
    }

    /// Adds an entity, with the lag that it left with.
    pub fn enter(&mut self, index: u32, entities: &mut [Entity], slice_ns: f64, is_new: bool) {
        let average = self.average(entities);
        let others = self.weight(entities);
        let known = &mut entities[index as usize];
        // Its own weight shifts the average: the lag is inflated so that it has it afterwards.
        let lag = if others > 0.0 { known.lag * (others + known.weight) / others } else { 0.0 };
        known.virtual_ns = average - lag;
        let slice = known.virtual_of(slice_ns);
        known.deadline = known.virtual_ns + if is_new { slice / 2.0 } else { slice };
        known.protected_until = known.virtual_ns;
        known.is_queued = true;
        known.is_delayed = false;
        self.members.push(index);
    }

    /// How much less than its share a member has received, within the limits that the kernel sets.
    pub fn lag(&self, index: u32, entities: &[Entity], limit_ns: f64) -> f64 {
        let known = &entities[index as usize];
        let limit = known.virtual_of(limit_ns);
        (self.average(entities) - known.virtual_ns).clamp(-limit, limit)
    }

    /// Removes an entity and keeps its lag.
    pub fn remove(&mut self, index: u32, entities: &mut [Entity], limit_ns: f64) {
        let lag = self.lag(index, entities, limit_ns);
        self.virtual_ns = self.average(entities);
        let known = &mut entities[index as usize];
        known.lag = if known.is_delayed { lag.min(0.0) } else { lag };
        known.is_queued = false;
        known.is_delayed = false;
        self.members.retain(|&member| member != index);
        if self.current == Some(index) {
            self.current = None;
        }
    }

    /// Changes a weight; lag and deadline keep their real length.
    pub fn reweigh(&mut self, index: u32, weight: f64, entities: &mut [Entity]) {
        let average = self.average(entities);
        let known = &mut entities[index as usize];
        let scale = known.weight / weight;
        if known.is_queued {
            let left = (known.deadline - known.virtual_ns) * scale;
            let protection = (known.protected_until - known.virtual_ns) * scale;
            known.virtual_ns = average - (average - known.virtual_ns) * scale;
            known.deadline = known.virtual_ns + left;
            known.protected_until = known.virtual_ns + protection;
        } else {
            known.lag *= scale;
        }
        known.weight = weight;
    }

    /// The member that runs next.
    pub fn best(&self, entities: &[Entity]) -> Option<u32> {
        if let Some(current) = self.current
            && entities[current as usize].is_protected()
            && !entities[current as usize].is_delayed
        {
            return Some(current);
        }
        let average = self.average(entities) + ROUNDING_NS;
        let eligible = |&&member: &&u32| entities[member as usize].virtual_ns <= average;
        let deadline = |member: u32| entities[member as usize].deadline;
        // The running one wins a tie.
        self.members
            .iter()
            .filter(eligible)
            .copied()
            .min_by(|&one, &other| {
                deadline(one)
                    .total_cmp(&deadline(other))
                    .then((Some(one) != self.current).cmp(&(Some(other) != self.current)))
            })
            .or_else(|| self.members.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::{BACKGROUND, Entity, FairQueue, weight_of};

    const SLICE: f64 = 3e6;

    /// Running time of each entity after `turns` of `tick` ns each.
    fn shared(weights: &[f64], turns: usize, tick: f64) -> Vec<f64> {
        let mut entities: Vec<Entity> = weights.iter().map(|&weight| Entity::new(weight)).collect();
        let mut queue = FairQueue::default();
        for index in 0..weights.len() as u32 {
            queue.enter(index, &mut entities, SLICE, true);
        }
        let mut ran = vec![0.0; weights.len()];
        for _ in 0..turns {
            let index = queue.best(&entities).expect("the queue has members");
            if queue.current != Some(index) {
                queue.current = Some(index);
                let known = &mut entities[index as usize];
                known.protected_until = known.deadline;
            }
            entities[index as usize].run(tick, SLICE);
            ran[index as usize] += tick;
        }
        ran
    }

    #[test]
    fn threads_share_by_weight() {
        let ran = shared(&[weight_of(0), weight_of(5)], 10_000, 1e6);
        // 1.25^5.
        assert!((ran[0] / ran[1] - 3.05).abs() < 0.02, "{ran:?}");
    }

    #[test]
    fn the_background_gets_what_is_left() {
        // Nice 19 has five times its weight.
        let ran = shared(&[weight_of(0), BACKGROUND], 100_000, 1e6);
        assert!((ran[0] / ran[1] / (1024.0 / 3.0) - 1.0).abs() < 0.05, "{ran:?}");
    }

    #[test]
    fn equal_threads_take_turns_of_a_slice() {
        assert_eq!(shared(&[1024.0; 2], 8, 1e6), [5e6, 3e6]);
        assert_eq!(shared(&[1024.0; 3], 9, 3e6), [9e6, 9e6, 9e6]);
    }

    #[test]
    fn a_sleeper_keeps_what_it_received_too_much() {
        let mut entities = vec![Entity::new(1024.0), Entity::new(1024.0)];
        let mut queue = FairQueue::default();
        queue.enter(0, &mut entities, SLICE, false);
        queue.enter(1, &mut entities, SLICE, false);
        entities[0].run(2e6, SLICE);
        assert_eq!(queue.lag(0, &entities, 1e9), -1e6);
        queue.remove(0, &mut entities, 1e9);
        assert_eq!(entities[0].lag, -1e6);
        queue.enter(0, &mut entities, SLICE, false);
        assert_eq!(queue.lag(0, &entities, 1e9), -1e6);
        // It is not eligible: the other runs first.
        assert_eq!(queue.best(&entities), Some(1));
    }

    #[test]
    fn a_limit_bounds_the_lag() {
        let mut entities = vec![Entity::new(1024.0), Entity::new(1024.0)];
        let mut queue = FairQueue::default();
        queue.enter(0, &mut entities, SLICE, false);
        queue.enter(1, &mut entities, SLICE, false);
        entities[0].run(1e9, SLICE);
        assert_eq!(queue.lag(0, &entities, 6e6), -6e6);
        assert_eq!(queue.lag(1, &entities, 6e6), 6e6);
    }
}

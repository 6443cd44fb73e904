//! Who runs on each CPU, and which wakeups may still get another waker.

use schedlens_schedule::tables::Moment;

/// With more CPUs than this, the ideal-processor byte is not valid.
pub(in crate::etl) const IDEAL_LIMIT: usize = 256;

#[derive(Debug)]
pub(in crate::etl) struct Cpu {
    /// Records of this CPU so far.
    pub(in crate::etl) seq: i64,
    /// The planned thread of the last switch-in, or [`UNKNOWN`].
    pub(in crate::etl) running: u32,
    /// Wakeups since then that were assigned to it: chunk and row.
    pub(in crate::etl) given: Vec<(u64, usize)>,
}

/// Stands for a lifetime number that is not known.
pub(in crate::etl) const UNKNOWN: u32 = u32::MAX;

impl Default for Cpu {
    fn default() -> Self {
        Self { seq: 0, running: UNKNOWN, given: Vec::new() }
    }
}

/// What is known about each CPU.
#[derive(Debug, Default)]
pub(in crate::etl) struct Scheduling {
    pub(in crate::etl) cpus: Vec<Cpu>,
}

impl Scheduling {
    pub(in crate::etl) fn cpu(&mut self, cpu: i32) -> &mut Cpu {
        let at = cpu as usize;
        if self.cpus.len() <= at {
            self.cpus.resize_with(at + 1, Cpu::default);
        }
        &mut self.cpus[at]
    }

    /// The position of the next record among those of its CPU.
    #[inline(always)]
    pub(in crate::etl) fn position(&mut self, cpu: i32) -> i64 {
        let Some(cpu) = self.cpus.get_mut(cpu as usize) else { return self.first_position(cpu) };
        cpu.seq += 1;
        cpu.seq - 1
    }

    #[inline(never)]
    pub(in crate::etl) fn first_position(&mut self, cpu: i32) -> i64 {
        self.cpu(cpu).seq = 1;
        0
    }

    /// A CPU of which a record already has its position.
    #[inline(always)]
    pub(in crate::etl) fn placed(&mut self, at: Moment) -> &mut Cpu {
        &mut self.cpus[at.cpu as usize]
    }

    /// Chunks before this one can no longer be corrected.
    pub(in crate::etl) fn settle(&mut self, chunk: u64) {
        for cpu in &mut self.cpus {
            if cpu.given.first().is_some_and(|(number, _)| *number < chunk) {
                cpu.given.retain(|(number, _)| *number >= chunk);
            }
        }
    }

    /// The first chunk with a wakeup whose waker the next switch of its CPU may correct.
    pub(in crate::etl) fn oldest_given(&self) -> Option<u64> {
        self.cpus.iter().filter_map(|cpu| cpu.given.first()).map(|(number, _)| *number).min()
    }

    /// Records of a CPU were lost, so it is unknown who runs there.
    pub(in crate::etl) fn forget(&mut self, cpu: i32) {
        let cpu = self.cpu(cpu);
        cpu.running = UNKNOWN;
        cpu.given.clear();
    }
}

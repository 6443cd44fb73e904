//! The plan of a run: which kernels, how many workers, on which CPUs, for how long.

use crate::kernel::{Crew, Kernel, Options, Variant};

/// What to run.
pub struct Plan {
    pub kernel: &'static Kernel,
    pub variant: &'static Variant,
    /// Workers of that kernel.
    pub threads: usize,
    /// Further kernels with one worker each, without pairs.
    pub alongside: Vec<(&'static Kernel, &'static Variant)>,
    /// The CPU of worker i is `cpus[i % len]`; empty: no mask is set.
    pub cpus: Vec<usize>,
    pub seconds: f64,
    /// How long all workers run before the measured interval; 0: not at all.
    pub warm_up: f64,
    pub options: Options,
}

impl Plan {
    /// What a worker runs.
    pub fn of_worker(&self, worker: usize) -> (&'static Kernel, &'static Variant) {
        match worker.checked_sub(self.threads) {
            Some(index) => {
                self.alongside.get(index).copied().unwrap_or((self.kernel, self.variant))
            }
            None => (self.kernel, self.variant),
        }
    }

    /// The kernels' names, the first one first: `imul1+mem_seq`.
    pub fn name(&self) -> String {
        let alongside = self.alongside.iter().map(|(kernel, _)| kernel.name);
        std::iter::once(self.kernel.name).chain(alongside).collect::<Vec<_>>().join("+")
    }

    /// Why this machine cannot run it.
    pub fn refusal(&self) -> Option<String> {
        let alongside = self.alongside.iter().map(|(_, variant)| (variant.refusal)(1));
        std::iter::once((self.variant.refusal)(self.threads)).chain(alongside).flatten().next()
    }

    /// The workers of all kernels, and what links them.
    pub fn crew(&self) -> Crew {
        let mut crew = (self.variant.crew)(self.threads, self.options);
        for (_, variant) in &self.alongside {
            let Crew { builders, links } = (variant.crew)(1, self.options);
            crew.builders.extend(builders);
            crew.links.extend(links);
        }
        crew
    }
}

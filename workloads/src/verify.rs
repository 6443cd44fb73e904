//! `verify`: runs every kernel for a short time and checks its results.

use crate::conduct::Timed;
use crate::engine::{self, Failure};
use crate::json::{list, object};
use crate::kernel::{How, Kernel, Options, Variant};
use crate::os::Waiter;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::report;
use serde_json::Value;

/// Length of each short run.
const SECONDS: f64 = 0.1;
/// Difference from the usual cycles that causes a warning.
const TOLERANCE: f64 = 0.03;

/// The result of one variant.
pub struct Verdict {
    pub kernel: &'static str,
    pub variant: String,
    pub status: &'static str,
    pub detail: String,
    pub warnings: Vec<String>,
    pub cycles: Option<f64>,
}

impl Verdict {
    /// As JSON.
    pub fn json(&self) -> Value {
        object([
            ("kernel", Value::from(self.kernel)),
            ("variant", self.variant.as_str().into()),
            ("status", self.status.into()),
            ("detail", self.detail.as_str().into()),
            ("core_cycles_per_iteration", self.cycles.into()),
            ("warnings", list(self.warnings.iter().map(String::as_str))),
        ])
    }

    /// As a line.
    pub fn text(&self) -> String {
        let cycles = self.cycles.map_or(String::new(), |cycles| format!(" {cycles:.2} cycles"));
        let name = format!("{} {}", self.kernel, self.variant);
        let mut text = format!("{:<12}{name:<24}{}{cycles}", self.status, self.detail);
        for warning in &self.warnings {
            text.push_str(&format!("\n{:<12}{name:<24}{warning}", "warning"));
        }
        text
    }
}

/// Runs every variant of the kernel with every way to wait.
pub fn kernel(kernel: &'static Kernel, waiter: &Waiter) -> Vec<Verdict> {
    let ways: &[(How, &str)] = if kernel.parties == 2 && kernel.name != "queue" {
        &[(How::Spin, "spin"), (How::Yield, "yield"), (How::Park, "park")]
    } else {
        &[(How::Spin, "")]
    };
    let mut verdicts = Vec::new();
    for variant in kernel.variants {
        for (how, word) in ways {
            let name = if word.is_empty() { variant.name } else { word };
            verdicts.push(one(kernel, variant, *how, name, waiter));
        }
    }
    verdicts
}

fn one(
    kernel: &'static Kernel,
    variant: &'static Variant,
    how: How,
    name: &str,
    waiter: &Waiter,
) -> Verdict {
    let plan = Plan {
        kernel,
        variant,
        // A structure that nobody else changes would prove nothing.
        threads: if kernel.contends() { 2 } else { kernel.parties },
        alongside: Vec::new(),
        cpus: Vec::new(),
        seconds: SECONDS,
        warm_up: 0.0,
        options: Options { how, ..Options::default() },
    };
    let mut timed = Timed { waiter, ns: (SECONDS * 1e9) as i64 };
    let result = engine::run(&plan, &mut timed);
    let verdict = |status, detail| Verdict {
        kernel: kernel.name,
        variant: name.to_owned(),
        status,
        detail,
        warnings: Vec::new(),
        cycles: None,
    };
    match result {
        Err(Failure::Unsupported(reason)) => verdict("unsupported", reason),
        Err(Failure::System(reason)) => verdict("failed", reason),
        Err(Failure::Withdrawn) => verdict("failed", "it was cancelled".to_owned()),
        Ok(outcome) => {
            let (status, detail) = judge(&outcome);
            let cycles = report::iteration(&outcome).map(|(_, cycles)| cycles);
            let mut warnings = outcome.warnings.clone();
            warnings.extend(timing(kernel, cycles));
            Verdict { cycles, warnings, ..verdict(status, detail) }
        }
    }
}

fn judge(outcome: &Outcome) -> (&'static str, String) {
    match outcome.proofs.iter().find(|proof| !proof.holds()) {
        Some(wrong) => (
            "failed",
            format!("{}: expected {}, found {}", wrong.proof, wrong.expected, wrong.found),
        ),
        None => ("ok", format!("{} proofs", outcome.proofs.len())),
    }
}

/// A warning if the cycles differ from those of most cores.
fn timing(kernel: &Kernel, cycles: Option<f64>) -> Option<String> {
    let (usual, found) = (kernel.usual_cycles?, cycles?);
    let off = (found / usual - 1.0).abs();
    (off > TOLERANCE).then(|| format!("{found:.2} core cycles an iteration, usually {usual}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liar::LIAR;

    #[test]
    fn a_wrong_value_fails_a_missing_instruction_does_not() {
        let waiter = Waiter::without_signals();
        let verdicts = kernel(&LIAR, &waiter);
        let found: Vec<(&str, &str)> =
            verdicts.iter().map(|verdict| (verdict.status, verdict.detail.as_str())).collect();
        assert_eq!(
            found,
            [
                ("failed", "liar-00: two is two: expected 2, found 3"),
                ("unsupported", "the CPU cannot lie"),
                ("failed", "no room"),
            ]
        );
    }

    #[test]
    fn timing_only_warns() {
        assert_eq!(timing(&LIAR, None), None);
        assert_eq!(timing(&LIAR, Some(1.029)), None);
        assert_eq!(
            timing(&LIAR, Some(0.9)),
            Some("0.90 core cycles an iteration, usually 1".to_owned())
        );
    }
}

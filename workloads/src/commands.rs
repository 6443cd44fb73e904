//! The commands: what they print, and the exit status.
//!
//! 0: success; 1: a result was wrong; 2: error, one line on standard error says why;
//! 130: interrupted before the measured interval.

use std::io::{self, Write};

use crate::cli::{Command, RunArguments};
use crate::conduct::{Gated, Timed};
use crate::engine::{self, Failure};
use crate::json::{list, object};
use crate::kernel::Kernel;
use crate::os::{OpenedProcess, Waiter};
use crate::outcome::Outcome;
use crate::{cli, folder, list, machine, os, report, verify};
use serde_json::Value;

/// Success.
const OK: u8 = 0;
/// A result was wrong.
const WRONG: u8 = 1;
/// An error prevented a result.
const MISUSE: u8 = 2;
/// The status that a shell reports for a program ended by SIGINT.
const WITHDRAWN: u8 = 130;

fn print(text: &str) {
    // A closed pipe (`| head`) is not an error.
    drop(io::stdout().lock().write_all(text.as_bytes()));
}

/// Prints why there is no result; returns the exit status for that.
pub fn fail(reason: &str) -> u8 {
    eprintln!("schedlens-workloads: {reason}");
    MISUSE
}

/// Runs a command; returns the exit status.
pub fn execute(command: Command) -> u8 {
    match command {
        Command::Help => {
            print(cli::HELP);
            OK
        }
        Command::Version => {
            print(concat!("schedlens-workloads ", env!("CARGO_PKG_VERSION"), "\n"));
            OK
        }
        Command::List { json } => {
            print(&if json { format!("{}\n", list::json()) } else { list::text() });
            OK
        }
        Command::Verify { kernels, json } => run_verify(&kernels, json),
        Command::Run(arguments) => run(&arguments),
        Command::Topology { buffer, raw } => {
            let found = match buffer {
                Some(path) => machine::recorded_topology(&path),
                None => machine::topology(raw.as_deref()),
            };
            match found {
                Ok(value) => {
                    print(&format!("{value}\n"));
                    OK
                }
                Err(reason) => fail(&reason),
            }
        }
        Command::Bind { cpu, command } => match os::run_bound(cpu, &command) {
            Ok(status) => status,
            Err(reason) => fail(&reason),
        },
        Command::Await { pid } => await_process(pid).map_or_else(|reason| fail(&reason), |()| OK),
        Command::Observe => machine::observe().map_or_else(|reason| fail(&reason), |()| OK),
    }
}

/// Waits for the end of a process, or of the program that asked, which closes standard input.
fn await_process(pid: u32) -> Result<(), String> {
    let named = |error: io::Error| format!("process {pid}: {error}");
    let process = OpenedProcess::new(pid).map_err(named)?;
    print("ready\n");
    std::thread::spawn(|| {
        drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
        std::process::exit(i32::from(WITHDRAWN));
    });
    process.wait().map_err(named)
}

fn run_verify(kernels: &[&'static Kernel], json: bool) -> u8 {
    let waiter = Waiter::without_signals();
    let mut verdicts = Vec::new();
    for kernel in kernels {
        for verdict in verify::kernel(kernel, &waiter) {
            if !json {
                print(&format!("{}\n", verdict.text()));
            }
            verdicts.push(verdict);
        }
    }
    let failed = verdicts.iter().any(|verdict| verdict.status == "failed");
    if json {
        let all = object([
            ("schema", Value::from(1_u64)),
            ("ok", (!failed).into()),
            ("verdicts", list(verdicts.iter().map(verify::Verdict::json))),
        ]);
        print(&format!("{all}\n"));
    }
    if failed { WRONG } else { OK }
}

fn run(arguments: &RunArguments) -> u8 {
    if let Some(folder) = &arguments.out
        && let Err(reason) = folder::prepare(folder)
    {
        return fail(&reason);
    }
    let waiter = Waiter::new();
    run_with(arguments, &waiter)
}

fn run_with(arguments: &RunArguments, waiter: &Waiter) -> u8 {
    let plan = &arguments.plan;
    let timed = Timed { waiter, ns: (plan.seconds * 1e9) as i64 };
    let result = if arguments.gate {
        engine::run(plan, &mut Gated { timed })
    } else {
        let mut timed = timed;
        engine::run(plan, &mut timed)
    };
    match result {
        Ok(outcome) => finish(arguments, &outcome),
        Err(Failure::Withdrawn) => WITHDRAWN,
        Err(Failure::System(reason)) => fail(&reason),
        Err(Failure::Unsupported(reason)) => {
            let value = report::unsupported(plan, &reason);
            if let Some(folder) = &arguments.out
                && let Err(reason) = folder::write_workload(folder, &value)
            {
                return fail(&reason);
            }
            if arguments.json {
                print(&format!("{value}\n"));
            }
            fail(&format!("{} {} is unsupported: {reason}", plan.kernel.name, plan.variant.name))
        }
    }
}

fn finish(arguments: &RunArguments, outcome: &Outcome) -> u8 {
    let value = report::finished(&arguments.plan, outcome, &[]);
    if let Some(folder) = &arguments.out
        && let Err(reason) = folder::write(folder, &outcome.samples, &outcome.frames(), &value)
    {
        return fail(&reason);
    }
    if arguments.json {
        print(&format!("{value}\n"));
    } else if !arguments.gate {
        print(&summary(arguments, outcome));
    }
    match outcome.proofs.iter().find(|proof| !proof.holds()) {
        None => OK,
        Some(wrong) => {
            let (name, due, found) = (&wrong.proof, &wrong.expected, &wrong.found);
            eprintln!("schedlens-workloads: {name}: expected {due}, found {found}");
            WRONG
        }
    }
}

fn summary(arguments: &RunArguments, outcome: &Outcome) -> String {
    let plan = &arguments.plan;
    let mut text = String::new();
    for worker in &outcome.workers {
        let wall_ms = (worker.end_mono_ns - worker.start_mono_ns) as f64 / 1e6;
        let cpu_ms = worker.cpu_time_ns as f64 / 1e6;
        text.push_str(&format!(
            "{:<16}{:>14} iterations {:>7} batches {wall_ms:>10.3} ms {cpu_ms:>10.3} ms CPU\n",
            worker.name, worker.iterations, worker.batches
        ));
    }
    if let Some((ns, cycles)) = report::iteration(outcome) {
        text.push_str(&format!(
            "{} {}: {ns:.3} ns, {cycles:.3} core cycles an iteration; {} proofs, {}\n",
            plan.name(),
            plan.variant.name,
            outcome.proofs.len(),
            if outcome.holds() { "all hold" } else { "not all hold" },
        ));
    }
    for warning in &outcome.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Options;
    use crate::liar::LIAR;
    use crate::plan::Plan;
    use std::fs;

    /// Exit status of a run of that variant of the liar, and its workload.json.
    fn lie(variant: usize) -> (u8, Option<String>) {
        let name = format!("schedlens-liar-{}-{variant}", std::process::id());
        let out = std::env::temp_dir().join(name);
        folder::prepare(&out).expect("the temporary folder is writable");
        let arguments = RunArguments {
            plan: Plan {
                kernel: &LIAR,
                variant: &LIAR.variants[variant],
                threads: 2,
                alongside: Vec::new(),
                cpus: Vec::new(),
                seconds: 0.01,
                warm_up: 0.0,
                options: Options::default(),
            },
            out: Some(out.clone()),
            gate: false,
            json: false,
        };
        let status = run_with(&arguments, &Waiter::without_signals());
        let written = fs::read_to_string(out.join("workload.json")).ok();
        drop(fs::remove_dir_all(&out));
        (status, written)
    }

    #[test]
    fn a_proof_that_does_not_hold_fails_the_run_and_is_written() {
        let (status, written) = lie(0);
        let written = written.unwrap_or_default();
        assert_eq!(status, WRONG);
        assert!(written.contains("\"status\":\"failed\""), "{written}");
        let wrong = "{\"expected\":\"2\",\"found\":\"3\",\"ok\":false,\
                     \"proof\":\"liar-01: two is two\"}";
        assert!(written.contains(wrong), "{written}");
    }

    #[test]
    fn what_cannot_run_is_written_as_unsupported_and_what_breaks_is_not_written() {
        let (status, written) = lie(1);
        assert_eq!(status, MISUSE);
        assert!(written.unwrap_or_default().contains("\"status\":\"unsupported\""));
        assert_eq!(lie(2), (MISUSE, None));
    }
}

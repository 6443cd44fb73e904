//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;
use lexopt::{Error, Parser};

use crate::catalogue::{self, KERNELS};
use crate::kernel::{How, Kernel, Options, Variant};
use crate::plan::Plan;

/// What `--help` prints.
pub const HELP: &str = "\
Pinned kernels that verify their own results.

schedlens-workloads list [--json]
schedlens-workloads verify [KERNEL...] [--json]
schedlens-workloads run KERNEL [--variant V] [--threads N] [--cpus LIST] [--seconds S]
                        [--warm-up S] [--alongside KERNEL[:V]]... [--depth 1..64] [--how spin|yield|park]
                        [--rate R] [--seed N] [--handoffs N] [--out DIR] [--gate] [--json]
schedlens-workloads topology [--buffer FILE] [--raw FILE]
schedlens-workloads observe
schedlens-workloads await PID
schedlens-workloads bind --cpu N -- COMMAND...

  --variant V    variant of the kernel, see list
  --threads N    number of workers (1); kernels that run pairs need an even number (2)
  --cpus LIST    pin workers to these CPUs in turn, such as 0,2,4-7; by default no mask is set
  --seconds S    length of the measured interval (1)
  --warm-up S    run all workers for this time before the measured interval (0)
  --alongside K  add one worker that runs another kernel; repeatable
  --depth D      capacity of the queue (1)
  --how H        how workers of spin_handoff, frame and serve wait (spin)
  --rate R       requests a second that arrive at each worker of serve open (1000)
  --seed N       seed of the arrivals of serve open (0): each seed gives other arrivals
  --handoffs N   hand-offs that a frame needs (9)
  --out DIR      write workload.json and samples.bin to this folder
  --gate         print ready, wait for the line go, run, print done
  --json         print the result as JSON
  --buffer FILE  read saved output of GetLogicalProcessorInformationEx, not this machine
  --raw FILE     save the bytes that Windows returned

topology prints which logical CPUs share what, as JSON. observe (Windows) prints ready; for the line
begin it prints a snapshot of the system, and for the line end one with the reported load.
await prints ready, and ends when that process has ended, or standard input.
bind runs a command and its child processes on one logical CPU and exits with its status.
Exit status: 0 success, 1 a result was wrong, 2 error, 130 interrupted before the run began.
";

/// More workers than any machine has CPUs.
const MOST_THREADS: usize = 4096;
const MOST_SECONDS: f64 = 86_400.0;
const MOST_WARM_UP: f64 = 3_600.0;
/// A batch waits for its requests, and a run waits for its batches to end.
const LEAST_RATE: f64 = 10.0;
const MOST_RATE: f64 = 1e8;
const MOST_HANDOFFS: usize = 1_000_000;
/// CPU numbers are recorded in 16 bits.
const MOST_CPUS: usize = 65_535;

/// A parsed command line.
pub enum Command {
    Help,
    Version,
    List { json: bool },
    Verify { kernels: Vec<&'static Kernel>, json: bool },
    Run(RunArguments),
    Topology { buffer: Option<PathBuf>, raw: Option<PathBuf> },
    Observe,
    Await { pid: u32 },
    Bind { cpu: usize, command: Vec<String> },
}

/// The plan of a run, and where its result goes.
pub struct RunArguments {
    pub plan: Plan,
    pub out: Option<PathBuf>,
    pub gate: bool,
    pub json: bool,
}

/// Parses the arguments of the program.
///
/// # Errors
/// One line that says what was found and what is expected.
pub fn parse(words: &[String]) -> Result<Command, String> {
    let Some((command, rest)) = words.split_first() else {
        return Err("a command is missing: list, verify or run (see --help)".to_owned());
    };
    // Everything after -- belongs to another program.
    if rest.iter().take_while(|word| *word != "--").any(|word| word == "--help" || word == "-h") {
        return Ok(Command::Help);
    }
    let mut rest = Parser::from_args(rest);
    let parsed = match command.as_str() {
        "--help" | "-h" | "help" => return Ok(Command::Help),
        "--version" | "-V" => return Ok(Command::Version),
        "list" => parse_list(&mut rest),
        "verify" => parse_verify(&mut rest),
        "run" => parse_run(&mut rest),
        "topology" => parse_topology(&mut rest),
        "bind" => parse_bind(&mut rest),
        "observe" => parse_observe(&mut rest),
        "await" => parse_await(&mut rest),
        other => {
            return Err(format!(
                "no command {other:?}: list, verify, run, topology, observe, await or bind (see --help)"
            ));
        }
    };
    parsed.map_err(|error| format!("{command}: {error}"))
}

fn kernel(name: &str) -> Result<&'static Kernel, String> {
    catalogue::find(name).ok_or_else(|| {
        let names: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
        format!("no kernel {name:?}: choose from {}", names.join(", "))
    })
}

fn parse_list(words: &mut Parser) -> Result<Command, Error> {
    let mut json = false;
    while let Some(word) = words.next()? {
        match word {
            Long("json") => json = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::List { json })
}

fn parse_verify(words: &mut Parser) -> Result<Command, Error> {
    let mut json = false;
    let mut kernels = Vec::new();
    while let Some(word) = words.next()? {
        match word {
            Long("json") => json = true,
            Value(name) => kernels.push(kernel(&name.string()?)?),
            other => return Err(other.unexpected()),
        }
    }
    if kernels.is_empty() {
        kernels = KERNELS.to_vec();
    }
    Ok(Command::Verify { kernels, json })
}

fn parse_topology(words: &mut Parser) -> Result<Command, Error> {
    let (mut buffer, mut raw) = (None, None);
    while let Some(word) = words.next()? {
        match word {
            Long("buffer") => buffer = Some(PathBuf::from(words.value()?)),
            Long("raw") => raw = Some(PathBuf::from(words.value()?)),
            other => return Err(other.unexpected()),
        }
    }
    if buffer.is_some() && raw.is_some() {
        return Err("--raw is for this machine, --buffer for another: use one of them".into());
    }
    Ok(Command::Topology { buffer, raw })
}

fn parse_observe(words: &mut Parser) -> Result<Command, Error> {
    words.next()?.map_or(Ok(Command::Observe), |word| Err(word.unexpected()))
}

fn parse_await(words: &mut Parser) -> Result<Command, Error> {
    let pid = words.value()?.parse()?;
    words.next()?.map_or(Ok(Command::Await { pid }), |word| Err(word.unexpected()))
}

fn parse_bind(words: &mut Parser) -> Result<Command, Error> {
    let mut words = words.raw_args()?.map(OsString::string).collect::<Result<Vec<_>, _>>()?;
    let command = words.split_off(words.len().min(3));
    match words.as_slice() {
        [option, cpu, dashes] if option == "--cpu" && dashes == "--" && !command.is_empty() => {
            Ok(Command::Bind { cpu: number(option, cpu, 0, MOST_CPUS - 1)?, command })
        }
        _ => Err("usage: bind --cpu N -- COMMAND...".into()),
    }
}

fn parse_run(words: &mut Parser) -> Result<Command, Error> {
    let mut chosen: Option<&'static Kernel> = None;
    let mut variant_name = None;
    let mut threads = None;
    let mut cpus = Vec::new();
    let mut seconds = 1.0;
    let mut warm_up = 0.0;
    let mut alongside = Vec::new();
    let mut depth = None;
    let mut how = None;
    let mut rate = None;
    let mut seed = None;
    let mut handoffs = None;
    let (mut out, mut gate, mut json) = (None, false, false);
    while let Some(word) = words.next()? {
        match word {
            Long("gate") => gate = true,
            Long("json") => json = true,
            Long("out") => out = Some(PathBuf::from(words.value()?)),
            Long("variant") => variant_name = Some(words.value()?.string()?),
            Long("cpus") => cpus = cpu_list(&words.value()?.string()?)?,
            Long("seconds") => seconds = duration(&words.value()?.string()?)?,
            Long("warm-up") => warm_up = warming(&words.value()?.string()?)?,
            Long("how") => how = Some(way(&words.value()?.string()?)?),
            Long("rate") => rate = Some(per_second(&words.value()?.string()?)?),
            Long("seed") => seed = Some(whole("--seed", &words.value()?.string()?)?),
            Long("alongside") => alongside.push(companion(&words.value()?.string()?)?),
            Long("threads") => {
                threads = Some(number("--threads", &words.value()?.string()?, 1, MOST_THREADS)?);
            }
            Long("depth") => depth = Some(number("--depth", &words.value()?.string()?, 1, 64)?),
            Long("handoffs") => {
                let count = number("--handoffs", &words.value()?.string()?, 1, MOST_HANDOFFS)?;
                handoffs = Some(count as u64);
            }
            Value(name) if chosen.is_none() => chosen = Some(kernel(&name.string()?)?),
            Value(name) => return Err(format!("one kernel only, {name:?} is a second").into()),
            other => return Err(other.unexpected()),
        }
    }
    let kernel = chosen.ok_or("run needs the name of a kernel (see list)")?;
    let threads = threads.unwrap_or(kernel.parties);
    if threads % kernel.parties != 0 {
        return Err(
            format!("{} needs an even number of threads, not {threads}", kernel.name).into()
        );
    }
    if depth.is_some() && kernel.name != "queue" {
        return Err(format!("--depth works only with queue, not {}", kernel.name).into());
    }
    if how.is_some() && !["spin_handoff", "frame", "serve"].contains(&kernel.name) {
        return Err(format!(
            "--how works only with spin_handoff, frame and serve, not {}",
            kernel.name
        )
        .into());
    }
    if handoffs.is_some() && kernel.name != "frame" {
        return Err(format!("--handoffs works only with frame, not {}", kernel.name).into());
    }
    if !alongside.is_empty() && kernel.parties != 1 {
        return Err(format!(
            "{} runs workers in pairs: --alongside does not work with it",
            kernel.name
        )
        .into());
    }
    let variant = variant(kernel, variant_name.as_deref())?;
    if rate.is_some() && (kernel.name, variant.name) != ("serve", "open") {
        return Err("--rate requires serve with --variant open".into());
    }
    if seed.is_some() && (kernel.name, variant.name) != ("serve", "open") {
        return Err("--seed requires serve with --variant open".into());
    }
    let defaults = Options::default();
    let options = Options {
        depth: depth.unwrap_or(defaults.depth),
        how: how.unwrap_or(defaults.how),
        rate: rate.unwrap_or(defaults.rate),
        seed: seed.unwrap_or(defaults.seed),
        handoffs: handoffs.unwrap_or(defaults.handoffs),
    };
    let plan = Plan { kernel, variant, threads, alongside, cpus, seconds, warm_up, options };
    Ok(Command::Run(RunArguments { plan, out, gate, json }))
}

/// The variant of that name; by default the first.
fn variant(kernel: &'static Kernel, name: Option<&str>) -> Result<&'static Variant, String> {
    let Some(name) = name else {
        return Ok(&kernel.variants[0]);
    };
    kernel.variants.iter().find(|variant| variant.name == name).ok_or_else(|| {
        let names: Vec<&str> = kernel.variants.iter().map(|variant| variant.name).collect();
        format!("{} has no variant {name:?} here: choose from {}", kernel.name, names.join(", "))
    })
}

/// Parses `KERNEL` or `KERNEL:VARIANT` for a kernel whose workers need no partner.
fn companion(text: &str) -> Result<(&'static Kernel, &'static Variant), String> {
    let (name, of) = match text.split_once(':') {
        Some((name, of)) => (name, Some(of)),
        None => (text, None),
    };
    let found = kernel(name)?;
    if found.parties != 1 {
        return Err(format!("--alongside: {name} runs workers in pairs"));
    }
    Ok((found, variant(found, of)?))
}

fn per_second(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| (LEAST_RATE..=MOST_RATE).contains(rate))
        .ok_or_else(|| format!("--rate must be between {LEAST_RATE} and {MOST_RATE}, not {text:?}"))
}

fn whole(option: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{option} must be a whole number from 0, not {text:?}"))
}

fn number(option: &str, text: &str, least: usize, most: usize) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{option} must be a number from {least} to {most}, not {text:?}"))
}

fn duration(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.001..=MOST_SECONDS).contains(seconds))
        .ok_or_else(|| format!("--seconds must be between 0.001 and {MOST_SECONDS}, not {text:?}"))
}

fn warming(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.0..=MOST_WARM_UP).contains(seconds))
        .ok_or_else(|| format!("--warm-up must be between 0 and {MOST_WARM_UP}, not {text:?}"))
}

fn way(text: &str) -> Result<How, String> {
    match text {
        "spin" => Ok(How::Spin),
        "yield" => Ok(How::Yield),
        "park" => Ok(How::Park),
        other => Err(format!("--how must be spin, yield or park, not {other:?}")),
    }
}

/// Parses `0,2,4-7` in order; a CPU may appear more than once.
fn cpu_list(text: &str) -> Result<Vec<usize>, String> {
    let cpus = schedlens_system::cpu_list(text, MOST_CPUS as u32).filter(|cpus| !cpus.is_empty());
    let wrong = || format!("--cpus must be a list like 0,2,4-7, not {text:?}");
    Ok(cpus.ok_or_else(wrong)?.into_iter().map(|cpu| cpu as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn run(line: &str) -> Result<RunArguments, String> {
        match parse(&words(line))? {
            Command::Run(arguments) => Ok(arguments),
            _ => Err("it is not a run".to_owned()),
        }
    }

    #[test]
    fn a_run_is_read_with_all_its_options() {
        let found = run(
            "run queue --threads 4 --cpus=1,1,4-6 --seconds 0.5 --depth 64 --out dir --gate --json",
        )
        .expect("every option is valid");
        assert_eq!((found.plan.kernel.name, found.plan.variant.name), ("queue", "default"));
        assert_eq!((found.plan.threads, found.plan.seconds), (4, 0.5));
        assert_eq!(found.plan.cpus, [1, 1, 4, 5, 6]);
        assert_eq!(found.plan.options.depth, 64);
        assert_eq!(found.out, Some(PathBuf::from("dir")));
        assert!(found.gate && found.json);
    }

    #[test]
    fn kernels_alongside_the_first_have_a_worker_each() {
        let plan = run("run imul2 --threads 2 --alongside add1 --alongside pointer_chase:shared")
            .expect("every option is valid")
            .plan;
        assert_eq!(plan.name(), "imul2+add1+pointer_chase");
        let found: Vec<(&str, &str)> = (0..4)
            .map(|worker| plan.of_worker(worker))
            .map(|(kernel, variant)| (kernel.name, variant.name))
            .collect();
        let first = ("imul2", "default");
        assert_eq!(found, [first, first, ("add1", "default"), ("pointer_chase", "shared")]);
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let found = run("run sha256").expect("a kernel is enough");
        assert_eq!((found.plan.threads, found.plan.seconds), (1, 1.0));
        assert_eq!((found.plan.cpus.len(), found.out, found.gate), (0, None, false));
        let pair = run("run spin_handoff").expect("a kernel is enough");
        assert_eq!((pair.plan.threads, pair.plan.options.how), (2, How::Spin));
    }

    #[test]
    fn a_command_to_bind_keeps_its_own_options() {
        let Ok(Command::Bind { cpu, command }) = parse(&words("bind --cpu 3 -- game --help --"))
        else {
            panic!("every argument is valid");
        };
        assert_eq!((cpu, command), (3, words("game --help --")));
    }

    #[test]
    fn misuse_is_answered_in_one_line() {
        for (line, part) in [
            ("", "a command is missing"),
            ("walk", "no command \"walk\""),
            ("list all", "list: unexpected argument"),
            ("verify imul11", "no kernel \"imul11\""),
            ("verify --fast", "verify: invalid option '--fast'"),
            ("topology --json", "topology: invalid option '--json'"),
            ("topology --buffer", "missing argument for option '--buffer'"),
            ("topology --buffer a --raw b", "use one of them"),
            ("observe now", "observe: unexpected argument \"now\""),
            ("bind", "usage: bind --cpu N -- COMMAND"),
            ("bind --cpu 1 --", "usage: bind --cpu N -- COMMAND"),
            ("bind --cpu 1 true", "usage: bind --cpu N -- COMMAND"),
            ("bind --cpu x -- true", "--cpu must be a number from 0"),
            ("run", "needs the name of a kernel"),
            ("run imul1 imul2", "is a second"),
            ("run imul1 --threads", "missing argument for option '--threads'"),
            ("run imul1 --threads 0", "from 1 to 4096"),
            ("run imul1 --threads -1", "from 1 to 4096"),
            ("run imul1 --seconds nan", "--seconds must be"),
            ("run imul1 --seconds 0", "--seconds must be"),
            ("run imul1 --cpus 3-1", "--cpus must be"),
            ("run imul1 --cpus 1,,2", "--cpus must be"),
            ("run imul1 --cpus 99999", "--cpus must be"),
            ("run imul1 --cpus 0-99999999999999999999", "--cpus must be"),
            ("run imul1 --depth 2", "--depth works only with queue"),
            ("run queue --depth 65", "from 1 to 64"),
            ("run queue --threads 3", "even number"),
            ("run queue --how spin", "--how works only with spin_handoff"),
            ("run imul1 --alongside imul11", "no kernel \"imul11\""),
            ("run imul1 --alongside sha256:avx", "no variant \"avx\""),
            ("run imul1 --alongside queue", "runs workers in pairs"),
            ("run queue --alongside imul1", "--alongside does not work with it"),
            ("run serve --rate 5000", "--rate requires serve with"),
            ("run serve --variant open --rate 1", "--rate must be between 10 and"),
            ("run serve --variant open --rate nan", "--rate must be between 10 and"),
            ("run serve --seed 5", "--seed requires serve with"),
            ("run serve --variant open --seed -5", "--seed must be a whole number"),
            ("run imul1 --handoffs 3", "--handoffs works only with frame"),
            ("run frame --handoffs 0", "from 1 to 1000000"),
            ("run spin_handoff --how sleep", "--how must be"),
            ("run sha256 --variant avx", "no variant \"avx\""),
            ("run imul1 --gate=yes", "unexpected argument for option '--gate'"),
        ] {
            let error = parse(&words(line)).err().unwrap_or_default();
            assert!(error.contains(part), "{line}: {error}");
            assert!(!error.contains('\n'), "{line}: {error}");
        }
    }
}

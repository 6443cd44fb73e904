//! Replays of recorded schedules.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use schedlens_replay::{
    Cpu, Goal, Group, Limit, LinuxRules, Op, Parking, Plan, Program, Replay, Section,
};

/// Parts in which a replay runs, to check for Ctrl-C between them.
const PARTS: i64 = 50;

/// Process, priority, CPUs, ideal CPU, EcoQoS; and the program: a byte for the kind of each step, a
/// double for its value, and the gates that its steps open.
type Thread =
    (usize, i32, Vec<usize>, Option<usize>, bool, (PyBackedBytes, PyBackedBytes, PyBackedBytes));

/// A group of threads: parent, shares, quota with its period.
type Shared = (Option<usize>, f64, Option<(f64, i64)>);

/// Slice, tick, groups; and by thread: its group, and whether it takes turns with its equals.
type Rules = (f64, i64, Vec<Shared>, Vec<(usize, bool, bool)>);

/// By thread: lengths of frames, times of marks, running time by CPU, ready time, responses; when
/// watched threads ran first and had reached the goal, and the number of switches.
type Found =
    (Vec<Vec<i64>>, Vec<Vec<i64>>, Vec<Vec<i64>>, Vec<i64>, Vec<Vec<i64>>, Option<(i64, i64)>, u64);

fn doubles(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.chunks_exact(8).map(|part| f64::from_le_bytes(part.try_into().unwrap_or_default()))
}

fn program(thread: &Thread) -> PyResult<Program> {
    let (process, priority, affinity, ideal, is_eco, (kinds, values, gates)) = thread;
    if values.len() != 8 * kinds.len() {
        return Err(PyValueError::new_err("a step has no value"));
    }
    let mut opened = 0;
    let mut ops = Vec::with_capacity(kinds.len());
    for (&kind, value) in kinds.iter().zip(doubles(values)) {
        ops.push(match kind {
            b'r' => Op::Run(value),
            b'w' => Op::Wait(value as u32),
            b'c' => Op::Spin(value as u32),
            b'o' => {
                let first = opened;
                opened += value as u32;
                Op::Open(first, opened)
            }
            b's' => Op::Sleep(value as i64),
            b'u' => Op::Until(value as i64),
            b't' => Op::Take(value as u32),
            b'p' => Op::Present(value as i64),
            b'm' => Op::Mark,
            _ => return Err(PyValueError::new_err(format!("unknown step {kind}"))),
        });
    }
    let gates = gates
        .chunks_exact(4)
        .map(|part| u32::from_le_bytes(part.try_into().unwrap_or_default()))
        .collect();
    Ok(Program {
        process: *process,
        priority: *priority,
        affinity: affinity.clone(),
        ideal: *ideal,
        is_eco: *is_eco,
        limit: None,
        group: 0,
        is_round_robin: false,
        is_background: false,
        is_watched: false,
        ops,
        gates,
    })
}

/// Runs the programs of threads; times in ns.
///
/// `cpus`: (lowest CPU of the core, is a second sibling, is an E core, speed). `needed`: by gate,
/// the number of threads that must open it. `parking`: (time, CPU, is parked). `linux`: its rules;
/// None: those of Windows. `limits`: under those, quotas of CPU time (quota, period, begin of the
/// first one, threads); `moves_running`: whether a thread moves to a better idle CPU when its
/// quantum ends; `stranded_share`: of wakeups after which a thread remains on its busy CPU though
/// another is idle. `watched`: threads whose responses are wanted; `goal_ns`: work that
/// they shall do, or 0.
#[pyfunction]
#[pyo3(signature = (cpus, shared_speed, threads, needed, sections, parking, *, quantum_ns, wake_boost, starved_ns, until_ns, linux=None, limits=Vec::new(), moves_running=true, stranded_share=0.0, watched=Vec::new(), goal_ns=0.0))]
#[expect(clippy::too_many_arguments, reason = "they are named in Python")]
fn replay(
    py: Python<'_>,
    cpus: Vec<(usize, bool, bool, f64)>,
    shared_speed: f64,
    threads: Vec<Thread>,
    needed: Vec<i32>,
    sections: Vec<(u32, Vec<f64>)>,
    parking: Vec<(i64, usize, bool)>,
    quantum_ns: i64,
    wake_boost: i32,
    starved_ns: i64,
    until_ns: i64,
    linux: Option<Rules>,
    limits: Vec<(f64, i64, i64, Vec<usize>)>,
    moves_running: bool,
    stranded_share: f64,
    watched: Vec<usize>,
    goal_ns: f64,
) -> PyResult<Found> {
    let mut programs = threads.iter().map(program).collect::<PyResult<Vec<_>>>()?;
    if let Some((.., known)) = &linux {
        for (made, &(group, takes_turns, is_background)) in programs.iter_mut().zip(known) {
            (made.group, made.is_round_robin) = (group, takes_turns);
            made.is_background = is_background;
        }
    }
    for (limit, (.., members)) in limits.iter().enumerate() {
        for &index in members {
            if let Some(made) = programs.get_mut(index) {
                made.limit = Some(limit);
            }
        }
    }
    for index in watched {
        if let Some(made) = programs.get_mut(index) {
            made.is_watched = true;
        }
    }
    let plan = Plan {
        cpus: cpus
            .into_iter()
            .map(|(core, is_second, is_efficient, speed)| Cpu {
                core,
                is_second,
                is_efficient,
                speed,
            })
            .collect(),
        shared_speed,
        quantum_ns,
        wake_boost,
        starved_ns,
        programs,
        needed,
        sections: sections.into_iter().map(|(gate, jobs)| Section { gate, jobs }).collect(),
        parking: parking
            .into_iter()
            .map(|(at_ns, cpu, is_parked)| Parking { at_ns, cpu, is_parked })
            .collect(),
        limits: limits
            .into_iter()
            .map(|(quota_ns, period_ns, begin_ns, _)| Limit { quota_ns, period_ns, begin_ns })
            .collect(),
        moves_running,
        stranded_share,
        until_ns,
        linux: linux.map(|(slice_ns, tick_ns, groups, _)| LinuxRules {
            slice_ns,
            tick_ns,
            groups: groups
                .into_iter()
                .map(|(parent, shares, quota)| Group { parent, shares, quota })
                .collect(),
        }),
        goal: Goal { work_ns: goal_ns },
    };
    drop(threads);
    let mut made = Replay::new(plan).map_err(|bad| PyValueError::new_err(bad.to_string()))?;
    let longest = made.longest_ns();
    for part in 1..=PARTS {
        py.detach(|| made.run_to(longest / PARTS * part));
        py.check_signals()?;
    }
    py.detach(|| made.run_to(longest));
    let found = made.outcome();
    Ok((
        found.frames,
        found.marks,
        found.running_ns,
        found.ready_ns,
        found.responses,
        found.begun_ns.zip(found.goal_ns),
        found.switches,
    ))
}

/// Adds the functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(replay, module)?)
}

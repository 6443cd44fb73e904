//! Stacks of perf's samples, from their callchains or from copies of the user stack.

use schedlens_perf_data::attrs::{Attr, TYPE_TRACEPOINT};
use schedlens_perf_data::callchain::Context;
use schedlens_perf_data::mapping;
use schedlens_perf_data::record;
use schedlens_perf_data::recording::Recording;
use schedlens_perf_data::user_state::UserState;
use schedlens_symbols::unwind::{Architecture, Registers};

use crate::stacks::{Generated, Part, Stacks, UserPart};

/// `PERF_COUNT_SW_DUMMY`: it counts nothing, and is there to carry other records.
const DUMMY: u64 = 9;
const TYPE_SOFTWARE: u32 = 1;

/// `PERF_RECORD_MISC_FORK_EXEC`: the record describes a process that existed already.
const FORK_EXEC: u16 = 1 << 13;

/// The stacks of a recording and the names of what was sampled.
#[derive(Debug)]
pub(super) struct Callchains {
    /// `None` if no event has callchains.
    pub(super) stacks: Option<Box<Stacks>>,
    /// Name of each event whose samples are rows of `sample`.
    sampled: Vec<Option<String>>,
    architecture: Option<Architecture>,
    pub(super) generated: Generated,
}

impl Callchains {
    pub(super) fn new(recording: &Recording, trace_id: i64) -> Self {
        let attrs = &recording.events.attrs;
        let has_callchains = attrs.iter().any(Attr::has_callchain);
        let architecture = recording.features.arch.as_deref().and_then(Architecture::named);
        let stacks = has_callchains.then(|| Box::new(Stacks::new(trace_id, architecture)));
        let sampled = attrs
            .iter()
            .zip(&recording.named)
            .map(|(attr, event)| {
                let is_dummy = (attr.kind, attr.config) == (TYPE_SOFTWARE, DUMMY);
                (attr.kind != TYPE_TRACEPOINT && !is_dummy).then(|| plain_name(&event.name))
            })
            .collect();
        // Compilers write times of the monotonic clock.
        let start = recording.start_clock();
        let start = (recording.clock_name() == "monotonic").then_some(start);
        Self { stacks, sampled, architecture, generated: Generated::new(start) }
    }

    /// The name of an event whose samples are rows of `sample`.
    pub(super) fn sampled(&self, event: usize) -> Option<&str> {
        self.sampled.get(event)?.as_deref()
    }

    /// A record about code or about a process.
    pub(super) fn record(&mut self, kind: u32, misc: u16, bytes: &[u8]) {
        let Some(stacks) = &mut self.stacks else { return };
        let id = |at| schedlens_input::bytes::u32_at(bytes, at).map(u32::cast_signed);
        match kind {
            record::MMAP | record::MMAP2 => {
                if let Some(mapping) = mapping::mapping(kind, misc, bytes) {
                    self.generated.mapped(mapping.pid, &mapping.name);
                    stacks.spaces.map(mapping);
                }
            }
            record::FORK if misc & FORK_EXEC == 0 => {
                if let (Some(pid), Some(parent)) = (id(8), id(12)) {
                    stacks.spaces.fork(parent, pid);
                }
            }
            record::COMM if misc & record::MISC_COMM_EXEC != 0 => {
                if let Some(pid) = id(8) {
                    self.generated.exec(pid);
                    stacks.spaces.exec(pid);
                }
            }
            record::KSYMBOL => {
                if let Some(code) = mapping::kernel_code(bytes).filter(|code| !code.is_removed) {
                    stacks.kernel_code.push(code);
                }
            }
            _ => {}
        }
    }

    /// The stack of a sample; `None` if it has none.
    pub(super) fn stack(&mut self, attr: &Attr, pid: i32, ts: i64, bytes: &[u8]) -> Option<i64> {
        let stacks = self.stacks.as_mut()?;
        self.generated.apply(ts, &mut stacks.spaces);
        let chain = attr.callchain(bytes)?;
        let recorded = chain.bytes();
        let parts = chain.filter_map(|(context, address)| match context {
            Some(Context::Kernel) => Some((Part::Kernel, address)),
            Some(Context::User) => Some((Part::User, address)),
            None => Some((part_of(address), address)),
            // Code of a guest is in other address spaces.
            Some(_) => None,
        });
        if !attr.has_user_stack() && !attr.has_branch_stack() {
            return stacks.of_chain(pid, recorded, parts, None);
        }
        let state = attr.user_state(bytes)?;
        if attr.has_branch_stack() {
            // A branch is at the call itself, not at the address to which it returns.
            let calls = state.callers().map(|from| (part_of(from), from.wrapping_add(1)));
            let kernel = parts.clone().filter(|(part, _)| *part == Part::Kernel);
            let innermost = parts.clone().find(|(part, _)| *part == Part::User);
            let called: Vec<_> = kernel.chain(innermost).chain(calls).collect();
            let key: Vec<u8> = called.iter().flat_map(|(_, at)| at.to_le_bytes()).collect();
            return stacks.of_chain(pid, &key, called.into_iter(), None);
        }
        let user = self.architecture.and_then(|architecture| user_part(architecture, &state));
        stacks.of_chain(pid, recorded, parts, user)
    }
}

/// Whose code an address without a marker is. The kernel of x86-64 and aarch64 has the upper half of
/// all addresses.
fn part_of(address: u64) -> Part {
    if address >> 63 == 1 { Part::Kernel } else { Part::User }
}

/// Numbers of `perf_regs.h`.
fn user_part<'a>(architecture: Architecture, state: &UserState<'a>) -> Option<UserPart<'a>> {
    let (ip, sp, fp, lr) = match architecture {
        Architecture::X86_64 => (8, 7, 6, None),
        Architecture::Aarch64 => (32, 31, 29, Some(30)),
    };
    let registers = Registers {
        ip: state.register(ip)?,
        sp: state.register(sp)?,
        fp: state.register(fp)?,
        lr: lr.and_then(|lr| state.register(lr)).unwrap_or_default(),
    };
    Some(UserPart { registers, stack: state.stack })
}

/// `cpu-clock` for `cpu-clock/freq=99,call-graph=fp/` and `cpu-clock:u`.
fn plain_name(name: &str) -> String {
    let whole = name.split(':').next().unwrap_or(name);
    match whole.split_once('/') {
        Some((event, terms)) if terms.contains('=') || terms == "/" => event.to_owned(),
        _ => whole.trim_end_matches('/').to_owned(),
    }
}

impl Callchains {
    /// What is incomplete: how often, where, and why.
    pub(super) fn problems(&self) -> impl Iterator<Item = (i64, &'static str, &'static str)> {
        let stacks = self.stacks.as_deref();
        let counted = stacks.map(|stacks| {
            [
                (
                    stacks.cut,
                    "stacks",
                    "unwinding ended before the outermost function: the copied part of the stack \
                     was too short, or a file has no unwind tables",
                ),
                (
                    stacks.too_many,
                    "stacks",
                    "left out, because the recording has too many different ones",
                ),
            ]
        });
        counted.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_lose_their_settings() {
        let cases = [
            ("cpu-clock/freq=999,call-graph=fp/", "cpu-clock"),
            ("cpu-clock:u", "cpu-clock"),
            ("cycles:P", "cycles"),
            ("cpu_core/cycles/P", "cpu_core/cycles/P"),
        ];
        for (given, plain) in cases {
            assert_eq!(plain_name(given), plain);
        }
    }
}

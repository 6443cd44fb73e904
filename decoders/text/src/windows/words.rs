//! Words of xperf and WPA for numbers of Windows, and processes with their ids.

use schedlens_system::thread_states::KWAIT_REASON;

use super::row::Who;
use crate::numbers::{short, signed, trimmed};

/// `KTHREAD_STATE` in order.
const STATES: [&str; 9] = [
    "Initialized",
    "Ready",
    "Running",
    "Standby",
    "Terminated",
    "Waiting",
    "Transition",
    "DeferredReady",
    "GateWait",
];
/// `KPROCESSOR_MODE` by what it means for the kernel stack: only waits in user mode allow a swap.
const MODES: [&str; 2] = ["NonSwap", "Swapable"];

fn index(words: &[&str], cell: &[u8]) -> Option<i32> {
    let cell = trimmed(cell);
    let at = words.iter().position(|word| word.as_bytes().eq_ignore_ascii_case(cell));
    at.map(|at| at as i32).or_else(|| short(cell).filter(|number| *number >= 0))
}

/// A state, as a word or a number.
pub(super) fn state(cell: &[u8]) -> Option<i32> {
    let plain: Vec<u8> = cell.iter().copied().filter(|byte| *byte != b' ').collect();
    index(&STATES, &plain)
}

/// A wait reason, as a word or a number.
pub(super) fn reason(cell: &[u8]) -> Option<i32> {
    index(&KWAIT_REASON, cell)
}

/// A wait mode, as a word or a number.
pub(super) fn mode(cell: &[u8]) -> Option<i32> {
    match trimmed(cell) {
        b"Swappable" => Some(1),
        b"Kernel" | b"KernelMode" => Some(0),
        b"User" | b"UserMode" => Some(1),
        cell => index(&MODES, cell),
    }
}

/// An id; -1 and 4294967295 mean that none was known.
pub(super) fn id(cell: &[u8]) -> Option<i64> {
    signed(cell).filter(|id| (0..i64::from(u32::MAX)).contains(id))
}

/// `name.exe (  12)`; without an id it is a name.
pub(super) fn process(cell: &[u8]) -> Who {
    let cell = trimmed(cell);
    let open = cell.iter().rposition(|byte| *byte == b'(');
    let inside = open.and_then(|open| cell.get(open + 1..)?.strip_suffix(b")"));
    let number = inside.and_then(signed);
    let name = match (open, number) {
        (Some(open), Some(_)) => trimmed(cell.get(..open).unwrap_or_default()),
        _ => cell,
    };
    let is_known = !name.is_empty() && !name.eq_ignore_ascii_case(b"unknown");
    let process = is_known.then(|| String::from_utf8_lossy(name).into_owned());
    let pid = number.filter(|id| (0..i64::from(u32::MAX)).contains(id));
    Who { tid: None, pid, process }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_the_same() {
        assert_eq!((state(b" Waiting"), state(b"5")), (Some(5), Some(5)));
        assert_eq!((state(b"Deferred Ready"), state(b"?")), (Some(7), None));
        assert_eq!((reason(b"WrPreempted"), reason(b"32")), (Some(32), Some(32)));
        assert_eq!((mode(b"NonSwap"), mode(b"Swapable"), mode(b"1")), (Some(0), Some(1), Some(1)));
        assert_eq!((id(b"-1"), id(b"4294967295"), id(b" 0")), (None, None, Some(0)));
    }

    #[test]
    fn processes_have_a_name_and_an_id() {
        let who = |pid, process: Option<&str>| Who {
            tid: None,
            pid,
            process: process.map(str::to_owned),
        };
        assert_eq!(process(b"  Idle (   0)"), who(Some(0), Some("Idle")));
        assert_eq!(process(b"a (1).exe (77)"), who(Some(77), Some("a (1).exe")));
        assert_eq!(process(b"Unknown (  -1)"), who(None, None));
        assert_eq!(process(b"game.exe"), who(None, Some("game.exe")));
    }
}

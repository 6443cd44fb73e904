//! The values in an event's text.

use crate::numbers::{hexadecimal, signed};

/// Value of a key, up to the next key; both as `key=`. Names of threads may contain spaces.
pub(super) fn value<'a>(text: &'a [u8], key: &[u8], next: Option<&[u8]>) -> Option<&'a [u8]> {
    let start = place(text, key)? + key.len() + 1;
    let rest = text.get(start..)?;
    let end = match next {
        Some(next) => place(rest, next)?.checked_sub(1)?,
        None => rest.len(),
    };
    rest.get(..end)
}

/// Where `key=` begins a word.
fn place(text: &[u8], key: &[u8]) -> Option<usize> {
    let size = key.len() + 1;
    (0..text.len().checked_sub(size).map_or(0, |last| last + 1)).find(|at| {
        text[*at..].starts_with(key)
            && text[at + key.len()] == b'='
            && (*at == 0 || text[at - 1] == b' ')
    })
}

/// The number of a key.
pub(super) fn number(text: &[u8], key: &[u8]) -> Option<i64> {
    signed(first_word(value(text, key, None)?))
}

/// The hexadecimal number of a key.
pub(super) fn hex(text: &[u8], key: &[u8]) -> Option<i64> {
    hexadecimal(first_word(value(text, key, None)?))
}

fn first_word(bytes: &[u8]) -> &[u8] {
    bytes.split(u8::is_ascii_whitespace).next().unwrap_or_default()
}

/// The bit of a runnable thread that the kernel preempted, as it prints `+`.
pub(super) const PREEMPTED: i64 = 0x100;
/// Letters of the kernel's own text, by bit (`TASK_REPORT`).
const KERNEL: &[u8] = b"SDTtXZPI";
/// Letters of libtraceevent's text, by bit; it knows an older kernel's names for the same bits.
const PLUGIN: &[u8] = b"SDTtZXxW";

/// `prev_state` from its letters: `S`, `R+`, `D|K`.
fn state(letters: &[u8], names: &[u8]) -> Option<i64> {
    let (letters, preempted) = match letters.strip_suffix(b"+") {
        Some(letters) => (letters, PREEMPTED),
        None => (letters, 0),
    };
    if letters == b"R" {
        return Some(preempted);
    }
    let mut bits = preempted;
    for letter in letters.split(|byte| *byte == b'|') {
        let [letter] = letter else { return None };
        bits |= 1 << names.iter().position(|name| name == letter)?;
    }
    Some(bits)
}

/// More bytes than a thread id and a priority take.
const LONGEST_IDS: usize = 40;

/// A thread as libtraceevent prints it: `comm:tid [priority]`, and what follows.
pub(super) struct Printed<'a> {
    pub(super) comm: &'a [u8],
    pub(super) tid: i64,
    pub(super) priority: i64,
    pub(super) rest: &'a [u8],
}

impl<'a> Printed<'a> {
    pub(super) fn of(text: &'a [u8]) -> Option<Self> {
        // The name may contain colons and brackets: the first place where all parts fit counts.
        (0..text.len()).filter(|at| text[*at] == b':').find_map(|colon| {
            let behind = text.get(colon + 1..)?;
            let near = behind.get(..LONGEST_IDS.min(behind.len()))?;
            let open = near.iter().position(|byte| *byte == b'[')?;
            let close = near.iter().position(|byte| *byte == b']')?;
            Some(Self {
                comm: text.get(..colon)?,
                tid: signed(behind.get(..open)?)?,
                priority: signed(behind.get(open + 1..close)?)?,
                rest: behind.get(close + 1..)?.trim_ascii(),
            })
        })
    }
}

/// The fields of `sched_switch`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Switch<'a> {
    pub(super) prev: (&'a [u8], i64, i64),
    pub(super) state: i64,
    pub(super) next: (&'a [u8], i64, i64),
    /// The text distinguishes preempted threads.
    pub(super) has_plus: bool,
}

impl<'a> Switch<'a> {
    /// Reads either form.
    pub(super) fn of(text: &'a [u8]) -> Option<Self> {
        if let Some(comm) = value(text, b"prev_comm", Some(b"prev_pid")) {
            let arrow = b" ==> ";
            let at = text.windows(arrow.len()).position(|part| part == arrow)?;
            let (prev, next) = (text.get(..at)?, text.get(at + arrow.len()..)?);
            let letters = first_word(value(prev, b"prev_state", None)?);
            return Some(Self {
                prev: (comm, number(prev, b"prev_pid")?, number(prev, b"prev_prio")?),
                state: state(letters, KERNEL)?,
                next: (
                    value(next, b"next_comm", Some(b"next_pid"))?,
                    number(next, b"next_pid")?,
                    number(next, b"next_prio")?,
                ),
                has_plus: true,
            });
        }
        let prev = Printed::of(text)?;
        let letters = first_word(prev.rest);
        let next = prev.rest.get(letters.len()..)?.trim_ascii().strip_prefix(b"==>")?;
        let next = Printed::of(next.trim_ascii())?;
        Some(Self {
            prev: (prev.comm, prev.tid, prev.priority),
            state: state(letters, PLUGIN)?,
            next: (next.comm, next.tid, next.priority),
            has_plus: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_arrows_are_read() {
        let text = b"prev_comm=a b=1 prev_pid=7 prev_prio=120 prev_state=R+ ==> \
                     next_comm=x [2]:3 next_pid=8 next_prio=-1";
        assert_eq!(
            Switch::of(text),
            Some(Switch {
                prev: (b"a b=1", 7, 120),
                state: PREEMPTED,
                next: (b"x [2]:3", 8, -1),
                has_plus: true,
            })
        );
    }

    #[test]
    fn both_texts_of_a_state_are_the_same_bits() {
        assert_eq!((state(b"D|K", KERNEL), state(b"D|Z", KERNEL)), (None, Some(0x22)));
        assert_eq!((state(b"Z", PLUGIN), state(b"X", KERNEL)), (Some(0x10), Some(0x10)));
        let plugin = Switch::of(b"k:0/1:7 [120] S ==> swapper/0:0 [120]").expect("read");
        assert_eq!((plugin.prev, plugin.state), ((&b"k:0/1"[..], 7, 120), 1));
        assert_eq!((plugin.next, plugin.has_plus), ((&b"swapper/0"[..], 0, 120), false));
    }

    #[test]
    fn every_cut_is_refused_or_shorter() {
        let text = b"prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> \
                     next_comm=b next_pid=8 next_prio=120";
        for end in 0..text.len() - 3 {
            assert_eq!(Switch::of(&text[..end]), None, "{end}");
        }
    }
}

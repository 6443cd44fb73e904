//! A function as a reader of a stack wants to see it.

use std::fmt::{self, Write};

use cpp_demangle::DemangleOptions;
use msvc_demangler::DemangleFlags;

/// One function at an address; inlined functions are functions of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Demangled name.
    pub name: String,
    /// Source file, if debug information has it.
    pub file: Option<String>,
    /// Line of the address in that file.
    pub line: Option<u32>,
}

/// Names of Microsoft's mangling can stand for exponentially long ones. Longer names, and names that
/// refer back to their parts more often than any real one, are not demangled.
const LONGEST_MICROSOFT: usize = 1024;
const MOST_REFERENCES: usize = 32;

/// A longer name or path is cut: a few bytes of a crafted file can stand for gigabytes.
pub const LONGEST_NAME: usize = 1 << 12;

/// The name without its mangling; as it is if it has none. At most [`LONGEST_NAME`] bytes and the
/// sign `…`.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let mut text = Bounded::default();
        let whole = write!(text, "{rust:#}");
        return text.ended(whole);
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::BorrowedSymbol::new(name.as_bytes())
    {
        let mut text = Bounded::default();
        let whole = symbol.structured_demangle(&mut text, &DemangleOptions::default());
        if whole.is_ok() || text.is_full {
            return text.ended(whole);
        }
    }
    if name.starts_with('?') && name.len() <= LONGEST_MICROSOFT {
        let references = name.bytes().filter(u8::is_ascii_digit).count();
        if references <= MOST_REFERENCES
            && let Ok(text) = msvc_demangler::demangle(name, DemangleFlags::NAME_ONLY)
        {
            return cut(&text);
        }
    }
    cut(name)
}

/// At most [`LONGEST_NAME`] bytes; the sign `…` stands for the rest.
pub(crate) fn cut(name: &str) -> String {
    let mut text = Bounded::default();
    let whole = text.write_str(name);
    text.ended(whole)
}

/// A text that refuses what would make it too long, so that its writer ends.
#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let left = LONGEST_NAME - self.text.len();
        let end = (0..=left.min(part.len())).rev().find(|end| part.is_char_boundary(*end));
        let end = end.unwrap_or_default();
        self.text.push_str(part.get(..end).unwrap_or_default());
        self.is_full = end < part.len();
        if self.is_full { Err(fmt::Error) } else { Ok(()) }
    }
}

impl Bounded {
    fn ended(mut self, whole: fmt::Result) -> String {
        if whole.is_err() {
            self.text.push('…');
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_and_cpp_are_demangled_and_others_kept() {
        let cases = [
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN8JobQueue3popEv", "JobQueue::pop()"),
            ("_Znotmangled", "_Znotmangled"),
            ("?pop@JobQueue@game@@QEAAHXZ", "game::JobQueue::pop"),
            ("??1?$Pool@H@game@@QEAA@XZ", "game::Pool<int>::~Pool<int>"),
            ("?notmangled", "?notmangled"),
            ("nanosleep", "nanosleep"),
        ];
        for (mangled, plain) in cases {
            assert_eq!(demangled(mangled), plain);
        }
    }

    #[test]
    fn names_that_stand_for_much_longer_ones_are_cut() {
        // f(A, P<A, A>, P<P<A, A>, P<A, A>>, ...): each argument is twice the one before.
        let mut doubled = "1A1PIS_S_E".to_owned();
        for level in "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".chars() {
            doubled.push_str(&format!("S0_IS{level}_S{level}_E"));
        }
        let doubled = format!("_Z1f{doubled}");
        assert!(demangled(&doubled).starts_with("f(A, P<A, A>, P<P<A, A>, P<A, A> >"));
        for name in [doubled, "x".repeat(1 << 20), "é".repeat(1 << 20)] {
            let text = demangled(&name);
            assert!(text.len() <= LONGEST_NAME + '…'.len_utf8(), "{}", text.len());
            assert!(text.ends_with('…'));
        }
        assert_eq!(cut(&"x".repeat(LONGEST_NAME)).len(), LONGEST_NAME);
    }
}

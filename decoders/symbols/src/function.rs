//! A function as a reader of a stack wants to see it.

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

/// The name without its mangling; as it is if it has none.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::BorrowedSymbol::new(name.as_bytes())
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    if name.starts_with('?') && name.len() <= LONGEST_MICROSOFT {
        let references = name.bytes().filter(u8::is_ascii_digit).count();
        if references <= MOST_REFERENCES
            && let Ok(text) = msvc_demangler::demangle(name, DemangleFlags::NAME_ONLY)
        {
            return text;
        }
    }
    name.to_owned()
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
}

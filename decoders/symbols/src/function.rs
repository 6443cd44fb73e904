//! A function as a reader of a stack wants to see it.

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
            ("nanosleep", "nanosleep"),
        ];
        for (mangled, plain) in cases {
            assert_eq!(demangled(mangled), plain);
        }
    }
}

//! The files and other places that contain code.

use std::collections::HashMap;
use std::sync::Arc;

use schedlens_etl::facts::images::Image;

/// What contains code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A file; addresses are offsets in it.
    File {
        /// Its path as recorded.
        path: String,
        /// Its build id, if recorded.
        build_id: Option<Vec<u8>>,
    },
    /// A file of Windows; addresses are offsets from where it was loaded.
    Image {
        /// The file.
        image: Image,
        /// It was loaded into the kernel.
        is_kernel: bool,
    },
    /// The kernel with its modules.
    Kernel,
    /// Memory of a process without a file, such as the code of a just-in-time compiler.
    Anonymous {
        /// The process.
        pid: i32,
    },
    /// Code that a just-in-time compiler made for one function.
    Method {
        /// The function.
        method: Arc<Method>,
        /// The file in whose memory it is, if any.
        file: Option<Arc<str>>,
    },
    /// `[vdso]`, `[vsyscall]`: code that the kernel maps into each process.
    Special(String),
    /// No mapping of that address was recorded.
    Unknown {
        /// The process.
        pid: i32,
    },
}

/// A function that a just-in-time compiler made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Method {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// Address, file and line of parts of it, by address.
    pub(crate) lines: Vec<(u64, Arc<str>, u32)>,
}

impl Kind {
    /// Whether its code is the kernel's.
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self, Self::Kernel | Self::Image { is_kernel: true, .. })
    }

    /// Of a mapping, by its name.
    pub(crate) fn of(pid: i32, name: &str, build_id: Option<Vec<u8>>) -> Self {
        let is_anonymous = name.is_empty()
            || name == "//anon"
            || name.starts_with("[anon")
            || name.starts_with("[heap]")
            || name.starts_with("[stack")
            || name.starts_with("/dev/zero")
            || name.starts_with("/SYSV")
            || name.starts_with("/memfd:");
        if is_anonymous && build_id.is_none() {
            Self::Anonymous { pid }
        } else if name.starts_with('[') {
            Self::Special(name.to_owned())
        } else {
            Self::File { path: name.to_owned(), build_id }
        }
    }
}

/// All kinds, numbered by first appearance.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) kinds: Vec<Kind>,
    numbers: HashMap<Kind, u32>,
}

impl Modules {
    pub(crate) fn number(&mut self, kind: Kind) -> u32 {
        if let Some(number) = self.numbers.get(&kind) {
            return *number;
        }
        let number = self.kinds.len() as u32;
        self.kinds.push(kind.clone());
        self.numbers.insert(kind, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mappings_say_what_they_are() {
        let of = |name: &str| Kind::of(3, name, None);
        assert_eq!(of("//anon"), Kind::Anonymous { pid: 3 });
        assert_eq!(of("/memfd:doublemapper (deleted)"), Kind::Anonymous { pid: 3 });
        assert_eq!(of("[vdso]"), Kind::Special("[vdso]".to_owned()));
        let file = Kind::File { path: "/usr/bin/x".to_owned(), build_id: None };
        assert_eq!(of("/usr/bin/x"), file);
    }
}

//! Names of the files that events name by the address of an object.

use std::collections::HashMap;
use std::sync::Arc;

use crate::facts::survey::class_hook;
use crate::guid::Guid;
use crate::payload::known;
use crate::records::{Id, Kind, Record};

/// Hooks of names: a file is created, deleted, or listed at the end.
pub(crate) const HOOKS: [u16; 3] = [CREATE, 0x0423, 0x0424];
const CREATE: u16 = 0x0420;
/// The kernel's class of files, for records with a classic header.
pub(crate) const FILE_IO: Guid = Guid::from_text_order(0x90cbdc39_4a3e_11d1_84f4_0000f80464e3);
/// More names than this are not kept.
const MOST: usize = 1 << 20;

/// A moment at which an address begins or ceases to stand for a file.
#[derive(Clone, Debug)]
struct Naming {
    ts: i64,
    is_create: bool,
    name: Arc<str>,
}

/// All names of files.
#[derive(Debug, Default)]
pub struct Files {
    by_object: HashMap<u64, Vec<Naming>>,
    count: usize,
    /// Names that were left out.
    pub left_out: i64,
}

impl Files {
    /// Reads a record; `false` if it does not name a file.
    pub(crate) fn take(&mut self, record: &Record<'_>) -> bool {
        let hook = match record.id {
            Id::Hook(hook) => hook,
            _ => class_hook(&record.id).unwrap_or_default(),
        };
        if !HOOKS.contains(&hook) {
            return false;
        }
        let read = if record.kind == Kind::Full { known::foreign_hook } else { known::hook };
        let found = read(hook, record.version, record.payload, record.pointer.size());
        let Some((_, fields)) = found else { return true };
        let name = fields.text("FileName").filter(|name| !name.is_empty());
        let (Some(object), Some(name)) = (fields.number("FileObject"), name) else { return true };
        if self.count >= MOST {
            self.left_out += 1;
            return true;
        }
        self.count += 1;
        let naming = Naming { ts: record.ts, is_create: hook == CREATE, name: name.into() };
        self.by_object.entry(object).or_default().push(naming);
        true
    }

    /// Call this after the last record, with what makes ns of raw times and paths of names.
    pub(crate) fn finish(&mut self, ns: impl Fn(i64) -> i64, path: impl Fn(&str) -> Arc<str>) {
        for found in self.by_object.values_mut() {
            found.sort_by_key(|naming| naming.ts);
            for naming in found {
                (naming.ts, naming.name) = (ns(naming.ts), path(&naming.name));
            }
        }
    }

    /// The file that an object stands for at a time in ns: the one it was last created for, else the
    /// one it is next deleted or listed as.
    pub fn name(&self, object: u64, ts: i64) -> Option<&Arc<str>> {
        let found = self.by_object.get(&object)?;
        let after = found.partition_point(|naming| naming.ts <= ts);
        let last = after.checked_sub(1).and_then(|last| found.get(last));
        let next = found.get(after).filter(|naming| !naming.is_create);
        last.filter(|naming| naming.is_create).or(next).map(|naming| &naming.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // object 1: deleted as a at 10, created as b at 20; object 2: listed as c at 30;
    // object 3: created as d at 5
    #[test]
    fn an_object_stands_for_the_file_of_that_time() {
        let mut files = Files::default();
        for (object, ts, is_create, name) in [
            (1, 20, true, r"\Device\b"),
            (1, 10, false, r"\Device\a"),
            (2, 30, false, r"\Device\c"),
            (3, 5, true, r"\Device\d"),
        ] {
            let naming = Naming { ts, is_create, name: name.into() };
            files.by_object.entry(object).or_default().push(naming);
        }
        files.finish(|raw| raw, |name| name.replace(r"\Device", "C:").into());
        let cases = [
            (1, 9, Some(r"C:\a")),
            (1, 10, None),
            (1, 19, None),
            (1, 20, Some(r"C:\b")),
            (2, 0, Some(r"C:\c")),
            (2, 30, None),
            (3, 4, None),
            (3, 99, Some(r"C:\d")),
            (4, 1, None),
        ];
        for (object, ts, expected) in cases {
            assert_eq!(files.name(object, ts).map(|name| &**name), expected, "{object} at {ts}");
        }
    }
}

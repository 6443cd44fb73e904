//! Unwinders of the processes of a recording, built when one is needed.

use std::collections::HashMap;
use std::fmt;

use schedlens_symbols::unwind::{Architecture, Tables, Unwinder};
use schedlens_symbols::{Image, Places};

use super::UserPart;
use super::modules::Kind;
use super::spaces::Spaces;

/// The tables of a file and how it turns offsets into its own addresses.
struct File {
    tables: Tables,
    image: Option<Image>,
}

/// Unwinders by process.
pub(crate) struct Unwinding {
    architecture: Architecture,
    places: Places,
    files: HashMap<u32, File>,
    by_pid: HashMap<i32, (u64, Unwinder)>,
}

impl fmt::Debug for Unwinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwinding")
            .field("architecture", &self.architecture)
            .finish_non_exhaustive()
    }
}

impl Unwinding {
    pub(crate) fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            places: Places::of_this_machine(),
            files: HashMap::new(),
            by_pid: HashMap::new(),
        }
    }

    /// Adds the addresses of a thread's user part; returns whether the outermost one was reached.
    pub(crate) fn unwind(
        &mut self,
        spaces: &mut Spaces,
        pid: i32,
        user: &UserPart<'_>,
        into: &mut Vec<u64>,
    ) -> bool {
        let version = spaces.files(pid);
        if self.by_pid.get(&pid).is_none_or(|(known, _)| *known != version) {
            let unwinder = self.of_process(spaces, pid);
            self.by_pid.insert(pid, (version, unwinder));
        }
        match self.by_pid.get_mut(&pid) {
            Some((_, unwinder)) => unwinder.unwind(user.registers, user.stack, into),
            None => false,
        }
    }

    fn of_process(&mut self, spaces: &Spaces, pid: i32) -> Unwinder {
        let mut unwinder = Unwinder::new(self.architecture);
        for (start, mapped) in spaces.maps(pid).into_iter().flatten() {
            let Some(Kind::File { path, build_id }) =
                spaces.modules.kinds.get(mapped.module as usize)
            else {
                continue;
            };
            let places = &self.places;
            let file = self.files.entry(mapped.module).or_insert_with(|| {
                let place = places.file(path);
                match Image::of_build(&place, build_id.as_deref(), places) {
                    Ok((image, place)) => File { tables: Tables::of(&place), image: Some(image) },
                    Err(_) => File { tables: Tables::default(), image: None },
                }
            });
            let offset = start.wrapping_sub(mapped.shift);
            let length = mapped.end.saturating_sub(*start);
            let address =
                file.image.as_ref().and_then(|image| image.address_of_mapping(offset, length));
            if let Some(address) = address {
                let bias = start.wrapping_sub(address);
                unwinder.add(path, *start..mapped.end, bias, &file.tables);
            }
        }
        unwinder
    }
}

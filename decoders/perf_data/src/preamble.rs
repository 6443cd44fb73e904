//! What perf records before it enables the events: that threads and mappings appear, of which one
//! event of its own keeps track. Who runs then is not recorded, so it is not part of the recording.

use crate::attrs::Attr;
use crate::ids::Events;
use crate::index::Index;
use crate::record::{self, Record};
use crate::streams::{Span, place};

/// Whether a record shows that the events were enabled; `on_exec`: they are when a program starts.
fn shows_recording(found: &Record<'_>, on_exec: bool) -> bool {
    let starts_program =
        found.kind == record::COMM && found.misc & record::MISC_COMM_EXEC != 0 && on_exec;
    starts_program
        || matches!(found.kind, record::SAMPLE | record::SWITCH | record::SWITCH_CPU_WIDE)
}

impl Index {
    /// Lets the recording start at its first sample or switch, if it has any, or at the start of the
    /// program for which its events waited.
    pub(crate) fn start_at_first_event<'a>(
        &mut self,
        events: &Events,
        data: impl Fn(u32) -> &'a [u8],
    ) {
        let on_exec = events.attrs.iter().any(Attr::is_enabled_on_exec);
        let first_of = |span: &Span| {
            let bytes = data(span.segment).get(..span.end as usize).unwrap_or_default();
            let mut position = span.start as usize;
            while let Some(found) = record::at(bytes, position) {
                if shows_recording(&found, on_exec) {
                    return place(events, &found).map(|placed| placed.ts);
                }
                position += found.length;
            }
            None
        };
        // The records of a lane are in time order.
        let lanes = self.lanes.iter().filter_map(|lane| lane.spans.iter().find_map(first_of));
        let strays = self.cpus.iter().flat_map(|cpu| &cpu.strays);
        let strays = strays.filter_map(|(_, span)| first_of(span));
        if let Some(first) = lanes.chain(strays).min() {
            self.first = Some(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE_TIME: u64 = 1 << 2;
    const SAMPLE_CPU: u64 = 1 << 7;
    const ENABLE_ON_EXEC: u64 = 1 << 12;
    const SAMPLE_ID_ALL: u64 = 1 << 18;

    /// An event whose records end with a time and a CPU; those of samples begin with them.
    fn events(flags: u64) -> Events {
        let mut attr = vec![0; 128];
        attr[24..32].copy_from_slice(&(SAMPLE_TIME | SAMPLE_CPU).to_le_bytes());
        attr[40..48].copy_from_slice(&(SAMPLE_ID_ALL | flags).to_le_bytes());
        Events::new(vec![Attr::read(&attr).expect("an event")]).expect("times")
    }

    /// The first time of a recording of such records: kind, time and CPU.
    fn first(records: &[(u32, u64, u64)]) -> Option<u64> {
        first_with(0, 0, records)
    }

    fn first_with(flags: u64, misc: u16, records: &[(u32, u64, u64)]) -> Option<u64> {
        let mut data = Vec::new();
        for (kind, ts, cpu) in records {
            data.extend(kind.to_le_bytes());
            data.extend(misc.to_le_bytes());
            data.extend([24, 0]);
            data.extend(ts.to_le_bytes());
            data.extend(cpu.to_le_bytes());
        }
        let mut index = Index::default();
        let mut problems = schedlens_input::problem::Problems::default();
        let no_file = schedlens_input::files::Mapped::Memory(Vec::new());
        let pages = schedlens_input::files::Pages::new(&no_file);
        index.add(&events(flags), (0, "data", &data), (0, pages), &mut problems, |_, _| {});
        index.start_at_first_event(&events(flags), |_| &data);
        index.first
    }

    #[test]
    fn a_recording_starts_at_its_first_sample_or_switch() {
        use record::{COMM, EXIT, FORK, LOST, SAMPLE, SWITCH, SWITCH_CPU_WIDE};
        for kind in [SAMPLE, SWITCH, SWITCH_CPU_WIDE] {
            let records = [(FORK, 100, 0), (COMM, 120, 1), (kind, 200, 0), (SAMPLE, 300, 1)];
            assert_eq!(first(&records), Some(200));
        }
        // The CPU that is first in the file need not be the first in time.
        let records = [(COMM, 100, 0), (SAMPLE, 300, 0), (EXIT, 150, 1), (SAMPLE, 250, 1)];
        assert_eq!(first(&records), Some(250));
        assert_eq!(first(&[(FORK, 100, 0), (LOST, 150, 0), (SAMPLE, 200, 0)]), Some(200));
        assert_eq!(first(&[(FORK, 100, 0), (COMM, 120, 1)]), Some(100));
        assert_eq!(first(&[]), None);
    }

    #[test]
    fn events_that_wait_for_a_program_are_enabled_when_it_starts() {
        use record::{COMM, FORK, MISC_COMM_EXEC, SAMPLE};
        let records = [(FORK, 100, 0), (COMM, 120, 1), (SAMPLE, 200, 0)];
        assert_eq!(first_with(ENABLE_ON_EXEC, MISC_COMM_EXEC, &records), Some(120));
        // A name that a thread gives itself, and a program that starts while all are recorded.
        assert_eq!(first_with(ENABLE_ON_EXEC, 0, &records), Some(200));
        assert_eq!(first_with(0, MISC_COMM_EXEC, &records), Some(200));
    }
}

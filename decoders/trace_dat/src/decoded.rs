//! Every record of a recording with its fields by name.

use schedlens_input::event::{Event, Wanted};
use schedlens_tracepoints::fields;

use crate::error::Error;
use crate::merge::{Merge, Merged, Scope};
use crate::recording::Recording;

impl Recording {
    /// Passes the wanted records of all buffers in time order to `each`, until it returns false.
    ///
    /// # Errors
    /// The operating system returned an error.
    pub fn events(
        &self,
        wanted: &Wanted,
        mut each: impl FnMut(Event) -> bool,
    ) -> Result<(), Error> {
        let mut merge = Merge::new(self, Scope::All)?;
        let start = self.first.unwrap_or_default();
        while let Some(merged) = merge.peek() {
            let ts_ns = merged.ts.wrapping_sub(start).cast_signed();
            if wanted.is_over(ts_ns) {
                break;
            }
            if wanted.has_time(ts_ns)
                && let Some(event) = self.event(&merged, ts_ns, wanted)
                && !each(event)
            {
                break;
            }
            merge.advance();
        }
        Ok(())
    }

    fn event(&self, merged: &Merged<'_>, ts_ns: i64, wanted: &Wanted) -> Option<Event> {
        let format = self.formats.get(merged.event)?;
        let id = format.id.to_string();
        if !wanted.has_provider(&format.system) || !wanted.has_name(&format.name, &id) {
            return None;
        }
        let tid = self.events.get(merged.event).and_then(|event| event.common.current(merged.raw));
        Some(Event {
            ts_ns,
            clock: merged.ts.cast_signed(),
            cpu: Some(merged.cpu.into()),
            pid: None,
            tid: tid.map(i64::from),
            provider: format.system.clone(),
            name: format.name.clone(),
            layout: None,
            id,
            version: None,
            pointer: None,
            fields: fields::own(format, merged.raw),
            place: None,
        })
    }
}

//! The events that are read.

use schedlens_tracepoints::events::{Event, Family};

/// No slot: an event that schedules do not consist of.
pub(crate) const NO_SLOT: u8 = u8::MAX;

/// The events that schedules consist of. There are few, so that each lane can count them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// The number of the event in each slot.
    pub(crate) events: Vec<u16>,
    /// The slot for each id in records.
    pub(crate) by_id: Vec<u8>,
}

impl Slots {
    /// `ids` has the number of the event for each id in records. A second event of the same name
    /// is damage and is not read.
    pub(crate) fn new(events: &[Event], ids: &[u16]) -> Self {
        let mut slots = Self { events: Vec::new(), by_id: vec![NO_SLOT; ids.len()] };
        for (id, number) in ids.iter().enumerate() {
            let Some(event) = events.get(usize::from(*number)) else { continue };
            let is_known =
                || slots.events.iter().any(|other| events[usize::from(*other)].name == event.name);
            if matches!(event.family, Family::Other)
                || slots.events.len() >= usize::from(NO_SLOT)
                || is_known()
            {
                continue;
            }
            slots.by_id[id] = slots.events.len() as u8;
            slots.events.push(*number);
        }
        slots
    }
}

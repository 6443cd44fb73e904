//! What a scrubbed log keeps of a record.
//!
//! Nothing is kept for lack of a rule: a payload without a described layout is left out, and so are
//! records that only name a program, such as those of other providers.

use crate::facts::survey::{METADATA, METADATA_EVENT, class_hook};
use crate::guid::Guid;
use crate::payload::known;
use crate::payload::layout::{Layout, Rename};
use crate::payload::providers::{
    self, D3D9, DXGI, DXGKRNL, KERNEL_POWER, KERNEL_PROCESS, PROCESSOR_POWER,
};
use crate::payload::reader::Reader;
use crate::records::{Id, Kind, Record};

/// What is kept of a payload.
#[derive(Clone, Copy)]
pub(super) enum Kept {
    /// All of it: numbers only.
    All,
    /// What this layout describes, with other names.
    Described(&'static Layout),
    /// Nothing; that the event occurred is kept.
    Nothing,
}

const PROVIDERS: [Guid; 6] = [PROCESSOR_POWER, KERNEL_POWER, KERNEL_PROCESS, DXGI, D3D9, DXGKRNL];
/// Groups of TCP/IP and UDP: whom the machine talks to.
const NETWORK: [u16; 2] = [0x06, 0x08];
/// Group of the machine's description, with its names, disks and network cards.
const MACHINE: u16 = 0x0b;
/// What schedlens reads of it: processors, nodes, groups, code integrity, virtualization.
const PROCESSORS: [u16; 7] = [0x0b0a, 0x0b18, 0x0b1a, 0x0b1b, 0x0b1d, 0x0b23, 0x0b24];
/// The longest of CSwitch and ReadyThread.
const LONGEST_SWITCH: usize = 64;

/// What is kept of a record; `None`: the record is left out.
pub(super) fn of(record: &Record<'_>) -> Option<Kept> {
    match record.id {
        Id::Hook(hook) => Some(of_hook(hook, record)),
        Id::Event { provider, id, .. } if PROVIDERS.contains(&provider) => {
            let layout = providers::layout_of((provider, id, record.version));
            Some(layout.map_or(Kept::Nothing, |(_, layout)| Kept::Described(layout)))
        }
        Id::Classic { class: METADATA, opcode: METADATA_EVENT } => {
            // The layout of an event of these providers, as Windows describes it.
            Guid::at(record.payload, 0).filter(|p| PROVIDERS.contains(p)).map(|_| Kept::All)
        }
        Id::Classic { .. } if record.kind == Kind::Full => {
            let hook = class_hook(&record.id)?;
            Some(match of_hook(hook, record) {
                // A program wrote it, perhaps not as described.
                Kept::Described(layout) if layout.has_words() => Kept::Nothing,
                kept => kept,
            })
        }
        _ => None,
    }
}

fn of_hook(hook: u16, record: &Record<'_>) -> Kept {
    let group = hook >> 8;
    match hook {
        0x0524 | 0x0532 if record.payload.len() <= LONGEST_SWITCH => Kept::All,
        // The header is not repeated.
        0x0000 | 0x0524 | 0x0532 => Kept::Nothing,
        _ if NETWORK.contains(&group) => Kept::Nothing,
        _ if group == MACHINE && !PROCESSORS.contains(&hook) => Kept::Nothing,
        _ => known::layout_of(hook, record.version)
            .map_or(Kept::Nothing, |(_, layout)| Kept::Described(layout)),
    }
}

/// The payload as kept.
pub(super) fn payload(kept: Kept, record: &Record<'_>, rename: &mut Rename<'_>) -> Vec<u8> {
    match kept {
        Kept::All => record.payload.to_vec(),
        Kept::Described(layout) => {
            layout.rewritten(Reader::new(record.payload, record.pointer.size()), rename)
        }
        Kept::Nothing => Vec::new(),
    }
}

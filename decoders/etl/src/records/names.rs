//! What identifies a record: its header kind, event and position.

use std::fmt;

use crate::guid::Guid;

/// The header kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `SYSTEM_TRACE_HEADER`.
    System,
    /// `SYSTEM_TRACE_HEADER` without the two times.
    Compact,
    /// `PERFINFO_TRACE_HEADER`: without process and thread.
    PerfInfo,
    /// `EVENT_TRACE_HEADER`: a classic event.
    Full,
    /// `EVENT_INSTANCE_GUID_HEADER`: a classic event of an instance.
    Instance,
    /// `EVENT_HEADER`: manifest events and TraceLogging.
    Event,
    /// `MESSAGE_TRACE_HEADER`: WPP.
    Message,
    /// `TRACE_HEADER_TYPE_ERROR`.
    Error,
    /// `TIMED_TRACE_HEADER`.
    Timed,
}

/// Width of the pointers in a payload, from the record's own marker rather than the file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pointer {
    /// Four bytes.
    Four,
    /// Eight bytes.
    Eight,
}

impl Pointer {
    /// Its size in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// The event of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// `HookId`: group in the high byte, opcode in the low one.
    Hook(u16),
    /// A classic event; the kernel's classes mean the same as its hooks.
    Classic {
        /// Event class.
        class: Guid,
        /// Its opcode.
        opcode: u8,
    },
    /// `EVENT_DESCRIPTOR`.
    Event {
        /// Provider.
        provider: Guid,
        /// Number of the event.
        id: u16,
        /// Its opcode.
        opcode: u8,
        /// Its task.
        task: u16,
        /// Its keywords.
        keyword: u64,
    },
    /// A WPP message.
    Message {
        /// GUID of the source file, if the message carries it.
        class: Option<Guid>,
        /// Number of the message.
        number: u16,
    },
    /// Unnamed.
    None,
}

/// The position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the file among those of the recording.
    pub file: u16,
    /// Number of the buffer in that file, from 0.
    pub buffer: u32,
    /// Offset in the unpacked buffer, its header included.
    pub at: u32,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hook(hook) => write!(f, "{hook:04x}"),
            Self::Classic { class, opcode } => write!(f, "{class} op{opcode}"),
            Self::Event { provider, id, .. } => write!(f, "{provider} id{id}"),
            Self::Message { number, .. } => write!(f, "message {number}"),
            Self::None => write!(f, "none"),
        }
    }
}

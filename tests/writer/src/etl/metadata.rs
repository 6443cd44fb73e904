//! What a merge embeds so that manifest events are read anywhere: one TRACE_EVENT_INFO a schema.

use super::record::Descriptor;
use crate::bytes::{Bytes, Guid, guid};
use crate::error::WriteError;

/// Class of the records (EventMetadata), and the opcode of those with a TRACE_EVENT_INFO.
pub(super) const CLASS: &str = "bbccf6c1-6cd1-48c4-80ff-839482e37671";
pub(super) const EVENT_INFO: u8 = 32;

/// Type of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    U8,
    U16,
    U32,
    U64,
    Bool,
    Pointer,
}

impl Kind {
    /// `TDH_INTYPE_*`, `TDH_OUTTYPE_*` and the length in bytes.
    fn types(self) -> (u16, u16, u16) {
        match self {
            Self::U8 => (4, 3, 1),
            Self::U16 => (6, 6, 2),
            Self::U32 => (8, 8, 4),
            Self::U64 => (10, 10, 8),
            Self::Bool => (13, 13, 4),
            Self::Pointer => (16, 16, 0),
        }
    }
}

/// Name and type of a field.
pub(super) type Field = (&'static str, Kind);

/// A manifest event with its fields in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    pub(super) provider: &'static str,
    pub(super) provider_name: &'static str,
    pub(super) descriptor: Descriptor,
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

impl Schema {
    /// The provider's GUID.
    pub(super) fn provider(&self) -> Result<Guid, WriteError> {
        known(self.provider)
    }

    /// Identity of a schema.
    pub(super) fn key(&self) -> (&'static str, u16, u8) {
        (self.provider, self.descriptor.id, self.descriptor.version)
    }
}

/// A GUID that is written in this program.
pub(super) fn known(text: &str) -> Result<Guid, WriteError> {
    guid(text).ok_or_else(|| WriteError::Value(format!("{text} is not a GUID")))
}

const FIXED: usize = 112;
const PROPERTY: usize = 24;

/// `TRACE_EVENT_INFO` of a schema.
pub(super) fn event_info(schema: &Schema) -> Result<Vec<u8>, WriteError> {
    let mut texts = Bytes::new();
    let texts_at = FIXED + PROPERTY * schema.fields.len();
    let mut text = |text: &str| {
        let at = (texts_at + texts.0.len()) as u32;
        texts.utf16z(text);
        at
    };
    let (provider_name, task_name) = (text(schema.provider_name), text(schema.name));
    let names: Vec<u32> = schema.fields.iter().map(|(name, _)| text(name)).collect();
    let mut out = Bytes::new();
    out.raw(&schema.provider()?).zeros(16);
    schema.descriptor.write(&mut out);
    // DecodingSourceXMLFile; then the offsets of texts, 0 where there is none.
    out.u32(0).u32(provider_name).u32(0).u32(0).u32(0).u32(task_name).u32(0).u32(0).u32(0);
    out.zeros(16);
    out.u32(schema.fields.len() as u32).u32(schema.fields.len() as u32).u32(0);
    for ((_, kind), name) in schema.fields.iter().zip(names) {
        let (in_type, out_type, length) = kind.types();
        out.u32(0).u32(name).u16(in_type).u16(out_type).u32(0).u16(1).u16(length).u32(0);
    }
    debug_assert_eq!(out.0.len(), texts_at);
    out.raw(&texts.0);
    Ok(out.0)
}

//! Writes traces in Perfetto's format: scheduling events in compact ftrace bundles, thread states,
//! and slices on tracks of their own.
//!
//! Each writer turns rows into bytes of whole `TracePacket`s; the bytes of all of them, one after
//! the other, are a trace. docs/perfetto.md says which rows become which packets and why.

pub mod bundle;
pub mod message;
pub mod schedule;
pub mod thread_states;
pub mod track_slices;

/// `TracePacket.trusted_packet_sequence_id` of the scheduling events.
pub const SCHEDULE_SEQUENCE: u64 = 1;
/// `TracePacket.trusted_packet_sequence_id` of everything else.
pub const TRACK_SEQUENCE: u64 = 2;

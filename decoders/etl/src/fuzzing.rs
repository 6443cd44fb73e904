//! Internal readers, for the fuzz targets.

use crate::compression::Unpacker;
use crate::facts::survey::winsat_xml;
use crate::guid::Guid;
use crate::payload::schema::Schema;
use crate::payload::value::Fields;
use crate::payload::{manifest, tracelogging, winsat};
use crate::{Log, Packing};

/// Unpacks one buffer with an unpacker that has unpacked others; returns its bytes and whether they
/// are complete.
pub fn unpack(packing: Packing, before: &[&[u8]], packed: &[u8], want: usize) -> (Vec<u8>, bool) {
    let (mut unpacker, mut out) = (Unpacker::default(), Vec::new());
    for other in before {
        unpacker.unpack(packing, other, want, &mut out);
    }
    let whole = unpacker.unpack(packing, packed, want, &mut out);
    (out, whole)
}

/// Reads the manifest of an EventSource, and a payload with each of its events.
pub fn manifest(xml: &str, provider: Guid, payload: &[u8]) -> usize {
    let found = manifest::schemas(xml, provider, 64).unwrap_or_default();
    for schema in &found {
        schema.title();
        schema.fields(payload, 8).json();
    }
    found.len()
}

/// Reads a `TRACE_EVENT_INFO`, and a payload with it.
pub fn event_info(info: &[u8], payload: &[u8], pointer: usize) -> Option<Fields> {
    let schema = Schema::read(info)?;
    schema.title();
    Some(schema.fields(payload, pointer))
}

/// Reads the metadata of a TraceLogging event, and a payload with it.
pub fn tracelogging(metadata: &[u8], payload: &[u8], pointer: usize) -> Option<Fields> {
    tracelogging::provider(metadata);
    tracelogging::name(metadata).map(tracelogging::text);
    tracelogging::read(metadata, payload, pointer).map(|(_, fields)| fields)
}

/// Reads the payload of WinSAT's record; returns the number of cores.
pub fn winsat_record(payload: &[u8]) -> usize {
    winsat_xml(payload).map_or(0, |xml| winsat(&xml))
}

/// Reads the XML in which WinSAT describes the processors; returns the number of cores.
pub fn winsat(xml: &str) -> usize {
    winsat::Processors::read(xml).cores.len()
}

/// Reads every record of a log in time order; returns their number.
pub fn records(log: Log) -> u64 {
    let chosen = crate::Chosen::all();
    let scan = log.scan(&chosen, |_| {}, |_| true);
    let mut merge = scan.merge(&chosen);
    let mut count = 0;
    while merge.next_record().is_some() {
        count += 1;
    }
    count
}

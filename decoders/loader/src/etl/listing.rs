//! Every record of a log as a row, to examine the container itself.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Int64Builder, StringDictionaryBuilder, UInt16Builder, UInt32Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use schedlens_etl::Log;
use schedlens_etl::facts::names::event_name;
use schedlens_etl::passes::chosen::Chosen;
use schedlens_etl::passes::counts::Event;
use schedlens_etl::records::{Kind, Record};

use crate::error::DecodeError;

#[derive(Default)]
struct Columns {
    file: UInt16Builder,
    buffer: UInt32Builder,
    at: UInt32Builder,
    size: UInt32Builder,
    kind: StringDictionaryBuilder<Int32Type>,
    pointer: UInt16Builder,
    cpu: UInt16Builder,
    ts: Int64Builder,
    ns: Int64Builder,
    pid: UInt32Builder,
    tid: UInt32Builder,
    event: StringDictionaryBuilder<Int32Type>,
    version: UInt16Builder,
    counters: BinaryBuilder,
    items: UInt32Builder,
    payload: BinaryBuilder,
}

impl Columns {
    fn add(&mut self, record: &Record<'_>, ns: i64) {
        self.file.append_value(record.place.file);
        self.buffer.append_value(record.place.buffer);
        self.at.append_value(record.place.at);
        self.size.append_value(record.size);
        self.kind.append_value(kind_name(record.kind));
        self.pointer.append_value(record.pointer.size() as u16);
        self.cpu.append_option(record.cpu);
        self.ts.append_value(record.ts);
        self.ns.append_value(ns);
        self.pid.append_option(record.pid);
        self.tid.append_option(record.tid);
        self.event.append_value(event_name(Event::of(&record.id)));
        self.version.append_value(u16::from(record.version));
        self.counters.append_value(record.counters);
        self.items.append_value(record.extended.count() as u32);
        self.payload.append_value(record.payload);
    }

    fn finish(mut self) -> Result<RecordBatch, DecodeError> {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("file", Arc::new(self.file.finish())),
            ("buffer", Arc::new(self.buffer.finish())),
            ("at", Arc::new(self.at.finish())),
            ("size", Arc::new(self.size.finish())),
            ("kind", Arc::new(self.kind.finish())),
            ("pointer", Arc::new(self.pointer.finish())),
            ("cpu", Arc::new(self.cpu.finish())),
            ("ts", Arc::new(self.ts.finish())),
            ("ns", Arc::new(self.ns.finish())),
            ("pid", Arc::new(self.pid.finish())),
            ("tid", Arc::new(self.tid.finish())),
            ("event", Arc::new(self.event.finish())),
            ("version", Arc::new(self.version.finish())),
            ("counters", Arc::new(self.counters.finish())),
            ("items", Arc::new(self.items.finish())),
            ("payload", Arc::new(self.payload.finish())),
        ];
        RecordBatch::try_from_iter(columns)
            .map_err(|error| DecodeError::Internal { what: error.to_string() })
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::System => "system",
        Kind::Compact => "compact",
        Kind::PerfInfo => "perfinfo",
        Kind::Full => "full",
        Kind::Instance => "instance",
        Kind::Event => "event",
        Kind::Message => "message",
        Kind::Error => "error",
        Kind::Timed => "timed",
    }
}

/// One row per record, in time order or file order.
///
/// `at` is the record's offset in its unpacked buffer, `size` its bytes without padding, `ts` its raw
/// time, `ns` its time from ns 0, `items` the number of its extended items.
///
/// # Errors
/// The log has more records than an Arrow array can contain.
pub fn listing(log: Log, by_time: bool) -> Result<RecordBatch, DecodeError> {
    let clock = log.clock();
    let mut columns = Columns::default();
    if by_time {
        let all = Chosen::all();
        let scan = log.scan(&Chosen::none(), |_| {}, |_| true);
        let mut merge = scan.merge(&all);
        while let Some(record) = merge.next_record() {
            columns.add(&record, clock.ns(record.ts));
        }
    } else {
        log.scan(&Chosen::all(), |record| columns.add(record, clock.ns(record.ts)), |_| true);
    }
    columns.finish()
}

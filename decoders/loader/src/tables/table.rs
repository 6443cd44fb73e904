//! The rows of one table's file, checked while they are read.

use std::path::Path;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::schema;

use super::columns;
use super::error::{Error, TableFault};
use super::file::ArrowFile;
use super::names::{IN_TIME, SUFFIX};
use super::order;

/// A table that is being read.
pub(super) struct Table {
    name: &'static str,
    schema: &'static SchemaRef,
    file: ArrowFile,
    listed: u64,
    read: u64,
    most_rows: usize,
    /// The last time, in a table in time order.
    before: Option<i64>,
    /// The recording of the rows.
    own: Option<i64>,
    /// Rows of the current batch that have not been handed out.
    rest: Option<RecordBatch>,
}

impl Table {
    /// Opens a table's file; `listed` is its number of rows in the manifest.
    pub(super) fn open(
        folder: &Path,
        name: &'static str,
        listed: u64,
        most_rows: usize,
    ) -> Result<Self, Error> {
        let missing = || Error::NoSuchTable { name: name.to_owned() };
        let schema = schema::tables().get(name).ok_or_else(missing)?;
        let open = || {
            let file = ArrowFile::open(&folder.join(format!("{name}{SUFFIX}")))?;
            columns::check(file.schema(), schema)?;
            Ok(file)
        };
        Ok(Self {
            name,
            schema,
            file: open().map_err(|fault: TableFault| fault.of(name))?,
            listed,
            read: 0,
            most_rows: most_rows.max(1),
            before: None,
            own: None,
            rest: None,
        })
    }

    /// Name of the table.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The next rows in file order, with the columns of the file; `None` after the last.
    pub(super) fn next_part(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.part().map_err(|fault| fault.of(self.name))
    }

    fn part(&mut self) -> Result<Option<RecordBatch>, TableFault> {
        let rest = match self.rest.take() {
            Some(rest) => rest,
            None => match self.file.next_batch()? {
                Some(batch) => {
                    self.check(&batch)?;
                    batch
                }
                None if self.read == self.listed => return Ok(None),
                None => return Err(TableFault::Rows { found: self.read, listed: self.listed }),
            },
        };
        let rows = rest.num_rows().min(self.most_rows);
        if rows < rest.num_rows() {
            self.rest = Some(rest.slice(rows, rest.num_rows() - rows));
        }
        self.read += rows as u64;
        Ok(Some(rest.slice(0, rows)))
    }

    fn check(&mut self, batch: &RecordBatch) -> Result<(), TableFault> {
        columns::check_nulls(batch, self.schema)?;
        if IN_TIME.contains(&self.name) {
            let times: &Int64Array = order::column(batch, "ts")?;
            self.before = order::in_time(times.values(), self.before, self.read)?;
        }
        if let Some((low, high)) = columns::bounds(order::column(batch, "trace_id")?) {
            let (low, high) = self.own.map_or((low, high), |own| (low.min(own), high.max(own)));
            if low != high || !(0..1 << 31).contains(&low) {
                return Err(TableFault::Recordings { low, high });
            }
            self.own = Some(low);
        }
        Ok(())
    }

    /// Parts that were read from this table as one batch of the declared table, with rows of the
    /// batcher's recording. Columns that the file lacks are NULL.
    pub(super) fn declared(
        &self,
        batcher: &Batcher,
        parts: &[RecordBatch],
    ) -> Result<RecordBatch, Error> {
        let recordings = (self.own.unwrap_or_default(), batcher.trace_id());
        let mut named = Vec::new();
        if !parts.is_empty() {
            for field in self.schema.fields().iter().filter(|field| field.name() != "trace_id") {
                let columns: Option<Vec<ArrayRef>> =
                    parts.iter().map(|part| part.column_by_name(field.name()).cloned()).collect();
                if let Some(columns) = columns {
                    let column = columns::joined(&columns, field, recordings)
                        .map_err(|fault| fault.of(self.name))?;
                    named.push((field.name().as_str(), column));
                }
            }
        }
        let rows = parts.iter().map(RecordBatch::num_rows).sum();
        batcher
            .batch(self.name, rows, named)
            .map_err(|error| TableFault::Unfit { why: error.to_string() }.of(self.name))
    }
}

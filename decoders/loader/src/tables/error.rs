//! Why a folder of tables is refused.

/// What is wrong with a folder.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a manifest nor an Arrow file.
    #[error("contains no tables: name the folder that an export wrote")]
    NoTables,
    /// The exporter did not finish.
    #[error("lacks tables.json: the export is incomplete, export again")]
    NoManifest,
    /// The manifest is not JSON, or cannot be read.
    #[error("cannot read tables.json ({why}): export again")]
    Manifest {
        /// Why.
        why: String,
    },
    /// The manifest is one of another program.
    #[error("tables.json does not have the format schedlens-tables: name a folder of tables")]
    Format,
    /// Another version of the format.
    #[error(
        "tables.json has version {found}, but only 1 is supported: export again with the exporter \
         that came with this schedlens"
    )]
    Version {
        /// The version.
        found: String,
    },
    /// A source system that the state machine does not know.
    #[error("tables.json: source {found} is not perf, etw, perfetto, xperf or wpa")]
    Source {
        /// The source.
        found: String,
    },
    /// The manifest lacks an object.
    #[error("tables.json lacks `trace` or `tables`: export again")]
    Parts,
    /// The manifest lists a table that is not declared.
    #[error("tables.json: there is no base table '{name}'")]
    NoSuchTable {
        /// Its name.
        name: String,
    },
    /// A number of rows that no table can have.
    #[error("tables.json: {table} has {found} rows: export again")]
    RowCount {
        /// Table.
        table: &'static str,
        /// The number.
        found: String,
    },
    /// A value of `trace` has another type.
    #[error("tables.json: {name} is {found}, not a {wanted}: export again")]
    Fact {
        /// Key.
        name: &'static str,
        /// The value.
        found: String,
        /// The type.
        wanted: &'static str,
    },
    /// A listed file does not exist.
    #[error("lacks {table}.arrow, which tables.json lists: export again")]
    NoFile {
        /// Table.
        table: &'static str,
    },
    /// A required table is not listed.
    #[error("lacks the table {table}: export again")]
    NoTable {
        /// Table.
        table: &'static str,
    },
    /// An Arrow file that the manifest does not list.
    #[error("{file} is not listed in tables.json: export again")]
    Unlisted {
        /// File name.
        file: String,
    },
    /// Times between which no length fits into 64 bits.
    #[error("lasts from {first} to {last} ns, more than 292 years: export again")]
    Length {
        /// The earliest time.
        first: i64,
        /// The latest time.
        last: i64,
    },
    /// A table's file.
    #[error("{table}.arrow{fault}")]
    Table {
        /// Table.
        table: &'static str,
        /// What is wrong with it.
        fault: TableFault,
    },
    /// Single events are not in the tables.
    #[error("is a folder of tables: give the recording it was made from")]
    NoEvents,
}

/// What is wrong with a table's file; follows its name.
#[derive(Debug, thiserror::Error)]
pub enum TableFault {
    /// The bytes are not an Arrow file.
    #[error(" is not a complete Arrow file ({why}): the export did not finish, export again")]
    Incomplete {
        /// Why, in one line.
        why: String,
    },
    /// Its buffers are compressed.
    #[error(" is compressed: export it without compression")]
    Compressed,
    /// More or fewer rows than the manifest lists.
    #[error(
        " has {found} rows, but tables.json says {listed}: the export is incomplete, export again"
    )]
    Rows {
        /// Rows in the file.
        found: u64,
        /// Rows in the manifest.
        listed: u64,
    },
    /// A required column is missing, or a column occurs twice.
    #[error(": {count} columns named {column}, expected 1: export again")]
    Columns {
        /// Column.
        column: &'static str,
        /// How often it occurs.
        count: usize,
    },
    /// A column that the table does not have.
    #[error(
        ": unknown column '{column}': export again with the exporter that came with this schedlens"
    )]
    UnknownColumn {
        /// Column, escaped.
        column: String,
    },
    /// A column of another type.
    #[error(": column {column} has type {found}, expected {wanted}: export again")]
    ColumnType {
        /// Column.
        column: &'static str,
        /// Its type.
        found: String,
        /// Declared type.
        wanted: String,
    },
    /// NULL in a required column.
    #[error(": column {column} must not be NULL, but is in {count} rows: export again")]
    Nulls {
        /// Column.
        column: &'static str,
        /// Number of rows.
        count: usize,
    },
    /// Rows out of time order.
    #[error(": row {row} has time {time} after {before}: rows must be in time order, export again")]
    Order {
        /// Row, from 0.
        row: u64,
        /// Its time.
        time: i64,
        /// Time of the row before it.
        before: i64,
    },
    /// Two rows of a CPU with the same position.
    #[error(
        ": seq repeats or decreases on CPU {cpu}, but must be the position in that CPU's stream: \
         export again"
    )]
    Positions {
        /// Logical CPU.
        cpu: i32,
    },
    /// Rows of several recordings.
    #[error(" contains recordings {low} to {high}: export one recording per folder")]
    Recordings {
        /// Lowest `trace_id`.
        low: i64,
        /// Highest `trace_id`.
        high: i64,
    },
    /// Numbers of threads or processes outside those of the recording.
    #[error(
        ": {column} ranges from {low} to {high}, but recording {recording} allows {first} to \
         {last}: export again"
    )]
    Ids {
        /// Column.
        column: &'static str,
        /// Lowest number.
        low: i64,
        /// Highest number.
        high: i64,
        /// `trace_id` of the file.
        recording: i64,
        /// Lowest number allowed.
        first: i64,
        /// Highest number allowed.
        last: i64,
    },
    /// Too many different texts for a dictionary with one byte per row.
    #[error(
        ": column {column} has more than 256 different texts in a row of batches: export again"
    )]
    Words {
        /// Column.
        column: &'static str,
    },
    /// Texts too long for one batch.
    #[error(
        ": column {column} has more than {most} bytes of text in a row of batches: export again"
    )]
    TextBytes {
        /// Column.
        column: &'static str,
        /// The limit.
        most: usize,
    },
    /// The rows do not fit the declared table for another reason.
    #[error(" does not fit its table ({why}): export again")]
    Unfit {
        /// Why, in one line.
        why: String,
    },
}

impl TableFault {
    /// As an error about a table.
    pub(super) fn of(self, table: &'static str) -> Error {
        Error::Table { table, fault: self }
    }
}

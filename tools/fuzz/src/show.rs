//! Prints rows, to examine an input that fails: set `SCHEDLENS_FUZZ_SHOW`.

use std::sync::OnceLock;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::laws::{number, word};

/// Prints the known cells of each row, threads by their number in the recording.
pub fn rows(table: &str, batch: &RecordBatch) {
    static WANTED: OnceLock<bool> = OnceLock::new();
    if !WANTED.get_or_init(|| std::env::var_os("SCHEDLENS_FUZZ_SHOW").is_some()) {
        return;
    }
    for row in 0..batch.num_rows() {
        let mut line = table.to_owned();
        for field in batch.schema().fields().iter().filter(|field| field.name() != "trace_id") {
            let name = field.name();
            let array = batch.column_by_name(name).expect(name);
            let cell = match array.data_type() {
                _ if array.is_null(row) => continue,
                DataType::Dictionary(..) => word(batch, name, row).to_owned(),
                DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
                DataType::Int64 | DataType::Int32 | DataType::Boolean => {
                    let value = number(batch, name, row).unwrap_or_default();
                    let is_thread = name.ends_with("utid");
                    (if is_thread { value & 0xffff_ffff } else { value }).to_string()
                }
                _ => continue,
            };
            line.push_str(&format!(" {name}={cell}"));
        }
        eprintln!("{line}");
    }
}

//! The Arrow schemas of all tables, read from the SQL that also creates them in DuckDB.
//!
//! `queries/schema/*.sql` is the only place where tables and columns are declared, so a decoder and
//! the database cannot disagree on a table.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// Version of these tables and of the views on them: `trace.schema_version`.
pub const VERSION: i32 = 10;

const SOURCES: [&str; 5] = [
    include_str!("../../../queries/schema/base.sql"),
    include_str!("../../../queries/schema/stacks.sql"),
    include_str!("../../../queries/schema/derived.sql"),
    include_str!("../../../queries/schema/sweeps.sql"),
    include_str!("../../../queries/schema/summaries.sql"),
];

/// How DuckDB stores a column that hardly changes; it does not affect the type.
const COMPRESSION: &str = " USING COMPRESSION RLE";

/// Text columns with few distinct values, stored as `Dictionary(UInt8, Utf8)`.
const FEW_VALUES: [&str; 16] = [
    "context_switch.source",
    "wakeup.kind",
    "wait_event.kind",
    "interrupt_slice.kind",
    "interrupt_slice.name",
    "counter_sample.counter",
    "counter_sample.core_type",
    "priority_change.kind",
    "loss.signalled_by",
    "sample.event",
    "sched_slice.end_reason",
    "thread_state_other.state",
    "thread_state_other.reason",
    "cpu_state_other.state",
    "counter_delta.counter",
    "counter_delta.core_type",
];

/// The Arrow schema of a table, or `None` if the table is not declared.
pub fn table(name: &str) -> Option<SchemaRef> {
    tables().get(name).cloned()
}

/// All declared tables by name.
pub fn tables() -> &'static BTreeMap<String, SchemaRef> {
    static TABLES: OnceLock<BTreeMap<String, SchemaRef>> = OnceLock::new();
    TABLES.get_or_init(|| SOURCES.iter().flat_map(|sql| parse(sql)).collect())
}

/// Parses `CREATE TABLE name (` ... `);` with one column per line, the form used in the files.
fn parse(sql: &str) -> Vec<(String, SchemaRef)> {
    let mut found = Vec::new();
    let mut open: Option<(String, Vec<Field>)> = None;
    for line in sql.lines() {
        let code = line.split("--").next().unwrap_or("").trim();
        if let Some(rest) = code.strip_prefix("CREATE TABLE ") {
            open = Some((rest.trim_end_matches('(').trim().to_owned(), Vec::new()));
        } else if code == ");" {
            if let Some((name, fields)) = open.take() {
                found.push((name, Arc::new(Schema::new(fields))));
            }
        } else if let Some((table, fields)) = open.as_mut() {
            let code = code.trim_end_matches(',').trim_end_matches(COMPRESSION);
            let (code, nullable) = match code.strip_suffix(" NOT NULL") {
                Some(code) => (code, false),
                None => (code, true),
            };
            if let Some((name, kind)) = code.split_once(' ') {
                fields.push(Field::new(name, arrow_type(table, name, kind.trim()), nullable));
            }
        }
    }
    found
}

fn arrow_type(table: &str, column: &str, sql: &str) -> DataType {
    match sql {
        "BOOLEAN" => DataType::Boolean,
        "INTEGER" => DataType::Int32,
        "BIGINT" => DataType::Int64,
        "DOUBLE" => DataType::Float64,
        "TIMESTAMP_NS" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "INTEGER[]" => DataType::new_list(DataType::Int32, true),
        "BIGINT[]" => DataType::new_list(DataType::Int64, true),
        "VARCHAR[]" => DataType::new_list(DataType::Utf8, true),
        _ if FEW_VALUES.contains(&format!("{table}.{column}").as_str()) => {
            DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
        }
        _ => DataType::Utf8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_its_declared_type() {
        let switches = table("context_switch").expect("declared");
        assert_eq!(switches.fields().len(), 18);
        assert_eq!(switches.field_with_name("ts").expect("ts").data_type(), &DataType::Int64);
        assert!(!switches.field_with_name("ts").expect("ts").is_nullable());
        assert!(!switches.field_with_name("trace_id").expect("trace_id").is_nullable());
        let cpus = table("affinity").expect("declared");
        assert_eq!(
            cpus.field_with_name("cpus").expect("cpus").data_type(),
            &DataType::new_list(DataType::Int32, true)
        );
    }

    #[test]
    fn every_column_of_few_values_is_declared() {
        for column in FEW_VALUES {
            let (table_name, name) = column.split_once('.').expect("table.column");
            let schema = table(table_name).expect(table_name);
            assert!(schema.field_with_name(name).is_ok(), "{column}");
        }
    }

    #[test]
    fn no_other_sql_type_is_used() {
        for (name, schema) in tables() {
            assert!(!schema.fields().is_empty(), "{name}");
        }
        let known = ["BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "TIMESTAMP_NS", "VARCHAR"];
        for line in SOURCES.iter().flat_map(|sql| sql.lines()).filter(|l| l.starts_with("  ")) {
            let code = line.split("--").next().unwrap_or("").trim().trim_end_matches(',');
            let kind = code.split_whitespace().nth(1).unwrap_or("").trim_end_matches("[]");
            assert!(known.contains(&kind), "{line}");
        }
    }
}

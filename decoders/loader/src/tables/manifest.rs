//! `tables.json`: what a folder of tables contains.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use schedlens_schedule::states::Source;
use serde_json::{Map, Value};

use super::error::Error;
use super::names::{MANIFEST, NEEDED, SUFFIX, TABLES, is_folder};

const FORMAT: &str = "schedlens-tables";
const VERSION: i64 = 1;
/// A manifest takes a few kilobytes.
const MOST_BYTES: u64 = 1 << 20;
/// Characters of a wrong value that an error shows.
const SHOWN: usize = 60;

const SOURCES: [(&str, Source); 5] = [
    ("perf", Source::Perf),
    ("etw", Source::Etw),
    ("perfetto", Source::Perfetto),
    ("xperf", Source::Etw),
    ("wpa", Source::Etw),
];
const NUMBERS: [&str; 7] = [
    "start_clock",
    "clock_hz",
    "start_time_utc_ns",
    "first_ns",
    "duration_ns",
    "events_lost",
    "buffers_lost",
];
const TEXTS: [&str; 5] = ["path", "host", "os", "cpu_model", "clock_name"];

/// A checked manifest.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) source: Source,
    pub(super) source_name: &'static str,
    /// The program that wrote the folder.
    pub(super) written_by: String,
    /// Number of rows by table.
    pub(super) rows: BTreeMap<&'static str, u64>,
    trace: Map<String, Value>,
}

impl Manifest {
    /// Reads the manifest of a folder; every listed file exists, and no other.
    pub(super) fn read(folder: &Path) -> Result<Self, Error> {
        if !is_folder(folder) {
            return Err(Error::NoTables);
        }
        let manifest = Self::of(&object(&folder.join(MANIFEST))?)?;
        for table in manifest.rows.keys() {
            if !folder.join(format!("{table}{SUFFIX}")).is_file() {
                return Err(Error::NoFile { table });
            }
        }
        if let Some(table) = NEEDED.iter().find(|table| !manifest.rows.contains_key(*table)) {
            return Err(Error::NoTable { table });
        }
        let unread = |error: std::io::Error| Error::Manifest { why: error.to_string() };
        let mut unlisted = Vec::new();
        for entry in folder.read_dir().map_err(unread)? {
            let name = entry.map_err(unread)?.file_name().to_string_lossy().into_owned();
            let is_listed = |stem: &str| manifest.rows.contains_key(stem);
            if name.strip_suffix(SUFFIX).is_some_and(|stem| !is_listed(stem)) {
                unlisted.push(name.escape_debug().to_string());
            }
        }
        match unlisted.into_iter().min() {
            Some(file) => Err(Error::Unlisted { file }),
            None => Ok(manifest),
        }
    }

    fn of(found: &Map<String, Value>) -> Result<Self, Error> {
        let value = |key: &str| found.get(key).unwrap_or(&Value::Null);
        if value("format").as_str() != Some(FORMAT) {
            return Err(Error::Format);
        }
        if value("format_version").as_i64() != Some(VERSION) {
            return Err(Error::Version { found: shown(value("format_version")) });
        }
        let source = SOURCES.iter().find(|(name, _)| value("source").as_str() == Some(*name));
        let Some((source_name, source)) = source else {
            return Err(Error::Source { found: shown(value("source")) });
        };
        let (Some(trace), Some(tables)) = (value("trace").as_object(), value("tables").as_object())
        else {
            return Err(Error::Parts);
        };
        let mut rows = BTreeMap::new();
        for (name, count) in tables {
            let Some(table) = TABLES.iter().find(|table| *table == name) else {
                return Err(Error::NoSuchTable { name: name.escape_debug().to_string() });
            };
            let Some(number) = count.as_i64().and_then(|count| u64::try_from(count).ok()) else {
                return Err(Error::RowCount { table, found: shown(count) });
            };
            rows.insert(*table, number);
        }
        for name in NUMBERS {
            let found = trace.get(name).filter(|value| !value.is_null());
            if let Some(found) = found.filter(|value| value.as_i64().is_none()) {
                return Err(Error::Fact { name, found: shown(found), wanted: "number" });
            }
        }
        for name in TEXTS {
            let found = trace.get(name).filter(|value| !value.is_null());
            if let Some(found) = found.filter(|value| !value.is_string()) {
                return Err(Error::Fact { name, found: shown(found), wanted: "text" });
            }
        }
        let written_by = value("written_by").as_str().filter(|name| !name.is_empty());
        Ok(Self {
            source: *source,
            source_name,
            written_by: written_by.unwrap_or("unknown").to_owned(),
            rows,
            trace: trace.clone(),
        })
    }

    /// A number of `trace`.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.trace.get(name)?.as_i64()
    }

    /// A text of `trace`.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.trace.get(name)?.as_str()
    }

    /// Rows of all tables.
    pub(super) fn all_rows(&self) -> u64 {
        self.rows.values().fold(0, |sum, rows| sum.saturating_add(*rows))
    }
}

fn object(path: &Path) -> Result<Map<String, Value>, Error> {
    if !path.exists() {
        return Err(Error::NoManifest);
    }
    let mut bytes = Vec::new();
    let read = if path.is_file() {
        File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
    } else {
        Err(std::io::Error::other("not a file"))
    };
    read.map_err(|error| Error::Manifest { why: error.to_string() })?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::Manifest { why: format!("longer than {MOST_BYTES} bytes") });
    }
    let found = serde_json::from_slice(&bytes);
    match found.map_err(|error| Error::Manifest { why: error.to_string() })? {
        Value::Object(object) => Ok(object),
        _ => Err(Error::Format),
    }
}

/// A value of the manifest in an error.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("'{}'", text.escape_debug()),
        other => other.to_string(),
    };
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(manifest: Value) -> String {
        let object = manifest.as_object().expect("object").clone();
        Manifest::of(&object).expect_err("refused").to_string()
    }

    #[test]
    fn values_of_other_types_are_named_in_one_short_line() {
        let with = |key: &str, value: Value| {
            let mut manifest = json!({
                "format": FORMAT, "format_version": 1, "source": "etw", "trace": {},
                "tables": {"thread": 1},
            });
            manifest[key] = value;
            refusal(manifest)
        };
        assert!(with("format_version", json!("1")).starts_with("tables.json has version '1', but"));
        assert_eq!(
            with("source", json!("a\nb")),
            "tables.json: source 'a\\nb' is not perf, etw, perfetto, xperf or wpa"
        );
        assert_eq!(
            with("tables", json!({"thread": u64::MAX})),
            "tables.json: thread has 18446744073709551615 rows: export again"
        );
        assert_eq!(
            with("trace", json!({"duration_ns": true})),
            "tables.json: duration_ns is true, not a number: export again"
        );
        assert!(with("trace", json!({"host": vec![0; 9999]})).len() < 130);
    }
}

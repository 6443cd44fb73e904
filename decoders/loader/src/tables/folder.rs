//! A folder of tables whose manifest has been read.

use std::path::{Path, PathBuf};

use arrow_array::{Array, RecordBatch, StringArray};
use schedlens_schedule::batcher::Batcher;

use super::error::Error;
use super::manifest::Manifest;
use super::table::Table;

/// Rows of a table to buffer at once, which limits the length of a chunk.
pub(super) const CHUNK_ROWS: usize = 1 << 18;

/// A folder of tables.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    pub(super) manifest: Manifest,
    pub(super) tick_hz: Option<i64>,
}

impl Folder {
    /// Reads the manifest and the machine's settings.
    ///
    /// # Errors
    /// The path is not such a folder, the manifest contradicts the files, or the settings cannot be
    /// read. Errors in other tables come when they are read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let manifest = Manifest::read(path)?;
        let mut folder = Self { path: path.to_owned(), manifest, tick_hz: None };
        let settings = folder.whole("machine_setting", &Batcher::new(0))?;
        folder.tick_hz = settings.as_ref().and_then(tick_hz);
        Ok(folder)
    }

    /// A table to be read, at most `most_rows` at a time; `None` if the folder lacks it.
    pub(super) fn table(
        &self,
        name: &'static str,
        most_rows: usize,
    ) -> Result<Option<Table>, Error> {
        let listed = self.manifest.rows.get(name);
        listed.map(|rows| Table::open(&self.path, name, *rows, most_rows)).transpose()
    }

    /// All rows of a small table; `None` if the folder lacks it.
    pub(super) fn whole(
        &self,
        name: &'static str,
        batcher: &Batcher,
    ) -> Result<Option<RecordBatch>, Error> {
        let Some(mut table) = self.table(name, CHUNK_ROWS)? else { return Ok(None) };
        let mut parts = Vec::new();
        while let Some(part) = table.next_part()? {
            parts.push(part);
        }
        table.declared(batcher, &parts).map(Some)
    }
}

/// Scheduler ticks per second, from the setting `hz`.
fn tick_hz(settings: &RecordBatch) -> Option<i64> {
    let texts = |name: &str| settings.column_by_name(name)?.as_any().downcast_ref::<StringArray>();
    let (keys, values) = (texts("key")?, texts("value")?);
    let mut found = (0..settings.num_rows())
        .filter(|row| keys.value(*row) == "hz" && values.is_valid(*row))
        .filter_map(|row| values.value(row).parse().ok());
    found.find(|hz| *hz > 0)
}

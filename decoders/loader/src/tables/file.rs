//! An Arrow IPC file of which nothing is trusted.
//!
//! The file is mapped, and batches refer to the mapping. Every length is checked against the bytes
//! that are there before arrow-ipc uses it, and arrow-ipc validates the arrays themselves.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, Footer, root_as_footer_with_opts, root_as_message};
use arrow_schema::{Schema, SchemaRef};
use flatbuffers::VerifierOptions;
use schedlens_input::files::Mapped;

use super::error::TableFault;
use crate::background::without_panic;

const MAGIC: &[u8] = b"ARROW1";
/// Length of the footer, and the magic.
const TRAILER: usize = 10;
/// A message's prefix: marker and length of its metadata.
const PREFIX: usize = 8;
/// Prefix of messages before version 0.15: length only.
const OLD_PREFIX: usize = 4;
const CONTINUATION: &[u8] = &[0xff; 4];
/// A footer whose parts are used several times may describe far more than its own size.
const MOST_EXPANSION: usize = 4;
const SMALL_FOOTER: usize = 1 << 16;

/// An open file.
pub(super) struct ArrowFile {
    bytes: Buffer,
    schema: SchemaRef,
    decoder: FileDecoder,
    batches: std::vec::IntoIter<Block>,
}

impl ArrowFile {
    /// Maps a file and reads its footer and dictionaries.
    pub(super) fn open(path: &Path) -> Result<Self, TableFault> {
        let mapped = Mapped::open(path).map_err(|error| incomplete(error.to_string()))?;
        guarded(|| Self::of(Buffer::from(bytes::Bytes::from_owner(mapped))))
    }

    fn of(bytes: Buffer) -> Result<Self, TableFault> {
        let footer = footer(&bytes)?;
        let options = VerifierOptions {
            max_apparent_size: footer.len() * MOST_EXPANSION + SMALL_FOOTER,
            ..VerifierOptions::default()
        };
        let footer = root_as_footer_with_opts(&options, &footer)
            .map_err(|error| incomplete(format!("footer: {error}")))?;
        let schema = Arc::new(schema(&footer)?);
        let dictionaries: Vec<Block> = footer.dictionaries().iter().flatten().copied().collect();
        let batches: Vec<Block> = footer.recordBatches().iter().flatten().copied().collect();
        // Blocks that overlap may repeat the same rows without end.
        let blocks = || dictionaries.iter().chain(&batches);
        let sizes: Result<Vec<usize>, TableFault> =
            blocks().map(|block| Ok(block_bytes(&bytes, block)?.len())).collect();
        let total = sizes?.into_iter().fold(0, usize::saturating_add);
        if total > bytes.len() {
            return Err(incomplete(format!("blocks of {total} bytes in {}", bytes.len())));
        }
        let mut decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        for block in &dictionaries {
            let found = message(&bytes, block)?;
            decoder
                .read_dictionary(block, &found)
                .map_err(|error| incomplete(error.to_string()))?;
        }
        Ok(Self { bytes, schema, decoder, batches: batches.into_iter() })
    }

    /// Its columns.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The next batch; `None` after the last.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, TableFault> {
        guarded(|| {
            let Some(block) = self.batches.next() else { return Ok(None) };
            let found = message(&self.bytes, &block)?;
            let batch = self.decoder.read_record_batch(&block, &found);
            batch.map_err(|error| incomplete(error.to_string()))
        })
    }
}

fn incomplete(why: impl AsRef<str>) -> TableFault {
    let first = why.as_ref().lines().next().unwrap_or_default();
    TableFault::Incomplete { why: first.to_owned() }
}

/// arrow-ipc may still panic on metadata that no writer produces.
fn guarded<T>(work: impl FnOnce() -> Result<T, TableFault>) -> Result<T, TableFault> {
    without_panic(|| Ok(work())).unwrap_or_else(|panic| Err(incomplete(panic.to_string())))
}

/// The bytes of the footer.
fn footer(bytes: &[u8]) -> Result<Vec<u8>, TableFault> {
    let short = || incomplete(format!("{} bytes", bytes.len()));
    if !bytes.starts_with(MAGIC) {
        return Err(incomplete("does not start with ARROW1"));
    }
    let (rest, trailer) = bytes.split_last_chunk::<TRAILER>().ok_or_else(short)?;
    let length = read_footer_length(*trailer).map_err(|error| incomplete(error.to_string()))?;
    let begin = rest.len().checked_sub(length).ok_or_else(|| {
        incomplete(format!("a footer of {length} bytes in a file of {}", bytes.len()))
    })?;
    Ok(rest.get(begin..).unwrap_or_default().to_vec())
}

fn schema(footer: &Footer<'_>) -> Result<Schema, TableFault> {
    let found = footer.schema().ok_or_else(|| incomplete("footer without a schema"))?;
    if !found.endianness().equals_to_target_endianness() {
        return Err(incomplete("its numbers have another byte order"));
    }
    try_fb_to_schema(found).map_err(|error| incomplete(error.to_string()))
}

/// The bytes of a block: metadata and body.
fn block_bytes<'a>(bytes: &'a Buffer, block: &Block) -> Result<&'a [u8], TableFault> {
    let outside = || {
        let (at, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
        incomplete(format!("a block at {at} with {metadata} + {body} bytes in {}", bytes.len()))
    };
    let metadata = usize::try_from(block.metaDataLength()).map_err(|_| outside())?;
    let body = usize::try_from(block.bodyLength()).map_err(|_| outside())?;
    let at = usize::try_from(block.offset()).map_err(|_| outside())?;
    let end = metadata.checked_add(body).and_then(|length| length.checked_add(at));
    let found = end.and_then(|end| bytes.get(at..end)).filter(|_| metadata >= PREFIX);
    found.ok_or_else(outside)
}

/// A block as a buffer, once its message has been checked: arrow-ipc slices the body and sizes
/// arrays by the numbers in the message.
fn message(bytes: &Buffer, block: &Block) -> Result<Buffer, TableFault> {
    let all = block_bytes(bytes, block)?;
    let (metadata, body) = all.split_at(block.metaDataLength() as usize);
    let prefix = if metadata.starts_with(CONTINUATION) { PREFIX } else { OLD_PREFIX };
    let message = root_as_message(metadata.get(prefix..).unwrap_or_default())
        .map_err(|error| incomplete(format!("message: {error}")))?;
    let dictionary = message.header_as_dictionary_batch().and_then(|found| found.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else {
        return Err(incomplete("a block without rows"));
    };
    if batch.compression().is_some() {
        return Err(TableFault::Compressed);
    }
    // A row takes at least a bit.
    let most = body.len().saturating_mul(8);
    let plausible = |count: i64| usize::try_from(count).is_ok_and(|count| count <= most);
    let nodes = batch.nodes().into_iter().flatten();
    let mut lengths = nodes.map(|node| (node.length(), node.null_count()));
    if !plausible(batch.length())
        || lengths.any(|(rows, nulls)| !plausible(rows) || !(0..=rows).contains(&nulls))
    {
        return Err(incomplete(format!("more rows than fit in {} bytes", body.len())));
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let end = buffer.offset().checked_add(buffer.length());
        let is_inside = buffer.offset() >= 0
            && buffer.length() >= 0
            && end.is_some_and(|end| u64::try_from(end).is_ok_and(|end| end <= body.len() as u64));
        if !is_inside {
            let (at, length) = (buffer.offset(), buffer.length());
            return Err(incomplete(format!(
                "a buffer at {at} with {length} bytes in {}",
                body.len()
            )));
        }
    }
    Ok(bytes.slice_with_length(block.offset() as usize, all.len()))
}

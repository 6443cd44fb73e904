//! Rows of `stack` and `frame_symbol`.

use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Batches;
use schedlens_schedule::columns::{Column, texts};

/// A row of `frame_symbol` without its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameRow {
    pub(super) module: Option<String>,
    pub(super) build_id: Option<String>,
    pub(super) address: i64,
    pub(super) symbol: Option<String>,
    pub(super) symbol_source: Option<&'static str>,
    pub(super) file: Option<String>,
    pub(super) line: Option<i32>,
    pub(super) is_inlined: bool,
    pub(super) is_kernel: bool,
    pub(super) unknown_reason: Option<&'static str>,
}

/// All stacks with the names of their functions.
#[derive(Debug)]
pub(crate) struct Named {
    base: i64,
    frames: Vec<FrameRow>,
    stack_id: Column<i64>,
    parent_id: Column<i64>,
    depth: Column<i32>,
    frame_id: Column<i64>,
}

impl Named {
    pub(super) fn new(base: i64) -> Self {
        Self {
            base,
            frames: Vec::new(),
            stack_id: Column::default(),
            parent_id: Column::default(),
            depth: Column::default(),
            frame_id: Column::default(),
        }
    }

    /// Adds a function; returns its number.
    pub(super) fn frame(&mut self, row: FrameRow) -> i64 {
        let number = self.frames.len() as i64 | self.base;
        self.frames.push(row);
        number
    }

    pub(super) fn node(&mut self, stack: i64, parent: Option<i64>, depth: i32, frame: i64) {
        self.stack_id.push(stack);
        self.parent_id.push_option(parent);
        self.depth.push(depth);
        self.frame_id.push(frame);
    }

    /// The batches of both tables.
    ///
    /// # Errors
    /// Fails only if a value contradicts the schema.
    pub(crate) fn batches(self, batcher: &Batcher) -> Result<Batches, ArrowError> {
        let stacks = self.stack_id.len();
        let stack = batcher.batch(
            "stack",
            stacks,
            vec![
                ("stack_id", self.stack_id.array()),
                ("parent_id", self.parent_id.array()),
                ("depth", self.depth.array()),
                ("frame_id", self.frame_id.array()),
            ],
        )?;
        let rows = &self.frames;
        let mut frame_id = Column::default();
        let mut address = Column::default();
        let mut line = Column::default();
        let mut is_inlined = Column::<bool>::default();
        let mut is_kernel = Column::<bool>::default();
        for (number, row) in rows.iter().enumerate() {
            frame_id.push(number as i64 | self.base);
            address.push(row.address);
            line.push_option(row.line);
            is_inlined.push(row.is_inlined);
            is_kernel.push(row.is_kernel);
        }
        let frame_symbol = batcher.batch(
            "frame_symbol",
            rows.len(),
            vec![
                ("frame_id", frame_id.array()),
                ("module", texts(rows.iter().map(|row| row.module.as_deref()))),
                ("build_id", texts(rows.iter().map(|row| row.build_id.as_deref()))),
                ("address", address.array()),
                ("symbol", texts(rows.iter().map(|row| row.symbol.as_deref()))),
                ("symbol_source", texts(rows.iter().map(|row| row.symbol_source))),
                ("file", texts(rows.iter().map(|row| row.file.as_deref()))),
                ("line", line.array()),
                ("is_inlined", is_inlined.array()),
                ("is_kernel", is_kernel.array()),
                ("unknown_reason", texts(rows.iter().map(|row| row.unknown_reason))),
            ],
        )?;
        Ok(vec![("stack", stack), ("frame_symbol", frame_symbol)])
    }
}

//! Declares a table with a row for nearly every record: each column once.

/// Declares the row type and the table of a chunk. Each column has a field, the type of its values
/// (an `Option` if they may be NULL), and its name; a column of words has a `u8` and its words.
/// Every row also has a [`Moment`](schedlens_schedule::tables::Moment).
macro_rules! staged_table {
    (
        $(#[$row_doc:meta])* $row:ident, $table:ident {
            $($(#[$doc:meta])* $field:ident: $kind:ty => $name:literal),* $(,)?
        }
        $(#[$word_doc:meta])* $word:ident => $word_name:literal in $words:expr
    ) => {
        $(#[$row_doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $row {
            $($(#[$doc])* pub(crate) $field: $kind,)*
            $(#[$word_doc])* pub(crate) $word: u8,
        }

        /// The table of a chunk.
        #[derive(Debug)]
        pub(crate) struct $table {
            rows: usize,
            ts: Staged<i64>,
            cpu: Staged<i32>,
            seq: Staged<i64>,
            $($field: Staged<<$kind as Cell>::Stored>,)*
            $word: Staged<u8>,
            /// Stacks of rows that have one: most recordings have none.
            stacks: Column<i64>,
        }

        impl $table {
            /// The stack of the row put last.
            #[inline(never)]
            pub(crate) fn stack(&mut self, stack: Option<i64>) {
                while self.stacks.len() + 1 < self.rows {
                    self.stacks.push_option(None);
                }
                if self.stacks.len() < self.rows {
                    self.stacks.push_option(stack);
                }
            }

            #[inline(always)]
            pub(crate) fn put(&mut self, moment: Moment, row: $row) {
                let at = self.rows;
                self.ts.put(at, moment.ts);
                self.cpu.put(at, moment.cpu);
                self.seq.put(at, moment.seq);
                $(Cell::put(row.$field, &mut self.$field, at);)*
                self.$word.put(at, row.$word);
                self.rows = at + 1;
                if is_full(self.rows) {
                    self.settle();
                }
            }

            #[inline(never)]
            fn settle(&mut self) {
                let rows = self.rows;
                self.ts.settle(rows);
                self.cpu.settle(rows);
                self.seq.settle(rows);
                $(self.$field.settle(rows);)*
                self.$word.settle(rows);
            }
        }

        impl Busy for $table {
            fn new(pools: &Pools) -> Self {
                Self {
                    rows: 0,
                    ts: Staged::from_pool(pools),
                    cpu: Staged::from_pool(pools),
                    seq: Staged::from_pool(pools),
                    $($field: Staged::from_pool(pools),)*
                    $word: Staged::new(Column::within(pools.uint8.take())),
                    stacks: Column::default(),
                }
            }

            fn rows(&self) -> usize {
                self.rows
            }

            fn columns(mut self, pools: &Pools) -> Result<Vec<Named>, ArrowError> {
                let rows = self.rows;
                let stacks = (!self.stacks.is_empty()).then(|| {
                    while self.stacks.len() < rows {
                        self.stacks.push_option(None);
                    }
                    ("stack_id", std::mem::take(&mut self.stacks).array())
                });
                let columns = vec![
                    ("ts", self.ts.array(rows, pools)),
                    ("cpu", self.cpu.array(rows, pools)),
                    ("seq", self.seq.array(rows, pools)),
                    $(($name, self.$field.array(rows, pools)),)*
                    ($word_name, self.$word.column(rows).words_from(&pools.uint8, &$words)?),
                ];
                Ok(columns.into_iter().chain(stacks).collect())
            }
        }
    };
}

pub(crate) use staged_table;

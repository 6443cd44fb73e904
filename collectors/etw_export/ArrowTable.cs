using System;
using System.Collections.Generic;
using System.IO;
using Apache.Arrow;
using Apache.Arrow.Ipc;
using Apache.Arrow.Types;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// Writes a table row by row to an Arrow IPC file. Set the cells of a row in column order.
    /// The file gets its final name only when <see cref="Finish"/> succeeds.
    /// </summary>
    public sealed class ArrowTable : IDisposable
    {
        private const int BatchRows = 65536;
        private const string Unfinished = ".part";

        private readonly string path;
        private readonly ColumnSchema[] columns;
        private readonly Schema schema;
        private readonly ArrowFileWriter writer;
        private Cells[] cells;
        private int next;
        private int buffered;

        /// <summary>Starts the file NAME.arrow in a folder.</summary>
        public ArrowTable(string folder, string name)
        {
            path = Path.Combine(folder, name + ".arrow");
            columns = TableSchemas.All[name];
            var builder = new Schema.Builder();
            foreach (ColumnSchema column in columns)
            {
                builder.Field(new Field(column.Name, TypeOf(column.Kind), column.Nullable));
            }
            schema = builder.Build();
            cells = NewCells();
            writer = new ArrowFileWriter(new FileStream(path + Unfinished, FileMode.Create), schema);
            writer.WriteStart();
        }

        /// <summary>Number of rows so far.</summary>
        public long Rows { get; private set; }

        public ArrowTable Long(long value)
        {
            Next().Add(value);
            return this;
        }

        public ArrowTable Long(long? value)
        {
            return value.HasValue ? Long(value.Value) : Null();
        }

        public ArrowTable Int(int value)
        {
            Next().Add(value);
            return this;
        }

        public ArrowTable Int(int? value)
        {
            return value.HasValue ? Int(value.Value) : Null();
        }

        public ArrowTable Flag(bool value)
        {
            Next().Add(value);
            return this;
        }

        public ArrowTable Text(string value)
        {
            if (value == null)
            {
                return Null();
            }
            Next().Add(value);
            return this;
        }

        public ArrowTable Ints(IReadOnlyList<int> values)
        {
            Next().Add(values);
            return this;
        }

        /// <summary>Adds an unknown cell.</summary>
        public ArrowTable Null()
        {
            if (next < columns.Length && !columns[next].Nullable)
            {
                throw new InvalidOperationException(columns[next].Name + " is never NULL");
            }
            Next().AddNull();
            return this;
        }

        /// <summary>Adds this many unknown cells.</summary>
        public ArrowTable Nulls(int count)
        {
            for (int cell = 0; cell < count; cell++)
            {
                Null();
            }
            return this;
        }

        /// <summary>Ends a row.</summary>
        public void EndRow()
        {
            if (next != columns.Length)
            {
                throw new InvalidOperationException(
                    path + ": a row has " + next + " cells, expected " + columns.Length);
            }
            next = 0;
            Rows += 1;
            buffered += 1;
            if (buffered == BatchRows)
            {
                WriteBatch();
            }
        }

        /// <summary>Writes the remaining rows and renames the file to its final name.</summary>
        public void Finish()
        {
            WriteBatch();
            writer.WriteEnd();
            writer.Dispose();
            File.Delete(path);
            File.Move(path + Unfinished, path);
        }

        public void Dispose()
        {
            writer.Dispose();
        }

        private Cells Next()
        {
            if (next == columns.Length)
            {
                throw new InvalidOperationException(path + ": a row has too many cells");
            }
            next += 1;
            return cells[next - 1];
        }

        private void WriteBatch()
        {
            if (buffered == 0)
            {
                return;
            }
            var arrays = new List<IArrowArray>();
            foreach (Cells column in cells)
            {
                arrays.Add(column.Build());
            }
            using (var batch = new RecordBatch(schema, arrays, buffered))
            {
                writer.WriteRecordBatch(batch);
            }
            cells = NewCells();
            buffered = 0;
        }

        private Cells[] NewCells()
        {
            var found = new Cells[columns.Length];
            for (int at = 0; at < found.Length; at++)
            {
                found[at] = CellsOf(columns[at].Kind);
            }
            return found;
        }

        private static IArrowType TypeOf(Kind kind)
        {
            switch (kind)
            {
                case Kind.Long: return Int64Type.Default;
                case Kind.Int: return Int32Type.Default;
                case Kind.Flag: return BooleanType.Default;
                case Kind.Ints: return new ListType(Int32Type.Default);
                default: return StringType.Default;
            }
        }

        private static Cells CellsOf(Kind kind)
        {
            switch (kind)
            {
                case Kind.Long: return new LongCells();
                case Kind.Int: return new IntCells();
                case Kind.Flag: return new FlagCells();
                case Kind.Ints: return new IntsCells();
                default: return new TextCells();
            }
        }

        /// <summary>One column of a batch. Adding a cell of another type is a programming error.</summary>
        private abstract class Cells
        {
            public virtual void Add(long value)
            {
                throw new InvalidOperationException("the column is not Int64");
            }

            public virtual void Add(int value)
            {
                throw new InvalidOperationException("the column is not Int32");
            }

            public virtual void Add(bool value)
            {
                throw new InvalidOperationException("the column is not Boolean");
            }

            public virtual void Add(string value)
            {
                throw new InvalidOperationException("the column is not text");
            }

            public virtual void Add(IReadOnlyList<int> values)
            {
                throw new InvalidOperationException("the column is not a list");
            }

            public abstract void AddNull();

            public abstract IArrowArray Build();
        }

        private sealed class LongCells : Cells
        {
            private readonly Int64Array.Builder builder = new Int64Array.Builder();

            public override void Add(long value)
            {
                builder.Append(value);
            }

            public override void AddNull()
            {
                builder.AppendNull();
            }

            public override IArrowArray Build()
            {
                return builder.Build();
            }
        }

        private sealed class IntCells : Cells
        {
            private readonly Int32Array.Builder builder = new Int32Array.Builder();

            public override void Add(int value)
            {
                builder.Append(value);
            }

            public override void AddNull()
            {
                builder.AppendNull();
            }

            public override IArrowArray Build()
            {
                return builder.Build();
            }
        }

        private sealed class FlagCells : Cells
        {
            private readonly BooleanArray.Builder builder = new BooleanArray.Builder();

            public override void Add(bool value)
            {
                builder.Append(value);
            }

            public override void AddNull()
            {
                builder.AppendNull();
            }

            public override IArrowArray Build()
            {
                return builder.Build();
            }
        }

        private sealed class TextCells : Cells
        {
            private readonly StringArray.Builder builder = new StringArray.Builder();

            public override void Add(string value)
            {
                builder.Append(value);
            }

            public override void AddNull()
            {
                builder.AppendNull();
            }

            public override IArrowArray Build()
            {
                return builder.Build();
            }
        }

        private sealed class IntsCells : Cells
        {
            private readonly ListArray.Builder builder = new ListArray.Builder(Int32Type.Default);

            public override void Add(IReadOnlyList<int> values)
            {
                builder.Append();
                var items = (Int32Array.Builder)builder.ValueBuilder;
                foreach (int value in values)
                {
                    items.Append(value);
                }
            }

            public override void AddNull()
            {
                builder.AppendNull();
            }

            public override IArrowArray Build()
            {
                return builder.Build();
            }
        }
    }
}

using System;
using System.Collections.Generic;
using System.IO;
using Apache.Arrow;
using Apache.Arrow.Ipc;
using Apache.Arrow.Types;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// A table that grows row by row into an Arrow IPC file; the cells of a row come in the order of
    /// the columns. The file takes its name only when <see cref="Finish"/> ends well.
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
        private int held;

        /// <summary>Begins the file NAME.arrow in a folder.</summary>
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

        /// <summary>Rows so far.</summary>
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

        /// <summary>A cell that is not known.</summary>
        public ArrowTable Null()
        {
            if (next < columns.Length && !columns[next].Nullable)
            {
                throw new InvalidOperationException(columns[next].Name + " is never NULL");
            }
            Next().AddNull();
            return this;
        }

        /// <summary>That many cells that are not known.</summary>
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
                    path + ": a row of " + next + " cells, not of " + columns.Length);
            }
            next = 0;
            Rows += 1;
            held += 1;
            if (held == BatchRows)
            {
                WriteBatch();
            }
        }

        /// <summary>Writes the rest and gives the file its name.</summary>
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
                throw new InvalidOperationException(path + ": a row of too many cells");
            }
            next += 1;
            return cells[next - 1];
        }

        private void WriteBatch()
        {
            if (held == 0)
            {
                return;
            }
            var arrays = new List<IArrowArray>();
            foreach (Cells column in cells)
            {
                arrays.Add(column.Build());
            }
            using (var batch = new RecordBatch(schema, arrays, held))
            {
                writer.WriteRecordBatch(batch);
            }
            cells = NewCells();
            held = 0;
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

        /// <summary>One column of a batch; a cell of another type than its own is a mistake.</summary>
        private abstract class Cells
        {
            public virtual void Add(long value)
            {
                throw new InvalidOperationException("the column holds no Int64");
            }

            public virtual void Add(int value)
            {
                throw new InvalidOperationException("the column holds no Int32");
            }

            public virtual void Add(bool value)
            {
                throw new InvalidOperationException("the column holds no Boolean");
            }

            public virtual void Add(string value)
            {
                throw new InvalidOperationException("the column holds no text");
            }

            public virtual void Add(IReadOnlyList<int> values)
            {
                throw new InvalidOperationException("the column holds no lists");
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

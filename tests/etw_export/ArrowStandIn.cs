// A stand-in for the part of Apache.Arrow that the exporter uses, with the library's own names and
// shapes. Where the library writes Arrow IPC this writes JSON lines: the schema, then a line a batch.
// Rules of the library that are easy to break are kept: a file begins before its batches and ends once.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Text;

namespace Apache.Arrow.Types
{
    public interface IArrowType
    {
        string Name { get; }
    }

    public abstract class ArrowType : IArrowType
    {
        public abstract string Name { get; }
    }

    public sealed class Int64Type : ArrowType
    {
        public static readonly Int64Type Default = new Int64Type();
        public override string Name { get { return "int64"; } }
    }

    public sealed class Int32Type : ArrowType
    {
        public static readonly Int32Type Default = new Int32Type();
        public override string Name { get { return "int32"; } }
    }

    public sealed class BooleanType : ArrowType
    {
        public static readonly BooleanType Default = new BooleanType();
        public override string Name { get { return "bool"; } }
    }

    public sealed class StringType : ArrowType
    {
        public static readonly StringType Default = new StringType();
        public override string Name { get { return "utf8"; } }
    }

    public sealed class ListType : ArrowType
    {
        public ListType(IArrowType valueDataType)
        {
            ValueDataType = valueDataType;
        }

        public IArrowType ValueDataType { get; private set; }
        public override string Name { get { return "list<" + ValueDataType.Name + ">"; } }
    }
}

namespace Apache.Arrow.Memory
{
    public abstract class MemoryAllocator
    {
    }
}

namespace Apache.Arrow
{
    using Apache.Arrow.Memory;
    using Apache.Arrow.Types;

    public sealed class Field
    {
        public Field(
            string name,
            IArrowType dataType,
            bool nullable,
            IEnumerable<KeyValuePair<string, string>> metadata = null)
        {
            Name = name;
            DataType = dataType;
            IsNullable = nullable;
        }

        public string Name { get; private set; }
        public IArrowType DataType { get; private set; }
        public bool IsNullable { get; private set; }
    }

    public sealed class Schema
    {
        private Schema(List<Field> fields)
        {
            FieldsList = fields;
        }

        public IReadOnlyList<Field> FieldsList { get; private set; }

        public class Builder
        {
            private readonly List<Field> fields = new List<Field>();

            public Builder Field(Field field)
            {
                fields.Add(field);
                return this;
            }

            public Schema Build()
            {
                return new Schema(fields);
            }
        }
    }

    public interface IArrowArray : IDisposable
    {
        int Length { get; }
    }

    public interface IArrowArrayBuilder
    {
        int Length { get; }
    }

    public interface IArrowArrayBuilder<out TArray> : IArrowArrayBuilder
        where TArray : IArrowArray
    {
        TArray Build(MemoryAllocator allocator);
    }

    public interface IArrowArrayBuilder<out TArray, out TBuilder> : IArrowArrayBuilder<TArray>
        where TArray : IArrowArray
        where TBuilder : IArrowArrayBuilder<TArray>
    {
        TBuilder AppendNull();
    }

    /// <summary>Cells as JSON.</summary>
    public abstract class Array : IArrowArray
    {
        internal IReadOnlyList<string> Cells;

        public int Length { get { return Cells.Count; } }

        public void Dispose()
        {
        }
    }

    public abstract class PrimitiveArrayBuilder<T, TArray, TBuilder> : IArrowArrayBuilder<TArray, TBuilder>
        where TArray : Array, new()
        where TBuilder : class, IArrowArrayBuilder<TArray>
    {
        private readonly List<string> cells = new List<string>();

        public int Length { get { return cells.Count; } }

        public TBuilder Append(T value)
        {
            cells.Add(string.Format(CultureInfo.InvariantCulture, "{0}", value).ToLowerInvariant());
            return this as TBuilder;
        }

        public TBuilder AppendNull()
        {
            cells.Add("null");
            return this as TBuilder;
        }

        public TArray Build(MemoryAllocator allocator = null)
        {
            return new TArray { Cells = cells.ToArray() };
        }
    }

    public class Int64Array : Array
    {
        public class Builder : PrimitiveArrayBuilder<long, Int64Array, Builder>
        {
        }
    }

    public class Int32Array : Array
    {
        public class Builder : PrimitiveArrayBuilder<int, Int32Array, Builder>
        {
        }
    }

    public class BooleanArray : Array
    {
        public class Builder : PrimitiveArrayBuilder<bool, BooleanArray, Builder>
        {
        }
    }

    public class StringArray : Array
    {
        public class Builder : IArrowArrayBuilder<StringArray, Builder>
        {
            private readonly List<string> cells = new List<string>();

            public int Length { get { return cells.Count; } }

            public Builder Append(string value, Encoding encoding = null)
            {
                cells.Add(value == null ? "null" : Json.Quoted(value));
                return this;
            }

            public Builder AppendNull()
            {
                cells.Add("null");
                return this;
            }

            public StringArray Build(MemoryAllocator allocator = null)
            {
                return new StringArray { Cells = cells.ToArray() };
            }
        }
    }

    public class ListArray : Array
    {
        public class Builder : IArrowArrayBuilder<ListArray, Builder>
        {
            private readonly List<int> offsets = new List<int>();
            private readonly List<bool> valid = new List<bool>();

            public Builder(IArrowType valueDataType)
            {
                if (!(valueDataType is Int32Type))
                {
                    throw new NotSupportedException("lists of " + valueDataType.Name);
                }
                ValueBuilder = new Int32Array.Builder();
            }

            public IArrowArrayBuilder<IArrowArray, IArrowArrayBuilder<IArrowArray>> ValueBuilder { get; private set; }

            public int Length { get { return valid.Count; } }

            public Builder Append()
            {
                offsets.Add(ValueBuilder.Length);
                valid.Add(true);
                return this;
            }

            public Builder AppendNull()
            {
                offsets.Add(ValueBuilder.Length);
                valid.Add(false);
                return this;
            }

            public ListArray Build(MemoryAllocator allocator = null)
            {
                offsets.Add(ValueBuilder.Length);
                var items = (Int32Array)ValueBuilder.Build(allocator);
                var cells = new List<string>();
                for (int row = 0; row < valid.Count; row++)
                {
                    var values = new List<string>();
                    for (int item = offsets[row]; item < offsets[row + 1]; item++)
                    {
                        values.Add(items.Cells[item]);
                    }
                    cells.Add(valid[row] ? "[" + string.Join(",", values) + "]" : "null");
                }
                return new ListArray { Cells = cells };
            }
        }
    }

    public class RecordBatch : IDisposable
    {
        public RecordBatch(Schema schema, IEnumerable<IArrowArray> data, int length)
        {
            Schema = schema;
            Arrays = new List<IArrowArray>(data);
            Length = length;
            foreach (IArrowArray array in Arrays)
            {
                if (array.Length != length)
                {
                    throw new ArgumentException("a column of " + array.Length + " cells, not of " + length);
                }
            }
        }

        public Schema Schema { get; private set; }
        public IReadOnlyList<IArrowArray> Arrays { get; private set; }
        public int Length { get; private set; }

        public void Dispose()
        {
        }
    }

    internal static class Json
    {
        internal static string Quoted(string text)
        {
            var quoted = new StringBuilder("\"");
            foreach (char letter in text)
            {
                quoted.Append("\\u").Append(((int)letter).ToString("x4"));
            }
            return quoted.Append('"').ToString();
        }
    }
}

namespace Apache.Arrow.Ipc
{
    public class ArrowFileWriter : IDisposable
    {
        private readonly StreamWriter to;
        private readonly Schema schema;
        private bool begun;
        private bool ended;

        public ArrowFileWriter(Stream stream, Schema schema)
        {
            to = new StreamWriter(stream, new UTF8Encoding(false));
            this.schema = schema;
        }

        public void WriteStart()
        {
            if (begun)
            {
                throw new InvalidOperationException("begun twice");
            }
            begun = true;
            var fields = new List<string>();
            foreach (Field field in schema.FieldsList)
            {
                fields.Add(
                    "[" + Json.Quoted(field.Name) + "," + Json.Quoted(field.DataType.Name) + ","
                    + (field.IsNullable ? "true" : "false") + "]");
            }
            to.Write("[" + string.Join(",", fields) + "]\n");
        }

        public void WriteRecordBatch(RecordBatch recordBatch)
        {
            if (!begun || ended)
            {
                throw new InvalidOperationException("a batch outside of the file");
            }
            var columns = new List<string>();
            foreach (IArrowArray array in recordBatch.Arrays)
            {
                columns.Add("[" + string.Join(",", ((Array)array).Cells) + "]");
            }
            to.Write("[" + string.Join(",", columns) + "]\n");
        }

        public void WriteEnd()
        {
            if (!begun || ended)
            {
                throw new InvalidOperationException("an end without a begin");
            }
            ended = true;
            to.Write("\"end\"\n");
        }

        public void Dispose()
        {
            to.Dispose();
        }
    }
}

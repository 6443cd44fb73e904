using System;
using System.Collections.Generic;
using System.IO;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// Periods with a value, in the order (start, CPU, end, value). Memory is one run of rows: full
    /// runs are sorted into files, which are merged.
    /// </summary>
    public sealed class SortedStretches : IDisposable
    {
        /// <summary>Rows in memory; each takes 32 bytes.</summary>
        public const int RunRows = 1 << 18;

        private const int BufferBytes = 1 << 16;

        private readonly string prefix;
        private readonly List<Row> run = new List<Row>();
        private readonly List<string> files = new List<string>();

        /// <summary>An empty list; its files begin with <paramref name="prefix"/>.</summary>
        public SortedStretches(string prefix)
        {
            this.prefix = prefix;
        }

        /// <summary>A period and its value.</summary>
        public struct Row : IComparable<Row>
        {
            public Stretch Stretch;
            public long Value;

            public int CompareTo(Row other)
            {
                int order = Stretch.StartNs.CompareTo(other.Stretch.StartNs);
                order = order != 0 ? order : Stretch.Cpu.CompareTo(other.Stretch.Cpu);
                order = order != 0 ? order : Stretch.EndNs.CompareTo(other.Stretch.EndNs);
                return order != 0 ? order : Value.CompareTo(other.Value);
            }
        }

        public void Add(Stretch stretch, long value)
        {
            run.Add(new Row { Stretch = stretch, Value = value });
            if (run.Count == RunRows)
            {
                Flush();
            }
        }

        /// <summary>All rows in order; call it once, after the last row was added.</summary>
        public IEnumerable<Row> InOrder()
        {
            run.Sort();
            if (files.Count == 0)
            {
                return run;
            }
            Flush();
            return Merged();
        }

        public void Dispose()
        {
            foreach (string file in files)
            {
                File.Delete(file);
            }
        }

        private void Flush()
        {
            if (run.Count == 0)
            {
                return;
            }
            run.Sort();
            string path = prefix + "." + files.Count;
            files.Add(path);
            using (var to = new BinaryWriter(
                new FileStream(path, FileMode.Create, FileAccess.Write, FileShare.None, BufferBytes)))
            {
                foreach (Row row in run)
                {
                    to.Write(row.Stretch.StartNs);
                    to.Write(row.Stretch.EndNs);
                    to.Write(row.Stretch.Cpu);
                    to.Write(row.Value);
                }
            }
            run.Clear();
        }

        private IEnumerable<Row> Merged()
        {
            var open = new List<Cursor>();
            try
            {
                var next = new SortedSet<Cursor>();
                foreach (string file in files)
                {
                    var cursor = new Cursor(file, open.Count);
                    open.Add(cursor);
                    if (cursor.Read())
                    {
                        next.Add(cursor);
                    }
                }
                while (next.Count > 0)
                {
                    Cursor first = next.Min;
                    next.Remove(first);
                    yield return first.Row;
                    if (first.Read())
                    {
                        next.Add(first);
                    }
                }
            }
            finally
            {
                foreach (Cursor cursor in open)
                {
                    cursor.Dispose();
                }
            }
        }

        /// <summary>Reads one file back; cursors are ordered by their current row.</summary>
        private sealed class Cursor : IComparable<Cursor>, IDisposable
        {
            private const int RowBytes = 8 + 8 + 4 + 8;

            private readonly BinaryReader from;
            private readonly int number;
            private long left;

            public Cursor(string path, int number)
            {
                var file = new FileStream(
                    path, FileMode.Open, FileAccess.Read, FileShare.Read, BufferBytes);
                left = file.Length / RowBytes;
                from = new BinaryReader(file);
                this.number = number;
            }

            public Row Row { get; private set; }

            public bool Read()
            {
                if (left == 0)
                {
                    return false;
                }
                left -= 1;
                var stretch = new Stretch { StartNs = from.ReadInt64(), EndNs = from.ReadInt64() };
                stretch.Cpu = from.ReadInt32();
                Row = new Row { Stretch = stretch, Value = from.ReadInt64() };
                return true;
            }

            public int CompareTo(Cursor other)
            {
                int order = Row.CompareTo(other.Row);
                return order != 0 ? order : number.CompareTo(other.number);
            }

            public void Dispose()
            {
                from.Dispose();
            }
        }
    }
}

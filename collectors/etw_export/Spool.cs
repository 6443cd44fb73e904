using System;
using System.Collections.Generic;
using System.IO;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// Keeps the switches and ready events of each CPU on disk until the whole trace is read, because
    /// only then is it known which life of a thread an id meant. Memory is one buffer per CPU.
    /// </summary>
    public sealed class Spool : IRowSink, IDisposable
    {
        private const int MaxCpus = 4096;
        private const int BufferBytes = 1 << 16;

        private readonly string folder;
        private readonly SortedDictionary<int, Stream> cpus = new SortedDictionary<int, Stream>();

        /// <summary>An empty spool in a new folder, which disposing deletes.</summary>
        public Spool(string folder)
        {
            this.folder = folder;
            Directory.CreateDirectory(folder);
        }

        /// <summary>Where other temporary files may be, too.</summary>
        public string Folder
        {
            get { return folder; }
        }

        /// <summary>Number of rows that are earlier than the previous row of their CPU.</summary>
        public long Backwards { get; private set; }

        /// <summary>Number of rows with an impossible CPU number.</summary>
        public long BadCpus { get; private set; }

        public void Switch(SwitchRow row)
        {
            Stream stream = StreamOf(row.Cpu);
            if (stream == null)
            {
                return;
            }
            BinaryWriter to = stream.Switches;
            to.Write(InOrder(stream, row.Ns));
            to.Write(stream.Rows++);
            to.Write(row.OldTid);
            to.Write(row.NewTid);
            to.Write(row.OldState);
            to.Write(row.OldWaitReason);
            to.Write(row.OldWaitMode);
            to.Write(row.OldPriority);
            to.Write(row.NewPriority);
            to.Write(row.OldIdealCpu);
            to.Write(row.OldIdleState.HasValue);
            to.Write(row.OldIdleState.GetValueOrDefault());
        }

        public void Ready(ReadyRow row)
        {
            Stream stream = StreamOf(row.Cpu);
            if (stream == null)
            {
                return;
            }
            BinaryWriter to = stream.Readies;
            to.Write(InOrder(stream, row.Ns));
            to.Write(stream.Rows++);
            to.Write(row.Tid);
            to.Write(row.InDpc);
        }

        /// <summary>
        /// Returns all rows in the order (time, CPU, position). A ready row comes with the ids of the
        /// threads that the next and the previous switch on its CPU name as running.
        /// </summary>
        public void Replay(Action<SwitchRow, long> onSwitch, Action<ReadyRow, long, long?, long?> onReady)
        {
            var cursors = new List<Cursor>();
            try
            {
                var heap = new SortedSet<Cursor>();
                foreach (KeyValuePair<int, Stream> pair in cpus)
                {
                    pair.Value.Close();
                    var switches = new SwitchCursor(pair.Key, pair.Value.SwitchPath);
                    cursors.Add(switches);
                    var readies = new ReadyCursor(pair.Key, pair.Value.ReadyPath, switches);
                    cursors.Add(readies);
                }
                foreach (Cursor cursor in cursors)
                {
                    if (cursor.Read())
                    {
                        heap.Add(cursor);
                    }
                }
                while (heap.Count > 0)
                {
                    Cursor first = heap.Min;
                    heap.Remove(first);
                    first.HandOut(onSwitch, onReady);
                    if (first.Read())
                    {
                        heap.Add(first);
                    }
                }
            }
            finally
            {
                foreach (Cursor cursor in cursors)
                {
                    cursor.Dispose();
                }
            }
        }

        public void Dispose()
        {
            foreach (Stream stream in cpus.Values)
            {
                stream.Close();
            }
            Directory.Delete(folder, true);
        }

        private Stream StreamOf(int cpu)
        {
            if (cpu < 0 || cpu >= MaxCpus)
            {
                BadCpus += 1;
                return null;
            }
            Stream found;
            if (!cpus.TryGetValue(cpu, out found))
            {
                found = new Stream(folder, cpu);
                cpus.Add(cpu, found);
            }
            return found;
        }

        private long InOrder(Stream stream, long ns)
        {
            if (ns < stream.LastNs)
            {
                Backwards += 1;
                return stream.LastNs;
            }
            stream.LastNs = ns;
            return ns;
        }

        /// <summary>The two files of a CPU while they are written.</summary>
        private sealed class Stream
        {
            public readonly string SwitchPath;
            public readonly string ReadyPath;
            public readonly BinaryWriter Switches;
            public readonly BinaryWriter Readies;
            public long LastNs = long.MinValue;
            public long Rows;

            public Stream(string folder, int cpu)
            {
                SwitchPath = Path.Combine(folder, cpu + ".switches");
                ReadyPath = Path.Combine(folder, cpu + ".readies");
                Switches = WriterOf(SwitchPath);
                Readies = WriterOf(ReadyPath);
            }

            public void Close()
            {
                Switches.Dispose();
                Readies.Dispose();
            }

            private static BinaryWriter WriterOf(string path)
            {
                return new BinaryWriter(
                    new FileStream(path, FileMode.Create, FileAccess.Write, FileShare.None, BufferBytes));
            }
        }

        /// <summary>Reads back one file of a CPU; cursors are ordered by their current row.</summary>
        private abstract class Cursor : IComparable<Cursor>, IDisposable
        {
            protected readonly int Cpu;
            protected readonly BinaryReader From;
            protected long Ns;
            protected long Seq;
            private readonly long length;
            private long read;

            protected Cursor(int cpu, string path)
            {
                Cpu = cpu;
                var file = new FileStream(
                    path, FileMode.Open, FileAccess.Read, FileShare.Read, BufferBytes);
                length = file.Length;
                From = new BinaryReader(file);
            }

            protected abstract int RowBytes { get; }

            public virtual bool Read()
            {
                if (read + RowBytes > length)
                {
                    return false;
                }
                read += RowBytes;
                Ns = From.ReadInt64();
                Seq = From.ReadInt64();
                ReadRow();
                return true;
            }

            public int CompareTo(Cursor other)
            {
                int order = Ns.CompareTo(other.Ns);
                order = order != 0 ? order : Cpu.CompareTo(other.Cpu);
                return order != 0 ? order : Seq.CompareTo(other.Seq);
            }

            public abstract void HandOut(
                Action<SwitchRow, long> onSwitch, Action<ReadyRow, long, long?, long?> onReady);

            public void Dispose()
            {
                From.Dispose();
            }

            protected abstract void ReadRow();
        }

        private sealed class SwitchCursor : Cursor
        {
            private SwitchRow row;

            public SwitchCursor(int cpu, string path) : base(cpu, path)
            {
            }

            /// <summary>The thread that leaves at the current switch; null after the last one.</summary>
            public long? Leaver { get; private set; }

            /// <summary>The planned thread of the last returned switch; null before the first one.</summary>
            public long? Entered { get; private set; }

            protected override int RowBytes
            {
                get { return 8 + 8 + 8 + 8 + 6 * 4 + 1 + 4; }
            }

            public override bool Read()
            {
                bool more = base.Read();
                Leaver = more ? row.OldTid : (long?)null;
                return more;
            }

            public override void HandOut(
                Action<SwitchRow, long> onSwitch, Action<ReadyRow, long, long?, long?> onReady)
            {
                Entered = row.NewTid;
                onSwitch(row, Seq);
            }

            protected override void ReadRow()
            {
                row.Ns = Ns;
                row.Cpu = Cpu;
                row.OldTid = From.ReadInt64();
                row.NewTid = From.ReadInt64();
                row.OldState = From.ReadInt32();
                row.OldWaitReason = From.ReadInt32();
                row.OldWaitMode = From.ReadInt32();
                row.OldPriority = From.ReadInt32();
                row.NewPriority = From.ReadInt32();
                row.OldIdealCpu = From.ReadInt32();
                bool hasIdleState = From.ReadBoolean();
                int idleState = From.ReadInt32();
                row.OldIdleState = hasIdleState ? idleState : (int?)null;
            }
        }

        private sealed class ReadyCursor : Cursor
        {
            private readonly SwitchCursor switches;
            private ReadyRow row;

            public ReadyCursor(int cpu, string path, SwitchCursor switches) : base(cpu, path)
            {
                this.switches = switches;
            }

            protected override int RowBytes
            {
                get { return 8 + 8 + 8 + 1; }
            }

            public override void HandOut(
                Action<SwitchRow, long> onSwitch, Action<ReadyRow, long, long?, long?> onReady)
            {
                onReady(row, Seq, switches.Leaver, switches.Entered);
            }

            protected override void ReadRow()
            {
                row.Ns = Ns;
                row.Cpu = Cpu;
                row.Tid = From.ReadInt64();
                row.InDpc = From.ReadBoolean();
            }
        }
    }
}

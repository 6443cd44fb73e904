// Runs the table side of the exporter on rows from a text file: what TraceProcessor would have said.
// A line is a kind of row and its values, split by tabs; an empty value is null.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;

namespace Schedlens.EtwExport
{
    public static class TableSideRun
    {
        public static int Main(string[] arguments)
        {
            string folder = arguments[1];
            Directory.CreateDirectory(folder);
            using (var spool = new Spool(Path.Combine(folder, "spool")))
            {
                var rest = new WrittenRest(arguments[0], spool);
                TablesExport.Write(folder, spool, rest, "table side alone");
            }
            return 0;
        }

        private sealed class WrittenRest : IRestOfTrace
        {
            private readonly List<CpuRow> cpus = new List<CpuRow>();
            private readonly List<SettingRow> settings = new List<SettingRow>();
            private readonly List<ProcessLife> processes = new List<ProcessLife>();
            private readonly List<ThreadLife> threads = new List<ThreadLife>();
            private readonly List<ProblemRow> problems = new List<ProblemRow>();
            private List<ParkingRow> parking;
            private List<FrequencyRow> frequencies;
            private List<IdleRow> idleStates;
            private List<InterruptRow> interrupts;
            private long madeInterrupts;
            private List<CounterRow> counters;
            private List<MarkRow> marks;
            private List<PresentRow> presents;

            public WrittenRest(string path, IRowSink sink)
            {
                foreach (string line in File.ReadLines(path))
                {
                    Take(line.Split('\t'), sink);
                }
            }

            public TraceFacts Facts { get; private set; }
            public IEnumerable<CpuRow> Cpus { get { return cpus; } }
            public IEnumerable<SettingRow> Settings { get { return settings; } }
            public IEnumerable<ProcessLife> Processes { get { return processes; } }
            public IEnumerable<ThreadLife> Threads { get { return threads; } }
            public IEnumerable<ParkingRow> Parking { get { return parking; } }
            public IEnumerable<FrequencyRow> Frequencies { get { return frequencies; } }
            public IEnumerable<IdleRow> IdleStates { get { return idleStates; } }
            public IEnumerable<InterruptRow> Interrupts
            {
                get { return madeInterrupts > 0 ? Made(madeInterrupts) : interrupts; }
            }

            /// <summary>Rows that are in no memory, in an order that is none of time.</summary>
            private static IEnumerable<InterruptRow> Made(long count)
            {
                for (long at = 0; at < count; at++)
                {
                    long start = at * 7919 % count * 1000;
                    yield return new InterruptRow
                    {
                        Stretch = new Stretch { Cpu = (int)(at % 3), StartNs = start, EndNs = start + at % 500 },
                        Kind = at % 2 == 0 ? "isr" : "dpc",
                    };
                }
            }

            public IEnumerable<CounterRow> Counters { get { return counters; } }
            public IEnumerable<MarkRow> Marks { get { return marks; } }
            public IEnumerable<PresentRow> Presents { get { return presents; } }
            public IEnumerable<ProblemRow> Problems { get { return problems; } }

            private void Take(string[] v, IRowSink sink)
            {
                switch (v[0])
                {
                    case "facts":
                        Facts = new TraceFacts
                        {
                            Path = Text(v[1]), Host = Text(v[2]), Os = Text(v[3]), CpuModel = Text(v[4]),
                            ClockName = Text(v[5]), StartClock = Maybe(v[6]), ClockHz = Maybe(v[7]),
                            StartTimeUtcNs = Maybe(v[8]), DurationNs = Maybe(v[9]),
                            EventsLost = Maybe(v[10]), BuffersLost = Maybe(v[11]), CpuCount = Int(v[12]),
                        };
                        break;
                    case "switch":
                        sink.Switch(new SwitchRow
                        {
                            Ns = Long(v[1]), Cpu = Int(v[2]), OldTid = Long(v[3]), NewTid = Long(v[4]),
                            OldState = Int(v[5]), OldWaitReason = Int(v[6]), OldWaitMode = Int(v[7]),
                            OldPriority = Int(v[8]), NewPriority = Int(v[9]), OldIdealCpu = Int(v[10]),
                            OldIdleState = (int?)Maybe(v[11]),
                        });
                        break;
                    case "ready":
                        sink.Ready(new ReadyRow
                        {
                            Ns = Long(v[1]), Cpu = Int(v[2]), Tid = Long(v[3]), InDpc = v[4] == "1",
                        });
                        break;
                    case "cpu":
                        cpus.Add(new CpuRow
                        {
                            Cpu = Int(v[1]), EfficiencyClass = (int?)Maybe(v[2]), BaseKhz = Maybe(v[3]),
                        });
                        break;
                    case "setting":
                        settings.Add(new SettingRow { Key = v[1], Value = Text(v[2]) });
                        break;
                    case "process":
                        processes.Add(new ProcessLife
                        {
                            Pid = Long(v[1]), Name = Text(v[2]), StartNs = Maybe(v[3]), EndNs = Maybe(v[4]),
                            ParentPid = Maybe(v[5]), SessionId = Maybe(v[6]), CommandLine = Text(v[7]),
                        });
                        break;
                    case "thread":
                        threads.Add(new ThreadLife
                        {
                            Tid = Long(v[1]), Pid = Maybe(v[2]), Name = Text(v[3]), StartNs = Maybe(v[4]),
                            EndNs = Maybe(v[5]), BasePriority = (int?)Maybe(v[6]),
                            Affinity = ulong.Parse(v[7], CultureInfo.InvariantCulture),
                        });
                        break;
                    case "parking":
                        parking = parking ?? new List<ParkingRow>();
                        parking.Add(new ParkingRow { Stretch = StretchOf(v), Parked = v[4] == "1" });
                        break;
                    case "frequency":
                        frequencies = frequencies ?? new List<FrequencyRow>();
                        frequencies.Add(new FrequencyRow { Stretch = StretchOf(v), Khz = Long(v[4]) });
                        break;
                    case "idle":
                        idleStates = idleStates ?? new List<IdleRow>();
                        idleStates.Add(new IdleRow { Stretch = StretchOf(v), State = Int(v[4]) });
                        break;
                    case "interrupt":
                        interrupts = interrupts ?? new List<InterruptRow>();
                        interrupts.Add(new InterruptRow { Stretch = StretchOf(v), Kind = v[4] });
                        break;
                    case "interrupts":
                        madeInterrupts = Long(v[1]);
                        break;
                    case "counter":
                        counters = counters ?? new List<CounterRow>();
                        counters.Add(new CounterRow
                        {
                            Stretch = StretchOf(v), Tid = Long(v[4]), Counter = v[5],
                            Delta = ulong.Parse(v[6], CultureInfo.InvariantCulture),
                        });
                        break;
                    case "mark":
                        marks = marks ?? new List<MarkRow>();
                        marks.Add(new MarkRow { Ns = Long(v[1]), Text = Text(v[2]) });
                        break;
                    case "tick":
                        marks = marks ?? new List<MarkRow>();
                        marks.Add(new MarkRow { Ns = new Clock(Long(v[1]), Long(v[2])).Ns(Long(v[3])), Text = v[4] });
                        break;
                    case "present":
                        presents = presents ?? new List<PresentRow>();
                        presents.Add(new PresentRow
                        {
                            Ns = Long(v[1]), Pid = Long(v[2]), Tid = Long(v[3]), Returns = v[4] == "1",
                            SwapChain = Text(v[5]), Dialect = v[6],
                        });
                        break;
                    case "problem":
                        problems.Add(new ProblemRow { Place = v[1], What = v[2], Count = Long(v[3]) });
                        break;
                    default:
                        throw new FormatException(v[0]);
                }
            }

            private static Stretch StretchOf(string[] v)
            {
                return new Stretch { Cpu = Int(v[1]), StartNs = Long(v[2]), EndNs = Long(v[3]) };
            }

            private static long Long(string text)
            {
                return long.Parse(text, CultureInfo.InvariantCulture);
            }

            private static int Int(string text)
            {
                return int.Parse(text, CultureInfo.InvariantCulture);
            }

            private static long? Maybe(string text)
            {
                return text.Length == 0 ? (long?)null : Long(text);
            }

            private static string Text(string text)
            {
                return text.Length == 0 ? null : text;
            }
        }
    }
}

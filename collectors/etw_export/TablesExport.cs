using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;

namespace Schedlens.EtwExport
{
    /// <summary>Converts rows to the base tables: a folder of Arrow files and its manifest.</summary>
    public sealed class TablesExport
    {
        private const string Place = "etw_export";
        /// <summary>The record stores the ideal processor in one byte, so more CPUs do not fit.</summary>
        private const int IdealCpus = 256;
        private static readonly string[] InterruptKinds = { "dpc", "isr" };

        private readonly string folder;
        private readonly Spool spool;
        private readonly IRestOfTrace rest;
        private readonly SortedDictionary<string, long> rows =
            new SortedDictionary<string, long>(StringComparer.Ordinal);
        private readonly Problems problems = new Problems();
        private readonly Identities who;
        private long first;
        private long last;

        private TablesExport(string folder, Spool spool, IRestOfTrace rest)
        {
            this.folder = folder;
            this.spool = spool;
            this.rest = rest;
            who = new Identities(rest, problems);
        }

        /// <summary>
        /// Writes the spooled rows and the other tables; returns the row count of each table by name.
        /// </summary>
        public static IReadOnlyDictionary<string, long> Write(
            string folder, Spool spool, IRestOfTrace rest, string writtenBy)
        {
            var export = new TablesExport(folder, spool, rest);
            export.WriteAll(writtenBy);
            return export.rows;
        }

        private void WriteAll(string writtenBy)
        {
            TraceFacts facts = rest.Facts;
            last = facts.DurationNs ?? 0;
            Write("process", who.WriteProcesses);
            who.TakeThreads();
            WriteSwitchesAndReadies();
            WriteStretches();
            WriteCounters();
            WriteFrames();
            WriteMarks();
            // Late, because the records may name threads that the trace does not list.
            Write("thread", who.WriteThreads);
            Write("thread_name", who.WriteNames);
            Write("affinity", who.WriteAffinities);
            WriteMachine();
            WriteLoss();
            WriteProblems();
            var manifest = new Manifest(facts, first, last, rows, writtenBy);
            manifest.Write(folder);
        }

        private void Write(string name, Action<ArrowTable> fill)
        {
            using (var table = new ArrowTable(folder, name))
            {
                fill(table);
                table.Finish();
                rows[name] = table.Rows;
            }
        }

        private void Seen(long ns)
        {
            first = Math.Min(first, ns);
            last = Math.Max(last, ns);
        }

        private void WriteSwitchesAndReadies()
        {
            bool lost = rest.Facts.EventsLost > 0 || rest.Facts.BuffersLost > 0;
            bool idealKnown = rest.Facts.CpuCount <= IdealCpus;
            long unsure = 0;
            Write("context_switch", switches => Write("wakeup", wakeups => spool.Replay(
                (row, seq) =>
                {
                    Seen(row.Ns);
                    switches.Long(Identities.TraceId).Long(row.Ns).Int(row.Cpu).Long(seq);
                    switches.Long(who.Thread(row.OldTid, row.Cpu, row.Ns));
                    switches.Long(who.Thread(row.NewTid, row.Cpu, row.Ns));
                    switches.Int(row.OldState).Int(row.OldWaitReason).Int(row.OldWaitMode);
                    switches.Int(row.OldPriority).Int(row.NewPriority).Null();
                    switches.Int(idealKnown ? row.OldIdealCpu : (int?)null);
                    // Only the idle thread leaves an idle state.
                    switches.Int(row.OldTid == 0 ? row.OldIdleState : null);
                    // TraceProcessor does not report the remaining quantum; stacks are not exported.
                    switches.Nulls(3).Text("switch").EndRow();
                },
                (row, seq, leaver, entered) =>
                {
                    Seen(row.Ns);
                    if (row.Tid == 0)
                    {
                        // An idle thread is always ready.
                        return;
                    }
                    // The thread that leaves next is the one that ran; the one that entered was only planned.
                    // If records are missing, the two may belong to different slices.
                    long? waker = leaver ?? entered;
                    if (lost && leaver != entered)
                    {
                        waker = null;
                        unsure += 1;
                    }
                    wakeups.Long(Identities.TraceId).Long(row.Ns).Int(row.Cpu).Long(seq);
                    wakeups.Long(who.Thread(row.Tid, row.Cpu, row.Ns));
                    wakeups.Long(waker.HasValue ? who.Thread(waker.Value, row.Cpu, row.Ns) : (long?)null);
                    wakeups.Nulls(2).Text("ready").Flag(row.InDpc).Nulls(2).EndRow();
                })));
            problems.Add(
                Place, "record earlier than the previous one on its CPU: took that one's time",
                spool.Backwards);
            if (rows["context_switch"] == 0)
            {
                problems.Add(
                    Place, "no context switches: record again with CSwitch and without CompactCSwitch", 1);
            }
            problems.Add(Place, "CPU number out of range: record skipped", spool.BadCpus);
            problems.Add(
                Place, "waker unknown: records are missing, and the switches around the ready event disagree",
                unsure);
        }

        private void WriteStretches()
        {
            if (rest.Interrupts != null)
            {
                using (SortedStretches found = Sorted("interrupt_slice"))
                {
                    // In the order of their names: 0 is dpc, 1 is isr.
                    foreach (InterruptRow row in rest.Interrupts)
                    {
                        found.Add(row.Stretch, Array.IndexOf(InterruptKinds, row.Kind));
                    }
                    var positions = new Dictionary<int, long>();
                    Write("interrupt_slice", table =>
                    {
                        foreach (SortedStretches.Row row in found.InOrder())
                        {
                            long seq;
                            positions.TryGetValue(row.Stretch.Cpu, out seq);
                            positions[row.Stretch.Cpu] = seq + 1;
                            Begin(table, row.Stretch).Long(seq);
                            table.Long(row.Stretch.EndNs - row.Stretch.StartNs);
                            table.Text(InterruptKinds[row.Value]).Null().EndRow();
                        }
                    });
                }
            }
            if (rest.IdleStates != null)
            {
                using (SortedStretches found = Sorted("cpu_idle"))
                {
                    foreach (IdleRow row in rest.IdleStates)
                    {
                        found.Add(row.Stretch, row.State);
                    }
                    Write("cpu_idle", table =>
                    {
                        foreach (SortedStretches.Row row in found.InOrder())
                        {
                            Begin(table, row.Stretch).Long(row.Stretch.EndNs - row.Stretch.StartNs);
                            table.Int((int)row.Value).EndRow();
                        }
                    });
                }
            }
            if (rest.Frequencies != null)
            {
                using (SortedStretches found = Sorted("cpu_frequency"))
                {
                    foreach (FrequencyRow row in rest.Frequencies)
                    {
                        found.Add(row.Stretch, row.Khz);
                    }
                    Write("cpu_frequency", table =>
                    {
                        foreach (SortedStretches.Row row in found.InOrder())
                        {
                            Begin(table, row.Stretch).Long(row.Value).EndRow();
                        }
                    });
                }
            }
            if (rest.Parking != null)
            {
                WriteParking(new List<ParkingRow>(rest.Parking));
            }
        }

        private SortedStretches Sorted(string table)
        {
            return new SortedStretches(Path.Combine(spool.Folder, table));
        }

        /// <summary>A row per change; between periods the state is NULL.</summary>
        private void WriteParking(List<ParkingRow> found)
        {
            found.Sort((a, b) => InTime(a.Stretch, b.Stretch));
            var changes = new List<KeyValuePair<Stretch, bool?>>();
            var ends = new Dictionary<int, long>();
            foreach (ParkingRow row in found)
            {
                long end;
                if (ends.TryGetValue(row.Stretch.Cpu, out end) && end < row.Stretch.StartNs)
                {
                    changes.Add(Unknown(row.Stretch.Cpu, end));
                }
                ends[row.Stretch.Cpu] = row.Stretch.EndNs;
                changes.Add(new KeyValuePair<Stretch, bool?>(row.Stretch, row.Parked));
            }
            foreach (KeyValuePair<int, long> end in ends)
            {
                if (end.Value < rest.Facts.DurationNs)
                {
                    changes.Add(Unknown(end.Key, end.Value));
                }
            }
            changes.Sort((a, b) => InTime(a.Key, b.Key));
            Write("cpu_parking", table => changes.ForEach(change =>
            {
                Begin(table, change.Key);
                if (change.Value.HasValue)
                {
                    table.Flag(change.Value.Value);
                }
                else
                {
                    table.Null();
                }
                table.Nulls(2).EndRow();
            }));
        }

        private static KeyValuePair<Stretch, bool?> Unknown(int cpu, long ns)
        {
            var hole = new Stretch { Cpu = cpu, StartNs = ns, EndNs = ns };
            return new KeyValuePair<Stretch, bool?>(hole, null);
        }

        private ArrowTable Begin(ArrowTable table, Stretch stretch)
        {
            Seen(stretch.StartNs);
            return table.Long(Identities.TraceId).Long(stretch.StartNs).Int(stretch.Cpu);
        }

        private static int InTime(Stretch a, Stretch b)
        {
            int order = a.StartNs.CompareTo(b.StartNs);
            order = order != 0 ? order : a.Cpu.CompareTo(b.Cpu);
            return order != 0 ? order : a.EndNs.CompareTo(b.EndNs);
        }

        /// <summary>Running sums of each CPU, sampled at the end of each of its slices.</summary>
        private void WriteCounters()
        {
            if (rest.Counters == null)
            {
                return;
            }
            var found = new List<CounterRow>(rest.Counters);
            found.Sort((a, b) =>
            {
                int order = a.Stretch.EndNs.CompareTo(b.Stretch.EndNs);
                order = order != 0 ? order : a.Stretch.Cpu.CompareTo(b.Stretch.Cpu);
                order = order != 0 ? order : a.Stretch.StartNs.CompareTo(b.Stretch.StartNs);
                return order != 0 ? order : string.CompareOrdinal(a.Counter, b.Counter);
            });
            Dictionary<int, string> types = CoreTypes();
            var sums = new Dictionary<string, ulong>();
            Write("counter_sample", table => found.ForEach(row =>
            {
                int cpu = row.Stretch.Cpu;
                string key = cpu + " " + row.Counter;
                ulong sum;
                sums.TryGetValue(key, out sum);
                sum = unchecked(sum + row.Delta);
                sums[key] = sum;
                Seen(row.Stretch.EndNs);
                string type;
                types.TryGetValue(cpu, out type);
                table.Long(Identities.TraceId).Long(row.Stretch.EndNs).Int(cpu);
                table.Long(who.Thread(row.Tid, cpu, row.Stretch.StartNs)).Text(row.Counter);
                table.Text(type).Long(unchecked((long)sum)).EndRow();
            }));
        }

        private void WriteFrames()
        {
            if (rest.Presents != null)
            {
                Write("frame", table => new Frames(who).Write(rest.Presents, table));
            }
        }

        private void WriteMarks()
        {
            if (rest.Marks == null)
            {
                return;
            }
            Write("mark", table =>
            {
                foreach (MarkRow row in rest.Marks.OrderBy(mark => mark.Ns))
                {
                    Seen(row.Ns);
                    table.Long(Identities.TraceId).Long(row.Ns).Long(0).Text(row.Text ?? "").Text("user").EndRow();
                }
            });
        }

        private void WriteMachine()
        {
            Dictionary<int, string> types = CoreTypes();
            Write("cpu", table =>
            {
                foreach (CpuRow row in rest.Cpus)
                {
                    string type;
                    types.TryGetValue(row.Cpu, out type);
                    table.Long(Identities.TraceId).Int(row.Cpu).Nulls(4).Text(type).Int(row.EfficiencyClass);
                    table.Nulls(5).Long(row.BaseKhz).Null().Flag(true).Null().EndRow();
                }
            });
            Write("machine_setting", table =>
            {
                foreach (SettingRow row in rest.Settings)
                {
                    table.Long(Identities.TraceId).Text(row.Key).Text(row.Value).EndRow();
                }
            });
        }

        /// <summary>Names of the core types by efficiency rank, if every CPU has a class.</summary>
        private Dictionary<int, string> CoreTypes()
        {
            var ranks = new SortedSet<int>();
            var found = new Dictionary<int, string>();
            foreach (CpuRow row in rest.Cpus)
            {
                if (!row.EfficiencyClass.HasValue)
                {
                    return found;
                }
                ranks.Add(row.EfficiencyClass.Value);
            }
            string[][] words =
            {
                new[] { "U" }, new[] { "E", "P" }, new[] { "LP-E", "E", "P" },
            };
            var order = new List<int>(ranks);
            foreach (CpuRow row in rest.Cpus)
            {
                int rank = order.IndexOf(row.EfficiencyClass.GetValueOrDefault());
                found[row.Cpu] = ranks.Count <= words.Length
                    ? words[ranks.Count - 1][rank]
                    : row.EfficiencyClass.GetValueOrDefault().ToString();
            }
            return found;
        }

        /// <summary>The trace reports how much was lost, but not on which CPU or when.</summary>
        private void WriteLoss()
        {
            Write("loss", table =>
            {
                long? events = rest.Facts.EventsLost;
                long? buffers = rest.Facts.BuffersLost;
                if (events > 0)
                {
                    table.Long(Identities.TraceId).Nulls(3).Long(events).Text("events_lost").EndRow();
                }
                if (buffers > 0)
                {
                    table.Long(Identities.TraceId).Nulls(4).Text("buffer_lost").EndRow();
                }
            });
            if (rest.Facts.EventsLost > 0 || rest.Facts.BuffersLost > 0)
            {
                problems.Add(
                    Place, "records were lost on unknown CPUs at unknown times: threads may be joined wrongly", 1);
            }
        }

        private void WriteProblems()
        {
            foreach (ProblemRow row in rest.Problems)
            {
                problems.Add(row.Place, row.What, row.Count);
            }
            Write("problem", problems.Write);
        }
    }
}

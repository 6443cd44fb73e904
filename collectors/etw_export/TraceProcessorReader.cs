using System;
using System.Collections.Generic;
using System.Reflection;
using Microsoft.Windows.EventTracing;
using Microsoft.Windows.EventTracing.Cpu;
using Microsoft.Windows.EventTracing.Events;
using Microsoft.Windows.EventTracing.Metadata;
using Microsoft.Windows.EventTracing.Power;
using Microsoft.Windows.EventTracing.Processes;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// The only caller of TraceProcessor. Its ids and times become plain numbers here, so a new
    /// version of it changes only this file.
    /// </summary>
    public sealed class TraceProcessorReader : IRestOfTrace, IDisposable
    {
        /// <summary>The name in the manifest of the package that this code is written for.</summary>
        public const string PackageName = "TraceProcessor 1.12.10";

        private const ulong PresentTest = 1;
        private const long NsPerTick = 100;
        private const long SystemTimeHertz = 10000000;
        private static readonly Guid Dxgi = new Guid("ca11c036-0102-4a2d-a6ad-f03cfed5d3c9");
        private static readonly Guid Direct3D9 = new Guid("783aca0a-790e-4d7f-8451-aa850511c6b9");
        private static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);

        // By reflection: the declarations for builds without the package lack this member.
        private static readonly PropertyInfo AddressOf = typeof(IGenericEventField).GetProperty("AsAddress");

        private readonly ITraceProcessor trace;
        private readonly Dictionary<string, long> problems = new Dictionary<string, long>();
        private readonly ITraceMetadata metadata;
        private readonly IPendingResult<ISystemMetadata> system;
        private readonly IPendingResult<IProcessDataSource> processes;
        private readonly IPendingResult<IThreadDataSource> threads;
        private readonly IPendingResult<IProcessorParkingDataSource> parking;
        private readonly IPendingResult<IProcessorFrequencyDataSource> frequencies;
        private readonly IPendingResult<ICpuIdleStateDataSource> idleStates;
        private readonly IPendingResult<IInterruptHandlingDataSource> interrupts;
        private readonly IPendingResult<IProcessorCounterDataSource> counters;
        private readonly IPendingResult<IMarkDataSource> marks;
        private readonly IPendingResult<IGenericEventDataSource> presents;
        private Clock clock;
        private bool clockChosen;
        private List<CpuRow> cpus;
        private TraceFacts facts;

        /// <summary>
        /// Opens a trace; switches and ready events go to <paramref name="sink"/> during processing.
        /// </summary>
        public TraceProcessorReader(Options options, IRowSink sink)
        {
            var settings = new TraceProcessorSettings();
            settings.AllowLostEvents = true;
            settings.SuppressFirstTimeSetupMessage = true;
            if (options.ToolkitPath != null)
            {
                settings.ToolkitPath = options.ToolkitPath;
            }
            trace = Guarded(options.TracePath, () => TraceProcessor.Create(options.TracePath, settings));
            metadata = trace.UseMetadata();
            system = trace.UseSystemMetadata();
            processes = trace.UseProcesses();
            threads = trace.UseThreads();
            parking = options.Wants("cpu_parking") ? trace.UseProcessorParkingData() : null;
            frequencies = options.Wants("cpu_frequency") ? trace.UseProcessorFrequencyData() : null;
            idleStates = options.Wants("cpu_idle") ? trace.UseCpuIdleStates() : null;
            interrupts = options.Wants("interrupt_slice") ? trace.UseInterruptHandlingData() : null;
            counters = options.Wants("counter_sample") ? trace.UseProcessorCounters() : null;
            marks = options.Wants("mark") ? trace.UseMarks() : null;
            presents = options.Wants("frame") ? trace.UseGenericEvents(Dxgi, Direct3D9) : null;
            IStreamingTraceSource streaming = trace.UseStreaming();
            streaming.UseContextSwitchEvents(context => sink.Switch(SwitchOf(context.Data)));
            streaming.UseReadyThreadEvents(context => sink.Ready(ReadyOf(context.Data)));
        }

        /// <summary>Reads the whole trace; reports the share read, 0 to 1.</summary>
        public void Process(string path, Action<double> onProgress)
        {
            Guarded(path, () =>
            {
                trace.Process(new ShareOfTrace(onProgress));
                return true;
            });
        }

        public TraceFacts Facts => facts ?? (facts = FactsOfTrace());

        public IEnumerable<CpuRow> Cpus => cpus ?? (cpus = CpuRows());

        public IEnumerable<SettingRow> Settings
        {
            get
            {
                ISystemMetadata machine = ResultOf(system, "system metadata");
                if (machine != null)
                {
                    yield return new SettingRow { Key = "manufacturer", Value = machine.Manufacturer };
                    yield return new SettingRow { Key = "model", Value = machine.Model };
                    yield return new SettingRow { Key = "bios_version", Value = machine.BiosVersion };
                    IReadOnlyList<IProcessor> found = ProcessorsOf(machine);
                    bool? smt = found.Count > 0 ? found[0].IsSimultaneousMultithreadingEnabled : null;
                    string word = smt.HasValue ? (smt.Value ? "on" : "off") : null;
                    yield return new SettingRow { Key = "smt_control", Value = word };
                }
            }
        }

        public IEnumerable<ProcessLife> Processes
        {
            get
            {
                foreach (IProcess process in RowsOf(processes, "processes", found => found.Processes))
                {
                    yield return new ProcessLife
                    {
                        Pid = Unsigned(process.Id),
                        Name = process.ImageName,
                        StartNs = WithinTrace(process.CreateTime),
                        EndNs = NsOrNull(process.ExitTime),
                        ParentPid = Unsigned(process.ParentId),
                        // -1: the process belongs to no session.
                        SessionId = process.SessionId < 0 ? null : (long?)process.SessionId,
                        CommandLine = process.CommandLine,
                    };
                }
            }
        }

        public IEnumerable<ThreadLife> Threads
        {
            get
            {
                foreach (IThread thread in RowsOf(threads, "threads", found => found.Threads))
                {
                    yield return new ThreadLife
                    {
                        Tid = Unsigned(thread.Id),
                        Pid = Unsigned(thread.ProcessId),
                        Name = thread.Name,
                        StartNs = WithinTrace(thread.CreateTime),
                        EndNs = NsOrNull(thread.ExitTime),
                        BasePriority = thread.BasePriority,
                        Affinity = unchecked((ulong)thread.ProcessorAffinity),
                    };
                }
            }
        }

        public IEnumerable<ParkingRow> Parking => parking == null ? null : ParkingRows();

        public IEnumerable<FrequencyRow> Frequencies => frequencies == null ? null : FrequencyRows();

        public IEnumerable<IdleRow> IdleStates => idleStates == null ? null : IdleRows();

        public IEnumerable<InterruptRow> Interrupts => interrupts == null ? null : InterruptRows();

        public IEnumerable<CounterRow> Counters => counters == null ? null : CounterRows();

        public IEnumerable<MarkRow> Marks => marks == null ? null : MarkRows();

        public IEnumerable<PresentRow> Presents => presents == null ? null : PresentRows();

        public IEnumerable<ProblemRow> Problems
        {
            get
            {
                foreach (KeyValuePair<string, long> found in problems)
                {
                    yield return new ProblemRow
                    {
                        Place = "TraceProcessor", What = found.Key, Count = found.Value,
                    };
                }
            }
        }

        public void Dispose()
        {
            trace.Dispose();
        }

        private TraceFacts FactsOfTrace()
        {
            ISystemMetadata machine = ResultOf(system, "system metadata");
            IReadOnlyList<IProcessor> found = ProcessorsOf(machine);
            return new TraceFacts
            {
                Path = metadata.TracePath,
                Host = machine?.Name,
                Os = metadata.OSVersion == null ? null : "Windows " + metadata.OSVersion,
                CpuModel = found.Count > 0 ? found[0].Name : null,
                ClockName = ClockName(metadata.ClockType),
                StartClock = metadata.ReferenceTimestampValue?.RawValue,
                ClockHz = ClockHertz(metadata),
                StartTimeUtcNs = (metadata.StartTime.UtcDateTime - Epoch).Ticks * NsPerTick,
                DurationNs = Ns(metadata.LastEventTime),
                EventsLost = metadata.LostEventCount,
                BuffersLost = metadata.LostBufferCount,
                CpuCount = metadata.ProcessorCount,
            };
        }

        private SwitchRow SwitchOf(ContextSwitchEvent data)
        {
            return new SwitchRow
            {
                Ns = Ns(data.Timestamp),
                Cpu = data.Processor,
                OldTid = Unsigned(data.SwitchOutThreadId),
                NewTid = Unsigned(data.SwitchInThreadId),
                OldState = (int)data.SwitchOutThreadState,
                OldWaitReason = (int)data.SwitchOutThreadWaitReason,
                OldWaitMode = data.SwitchOutThreadIsUserMode ? 1 : 0,
                OldPriority = data.SwitchOutThreadPriority,
                NewPriority = data.SwitchInThreadPriority,
                OldIdealCpu = data.SwitchOutThreadIdealProcessor,
                OldIdleState = data.PreviousCState,
            };
        }

        private ReadyRow ReadyOf(ReadyThreadEvent data)
        {
            return new ReadyRow
            {
                Ns = Ns(data.Timestamp),
                Cpu = data.Processor,
                Tid = Unsigned(data.ReadiedThreadId),
                InDpc = data.IsExecutingDeferredProcedureCall,
            };
        }

        private List<CpuRow> CpuRows()
        {
            var rows = new List<CpuRow>();
            IReadOnlyList<IProcessor> found = ProcessorsOf(ResultOf(system, "system metadata"));
            for (int cpu = 0; cpu < Math.Max(found.Count, metadata.ProcessorCount); cpu++)
            {
                IProcessor processor = cpu < found.Count ? found[cpu] : null;
                FrequencyValue? frequency = processor?.NominalFrequency;
                rows.Add(new CpuRow
                {
                    Cpu = cpu,
                    EfficiencyClass = (int?)processor?.EfficiencyClass,
                    BaseKhz = frequency.HasValue ? frequency.Value.Hertz / 1000 : (long?)null,
                });
            }
            return rows;
        }

        private IReadOnlyList<IProcessor> ProcessorsOf(ISystemMetadata machine)
        {
            try
            {
                return machine?.Processors ?? NothingOf<IProcessor>();
            }
            catch (InvalidTraceDataException)
            {
                problems["the trace's own lists of its CPUs disagree: core types and frequencies unknown"] = 1;
                return NothingOf<IProcessor>();
            }
        }

        private IEnumerable<ParkingRow> ParkingRows()
        {
            foreach (IProcessorParkingInterval row in RowsOf(parking, "parking", found => found.Intervals))
            {
                yield return new ParkingRow
                {
                    Stretch = StretchOf(row.Processor, row.StartTime, row.StopTime),
                    Parked = row.IsParked,
                };
            }
        }

        private IEnumerable<FrequencyRow> FrequencyRows()
        {
            foreach (IProcessorFrequencyInterval row in RowsOf(frequencies, "frequencies", found => found.Intervals))
            {
                long hertz = HertzOf(row);
                if (hertz > 0)
                {
                    yield return new FrequencyRow
                    {
                        Stretch = StretchOf(row.Processor, row.StartTime, row.StopTime),
                        Khz = hertz / 1000,
                    };
                }
            }
        }

        /// <summary>0 if unknown: the getter throws if the trace lacks the capture state of the power providers.</summary>
        private long HertzOf(IProcessorFrequencyInterval row)
        {
            try
            {
                FrequencyValue? frequency = row.AverageFrequency;
                if (frequency.HasValue)
                {
                    return frequency.Value.Hertz;
                }
            }
            catch (ArgumentOutOfRangeException)
            {
                Count("frequency unknown: record with capture state of Kernel-Processor-Power and Kernel-Power");
                return 0;
            }
            catch (InvalidTraceDataException)
            {
                Count("frequency unknown: the trace's own lists of its CPUs disagree");
                return 0;
            }
            Count("frequency unknown");
            return 0;
        }

        private IEnumerable<IdleRow> IdleRows()
        {
            foreach (ICpuIdleStateInterval row in RowsOf(idleStates, "idle states", found => found.Intervals))
            {
                // C0 means that the CPU runs.
                if (row.State != CpuIdleState.C0)
                {
                    yield return new IdleRow
                    {
                        Stretch = StretchOf(row.Processor, row.StartTime, row.StopTime),
                        State = (int)row.State,
                    };
                }
            }
        }

        private IEnumerable<InterruptRow> InterruptRows()
        {
            foreach (IDeferredProcedureCallInterval row in
                RowsOf(interrupts, "interrupts", found => found.DeferredProcedureCalls))
            {
                yield return InterruptOf(row, "dpc");
            }
            foreach (IInterruptServiceRoutineInterval row in
                RowsOf(interrupts, "interrupts", found => found.InterruptServiceRoutines))
            {
                yield return InterruptOf(row, "isr");
            }
        }

        private InterruptRow InterruptOf(IInterruptHandlingInterval row, string kind)
        {
            return new InterruptRow
            {
                Stretch = StretchOf(row.Processor, row.StartTime, row.StopTime),
                Kind = kind,
            };
        }

        private IEnumerable<CounterRow> CounterRows()
        {
            foreach (IProcessorCounterContextSwitchDelta row in RowsOf(counters, "counters", found => found.ContextSwitchCounterDeltas))
            {
                foreach (KeyValuePair<string, ulong> counter in row.RawCounterDeltas)
                {
                    yield return new CounterRow
                    {
                        Stretch = StretchOf(row.Processor, row.StartTime, row.StopTime),
                        Tid = Unsigned(row.ThreadId),
                        Counter = counter.Key,
                        Delta = counter.Value,
                    };
                }
            }
        }

        private IEnumerable<MarkRow> MarkRows()
        {
            foreach (IMark row in RowsOf(marks, "marks", found => found.Marks))
            {
                yield return new MarkRow { Ns = Ns(row.Timestamp), Text = row.Label };
            }
        }

        private IEnumerable<PresentRow> PresentRows()
        {
            foreach (IGenericEvent row in RowsOf(presents, "present events", found => found.Events))
            {
                bool isDxgi = row.ProviderId == Dxgi;
                bool begins = isDxgi ? row.Id == 42 || row.Id == 55 : row.Id == 1;
                bool returns = isDxgi ? row.Id == 43 || row.Id == 56 : row.Id == 2;
                if (begins && isDxgi && (FlagsOf(row) & PresentTest) != 0 || !begins && !returns)
                {
                    continue;
                }
                yield return new PresentRow
                {
                    Ns = Ns(row.Timestamp),
                    Pid = Unsigned(row.ProcessId),
                    Tid = Unsigned(row.ThreadId),
                    Returns = returns,
                    SwapChain = returns ? null : SwapChainOf(row, isDxgi ? "pIDXGISwapChain" : "pSwapchain"),
                    Dialect = isDxgi ? "dxgi" : "d3d9",
                };
            }
        }

        /// <summary>The flags of a present; 0 if the event has none.</summary>
        private static ulong FlagsOf(IGenericEvent row)
        {
            IGenericEventField field = FieldOf(row, "Flags");
            return field != null && field.Type == GenericEventFieldType.UInt32 ? field.AsUInt32 : 0;
        }

        /// <summary>Identifies a swap chain by text, the same at every present; null if unknown.</summary>
        private static string SwapChainOf(IGenericEvent row, string name)
        {
            IGenericEventField field = FieldOf(row, name);
            if (field == null)
            {
                return null;
            }
            switch (field.Type)
            {
                case GenericEventFieldType.UInt64: return field.AsUInt64.ToString();
                case GenericEventFieldType.UInt32: return field.AsUInt32.ToString();
                case GenericEventFieldType.Address: return AddressOf?.GetValue(field, null)?.ToString();
                default: return null;
            }
        }

        private static IGenericEventField FieldOf(IGenericEvent row, string name)
        {
            IGenericEventField field = null;
            return row.Fields != null && row.Fields.TryGetValue(name, out field) ? field : null;
        }

        private Stretch StretchOf(int cpu, TraceTimestamp start, TraceTimestamp stop)
        {
            return new Stretch { Cpu = cpu, StartNs = Ns(start), EndNs = Ns(stop) };
        }

        private long Ns(TraceTimestamp time)
        {
            if (!clockChosen)
            {
                // Not earlier: before the first event, the header may not have been read.
                clockChosen = true;
                clock = ClockOf(metadata);
            }
            return clock == null || time.IsPartial ? time.Nanoseconds : clock.Ns(time.Value.RawValue);
        }

        private long? NsOrNull(TraceTimestamp? time)
        {
            return time.HasValue ? Ns(time.Value) : (long?)null;
        }

        /// <summary>A start within the recording; null for what existed before it.</summary>
        private long? WithinTrace(TraceTimestamp? time)
        {
            long? ns = NsOrNull(time);
            return ns > 0 ? ns : null;
        }

        /// <summary>Ids are unsigned on Windows, but signed in this package.</summary>
        private static long Unsigned(int id)
        {
            return unchecked((uint)id);
        }

        private static Clock ClockOf(ITraceMetadata metadata)
        {
            long? start = metadata.ReferenceTimestampValue?.RawValue;
            long? hertz = ClockHertz(metadata);
            return start.HasValue && hertz > 0 ? new Clock(start.Value, hertz.Value) : null;
        }

        private static long? ClockHertz(ITraceMetadata metadata)
        {
            switch (metadata.ClockType)
            {
                case TraceClockType.PerformanceCounter: return metadata.PerformanceCounterFrequency.Hertz;
                case TraceClockType.SystemTime: return SystemTimeHertz;
                default: return null;
            }
        }

        private static string ClockName(TraceClockType type)
        {
            switch (type)
            {
                case TraceClockType.PerformanceCounter: return "qpc";
                case TraceClockType.SystemTime: return "system";
                case TraceClockType.ProcessorCycleCounter: return "cycles";
                default: return null;
            }
        }

        private void Count(string what)
        {
            long before;
            problems.TryGetValue(what, out before);
            problems[what] = before + 1;
        }

        private T ResultOf<T>(IPendingResult<T> pending, string what) where T : class
        {
            if (pending.HasResult)
            {
                return pending.Result;
            }
            problems[what + ": not in this trace"] = 1;
            return null;
        }

        private IReadOnlyList<TRow> RowsOf<T, TRow>(
            IPendingResult<T> pending, string what, Func<T, IReadOnlyList<TRow>> list) where T : class
        {
            try
            {
                T found = ResultOf(pending, what);
                return found == null ? NothingOf<TRow>() : list(found);
            }
            catch (InvalidTraceDataException error)
            {
                problems[what + ": the trace contradicts itself: " + error.Message] = 1;
                return NothingOf<TRow>();
            }
        }

        private static IReadOnlyList<T> NothingOf<T>()
        {
            return new T[0];
        }

        private static T Guarded<T>(string path, Func<T> work)
        {
            try
            {
                return work();
            }
            catch (InvalidTraceFormatException)
            {
                throw new ExportException("TraceProcessor cannot read " + path + ": name a complete .etl file");
            }
            catch (InvalidTraceDataException error)
            {
                throw new ExportException(path + " contradicts itself (" + error.Message + "): record it again");
            }
            catch (TraceTimeInversionException)
            {
                throw new ExportException(
                    path + " has times that run backwards: use `analyze`, which reads the .etl itself");
            }
            catch (TraceLostEventsException)
            {
                throw new ExportException(path + " has lost events, which TraceProcessor refuses: record it again");
            }
        }

        private sealed class ShareOfTrace : IProgress<TraceProcessingProgress>
        {
            private readonly Action<double> onProgress;

            public ShareOfTrace(Action<double> onProgress)
            {
                this.onProgress = onProgress;
            }

            public void Report(TraceProcessingProgress value)
            {
                double all = value.LastEventTimestamp.Nanoseconds;
                double share = all > 0 ? value.CurrentEventTimestamp.Nanoseconds / all : 0;
                onProgress((value.CurrentPass - 1 + share) / Math.Max(1, value.TotalPasses));
            }
        }
    }
}

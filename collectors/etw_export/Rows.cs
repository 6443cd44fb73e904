using System.Collections.Generic;

namespace Schedlens.EtwExport
{
    /// <summary>A context switch as logged; times in ns since ns 0, thread ids as recorded.</summary>
    public struct SwitchRow
    {
        public long Ns;
        public int Cpu;
        public long OldTid;
        /// <summary>The thread that Windows planned to run; another one may have run.</summary>
        public long NewTid;
        public int OldState;
        public int OldWaitReason;
        /// <summary>KPROCESSOR_MODE: 0 kernel, 1 user.</summary>
        public int OldWaitMode;
        public int OldPriority;
        public int NewPriority;
        public int OldIdealCpu;
        /// <summary>Idle state that the CPU leaves; null if the record has none.</summary>
        public int? OldIdleState;
    }

    /// <summary>A thread that became ready, and the CPU that logged it.</summary>
    public struct ReadyRow
    {
        public long Ns;
        public int Cpu;
        public long Tid;
        public bool InDpc;
    }

    /// <summary>One life of a process; unknown times are null.</summary>
    public sealed class ProcessLife
    {
        public long Pid;
        public string Name;
        public long? StartNs;
        public long? EndNs;
        public long? ParentPid;
        public long? SessionId;
        public string CommandLine;
    }

    /// <summary>One life of a thread; unknown times are null.</summary>
    public sealed class ThreadLife
    {
        public long Tid;
        public long? Pid;
        public string Name;
        public long? StartNs;
        public long? EndNs;
        public int? BasePriority;
        /// <summary>One bit for each logical CPU of the first processor group; 0 if unknown.</summary>
        public ulong Affinity;
    }

    /// <summary>One logical CPU.</summary>
    public struct CpuRow
    {
        public int Cpu;
        public int? EfficiencyClass;
        public long? BaseKhz;
    }

    /// <summary>A period on one CPU.</summary>
    public struct Stretch
    {
        public long StartNs;
        public long EndNs;
        public int Cpu;
    }

    /// <summary>Whether a CPU is parked.</summary>
    public struct ParkingRow
    {
        public Stretch Stretch;
        public bool Parked;
    }

    /// <summary>The frequency of a CPU.</summary>
    public struct FrequencyRow
    {
        public Stretch Stretch;
        public long Khz;
    }

    /// <summary>A CPU in an idle state, identified by number.</summary>
    public struct IdleRow
    {
        public Stretch Stretch;
        public int State;
    }

    /// <summary>A DPC or ISR; kind is the value of the column kind.</summary>
    public struct InterruptRow
    {
        public Stretch Stretch;
        public string Kind;
    }

    /// <summary>The increase of a counter during one slice, which ended at EndNs.</summary>
    public struct CounterRow
    {
        public Stretch Stretch;
        public long Tid;
        public string Counter;
        public ulong Delta;
    }

    /// <summary>A mark set by a user or a program.</summary>
    public struct MarkRow
    {
        public long Ns;
        public string Text;
    }

    /// <summary>The start or the end of a call to present.</summary>
    public struct PresentRow
    {
        public long Ns;
        public long Pid;
        public long Tid;
        public bool Returns;
        /// <summary>Identifies a stream of frames within a process; null at the end of a call.</summary>
        public string SwapChain;
        /// <summary>dxgi or d3d9.</summary>
        public string Dialect;
    }

    /// <summary>What was corrected or could not be read, and how often.</summary>
    public struct ProblemRow
    {
        public string Place;
        public string What;
        public long Count;
    }

    /// <summary>A setting of the machine.</summary>
    public struct SettingRow
    {
        public string Key;
        public string Value;
    }

    /// <summary>Facts about the whole recording; null if the trace does not contain them.</summary>
    public sealed class TraceFacts
    {
        public string Path;
        public string Host;
        public string Os;
        public string CpuModel;
        public string ClockName;
        public long? StartClock;
        public long? ClockHz;
        /// <summary>Wall time at ns 0, in ns since 1970.</summary>
        public long? StartTimeUtcNs;
        public long? DurationNs;
        public long? EventsLost;
        public long? BuffersLost;
        public int CpuCount;
    }

    /// <summary>Everything that is known once the trace has been read; lists may be lazy.</summary>
    public interface IRestOfTrace
    {
        TraceFacts Facts { get; }
        IEnumerable<CpuRow> Cpus { get; }
        IEnumerable<SettingRow> Settings { get; }
        IEnumerable<ProcessLife> Processes { get; }
        IEnumerable<ThreadLife> Threads { get; }
        IEnumerable<ParkingRow> Parking { get; }
        IEnumerable<FrequencyRow> Frequencies { get; }
        IEnumerable<IdleRow> IdleStates { get; }
        IEnumerable<InterruptRow> Interrupts { get; }
        IEnumerable<CounterRow> Counters { get; }
        IEnumerable<MarkRow> Marks { get; }
        IEnumerable<PresentRow> Presents { get; }
        /// <summary>Read this last: reading the lists above may add problems.</summary>
        IEnumerable<ProblemRow> Problems { get; }
    }

    /// <summary>Receives rows while the trace is read.</summary>
    public interface IRowSink
    {
        void Switch(SwitchRow row);
        void Ready(ReadyRow row);
    }
}

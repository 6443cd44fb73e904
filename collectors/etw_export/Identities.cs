using System.Collections.Generic;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// Numbers each life of a process or thread, because Windows reuses ids.
    /// </summary>
    public sealed class Identities
    {
        /// <summary>The trace_id in the files; the reader assigns its own.</summary>
        public const long TraceId = 1;

        private const int MaskBits = 64;
        private const string Place = "etw_export";

        private readonly IRestOfTrace rest;
        private readonly Problems problems;
        private readonly Lives processes = new Lives();
        private readonly List<string> processNames = new List<string>();
        private readonly Lives threads = new Lives();
        private readonly List<ThreadLife> threadRows = new List<ThreadLife>();
        private readonly Dictionary<int, int> idleThreads = new Dictionary<int, int>();

        public Identities(IRestOfTrace rest, Problems problems)
        {
            this.rest = rest;
            this.problems = problems;
        }

        /// <summary>The utid of the thread with this id at this time; id 0 is the idle thread of the CPU.</summary>
        public long Thread(long tid, int cpu, long ns)
        {
            int number;
            if (tid == 0)
            {
                return Id(IdleThread(cpu));
            }
            if (!threads.TryFind(tid, ns, out number))
            {
                problems.Add(Place, "thread in the records that the trace does not list: its process is unknown", 1);
                number = AddThread(new ThreadLife { Tid = tid });
            }
            return Id(number);
        }

        /// <summary>The upid of the process with this id at this time; null if there was none.</summary>
        public long? Process(long pid, long ns)
        {
            int number;
            return processes.TryFind(pid, ns, out number) ? Id(number) : (long?)null;
        }

        /// <summary>The name of that process; null if it or its name is unknown.</summary>
        public string ProcessName(long pid, long ns)
        {
            int number;
            return processes.TryFind(pid, ns, out number) ? processNames[number] : null;
        }

        /// <summary>Registers the processes and fills the table process.</summary>
        public void WriteProcesses(ArrowTable table)
        {
            foreach (ProcessLife life in rest.Processes)
            {
                int number = processNames.Count;
                processNames.Add(life.Name);
                processes.Add(life.Pid, life.StartNs, number);
                table.Long(TraceId).Long(Id(number)).Long(life.Pid).Text(life.Name);
                table.Long(life.StartNs).Long(life.EndNs).Long(life.ParentPid).Long(life.SessionId);
                table.Text(life.CommandLine).EndRow();
            }
        }

        /// <summary>Registers the threads, idle threads first.</summary>
        public void TakeThreads()
        {
            for (int cpu = 0; cpu < rest.Facts.CpuCount; cpu++)
            {
                IdleThread(cpu);
            }
            foreach (ThreadLife life in rest.Threads)
            {
                // All idle threads have the id 0, so the loop above numbered one for each CPU.
                if (life.Tid != 0)
                {
                    AddThread(life);
                }
            }
        }

        /// <summary>Fills the table thread.</summary>
        public void WriteThreads(ArrowTable table)
        {
            for (int number = 0; number < threadRows.Count; number++)
            {
                ThreadLife life = threadRows[number];
                long? process = life.Pid.HasValue ? Process(life.Pid.Value, life.StartNs ?? 0) : null;
                table.Long(TraceId).Long(Id(number)).Long(life.Tid).Long(process).Text(life.Name);
                table.Long(life.StartNs).Long(life.EndNs).Int(life.BasePriority);
                table.Flag(life.Tid == 0).EndRow();
            }
        }

        /// <summary>Fills the table thread_name. The trace has one name for the whole life of a thread.</summary>
        public void WriteNames(ArrowTable table)
        {
            for (int number = 0; number < threadRows.Count; number++)
            {
                ThreadLife life = threadRows[number];
                if (life.Tid != 0 && !string.IsNullOrEmpty(life.Name))
                {
                    table.Long(TraceId).Long(Id(number)).Long(life.StartNs).Text(life.Name).EndRow();
                }
            }
        }

        /// <summary>Fills the table affinity if the masks identify their CPUs.</summary>
        public void WriteAffinities(ArrowTable table)
        {
            if (rest.Facts.CpuCount > MaskBits)
            {
                problems.Add(Place, "affinity unknown: masks come without their processor group", 1);
                return;
            }
            for (int number = 0; number < threadRows.Count; number++)
            {
                List<int> cpus = CpusOf(threadRows[number].Affinity);
                if (cpus.Count > 0)
                {
                    table.Long(TraceId).Long(Id(number)).Null().Ints(cpus).Text("rundown").EndRow();
                }
            }
        }

        private static long Id(int number)
        {
            return (TraceId << 32) + number;
        }

        private int AddThread(ThreadLife life)
        {
            int number = threadRows.Count;
            threadRows.Add(life);
            if (life.Tid != 0)
            {
                threads.Add(life.Tid, life.StartNs, number);
            }
            return number;
        }

        private int IdleThread(int cpu)
        {
            int number;
            if (!idleThreads.TryGetValue(cpu, out number))
            {
                number = AddThread(new ThreadLife { Tid = 0, Pid = 0, Name = "Idle" });
                idleThreads.Add(cpu, number);
            }
            return number;
        }

        private List<int> CpusOf(ulong mask)
        {
            var cpus = new List<int>();
            for (int cpu = 0; cpu < rest.Facts.CpuCount; cpu++)
            {
                if ((mask >> cpu & 1) == 1)
                {
                    cpus.Add(cpu);
                }
            }
            return cpus;
        }
    }
}

using System.Collections.Generic;
using System.Linq;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// Frames from presents: one lasts from a present of a swap chain to the next, so the last present
    /// of a chain ends no frame and begins none that is known.
    /// </summary>
    public sealed class Frames
    {
        private readonly Identities who;
        private readonly Dictionary<string, Chain> chains = new Dictionary<string, Chain>();
        private readonly Dictionary<long, Chain> inside = new Dictionary<long, Chain>();
        private readonly Dictionary<long, long> numbers = new Dictionary<long, long>();

        public Frames(Identities who)
        {
            this.who = who;
        }

        /// <summary>Fills the table frame, in the order in which the frames end.</summary>
        public void Write(IEnumerable<PresentRow> presents, ArrowTable table)
        {
            foreach (PresentRow row in presents.OrderBy(present => present.Ns))
            {
                Chain chain;
                if (row.Returns)
                {
                    if (inside.TryGetValue(row.Tid, out chain))
                    {
                        chain.ReturnedNs = row.Ns;
                        inside.Remove(row.Tid);
                    }
                    continue;
                }
                string key = row.Pid + " " + row.SwapChain;
                if (chains.TryGetValue(key, out chain))
                {
                    WriteFrame(chain, row, table);
                }
                chain = new Chain { StartNs = row.Ns };
                chains[key] = chain;
                inside[row.Tid] = chain;
            }
        }

        private void WriteFrame(Chain chain, PresentRow end, ArrowTable table)
        {
            long number;
            numbers.TryGetValue(end.Pid, out number);
            numbers[end.Pid] = number + 1;
            table.Long(Identities.TraceId).Long(number).Long(who.Process(end.Pid, end.Ns));
            table.Long(ThreadOf(end)).Text(who.ProcessName(end.Pid, end.Ns));
            table.Long(chain.StartNs).Long(end.Ns - chain.StartNs);
            // The program works on a frame from where the present before it has returned.
            table.Long(end.Ns - chain.ReturnedNs).Nulls(3).Text(end.Dialect).Long(0).EndRow();
        }

        /// <summary>Null where the event was not written by a thread.</summary>
        private long? ThreadOf(PresentRow row)
        {
            bool told = row.Tid != 0 && row.Tid != uint.MaxValue;
            return told ? who.Thread(row.Tid, 0, row.Ns) : (long?)null;
        }

        private sealed class Chain
        {
            public long StartNs;
            public long? ReturnedNs;
        }
    }
}

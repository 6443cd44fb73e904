using System.Collections.Generic;
using System.Linq;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// Computes frames from presents. A frame lasts from one present of a swap chain to the next, so
    /// the first present of a chain ends no frame and the last one starts none.
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

        /// <summary>Fills the table frame, in order of frame end.</summary>
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
            // The program starts on a frame when the previous present returns.
            table.Long(end.Ns - chain.ReturnedNs).Nulls(3).Text(end.Dialect).Long(0).EndRow();
        }

        /// <summary>Null if no thread wrote the event.</summary>
        private long? ThreadOf(PresentRow row)
        {
            bool known = row.Tid != 0 && row.Tid != uint.MaxValue;
            return known ? who.Thread(row.Tid, 0, row.Ns) : (long?)null;
        }

        private sealed class Chain
        {
            public long StartNs;
            public long? ReturnedNs;
        }
    }
}

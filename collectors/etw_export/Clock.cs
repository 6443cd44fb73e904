namespace Schedlens.EtwExport
{
    /// <summary>Converts clock ticks to ns since ns 0, rounded down.</summary>
    public sealed class Clock
    {
        private const long NsPerSecond = 1000000000;

        private readonly long start;
        private readonly long hertz;

        /// <summary>A clock of that many ticks a second that reads <paramref name="start"/> at ns 0.</summary>
        public Clock(long start, long hertz)
        {
            this.start = start;
            this.hertz = hertz;
        }

        /// <summary>floor((ticks - start) * 1e9 / hertz), without overflow for spans up to 292 years.</summary>
        public long Ns(long ticks)
        {
            long span = ticks - start;
            long seconds = span / hertz;
            long rest = span % hertz;
            if (rest < 0)
            {
                rest += hertz;
                seconds -= 1;
            }
            return seconds * NsPerSecond + (long)((decimal)rest * NsPerSecond / hertz);
        }
    }
}

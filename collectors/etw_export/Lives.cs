using System.Collections.Generic;

namespace Schedlens.EtwExport
{
    /// <summary>Maps an id and a time to the number of a life: ids are reused, numbers are not.</summary>
    public sealed class Lives
    {
        private readonly Dictionary<long, List<Life>> byId = new Dictionary<long, List<Life>>();

        /// <summary>Adds a life; a null start means that it began before the recording.</summary>
        public void Add(long id, long? startNs, int number)
        {
            List<Life> lives;
            if (!byId.TryGetValue(id, out lives))
            {
                lives = new List<Life>();
                byId.Add(id, lives);
            }
            var life = new Life { Start = startNs ?? long.MinValue, Number = number };
            int at = lives.Count;
            while (at > 0 && lives[at - 1].Start > life.Start)
            {
                at -= 1;
            }
            lives.Insert(at, life);
        }

        /// <summary>
        /// Finds the life with this id at this time: the last one that had started, even if it had ended,
        /// because a thread leaves its CPU after its end is logged. Before all of them, the first.
        /// </summary>
        public bool TryFind(long id, long ns, out int number)
        {
            List<Life> lives;
            number = 0;
            if (!byId.TryGetValue(id, out lives))
            {
                return false;
            }
            int at = lives.Count - 1;
            while (at > 0 && lives[at].Start > ns)
            {
                at -= 1;
            }
            number = lives[at].Number;
            return true;
        }

        private struct Life
        {
            public long Start;
            public int Number;
        }
    }
}

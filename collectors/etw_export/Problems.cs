using System;
using System.Collections.Generic;

namespace Schedlens.EtwExport
{
    /// <summary>Counts what was corrected or could not be read.</summary>
    public sealed class Problems
    {
        private readonly SortedDictionary<string, ProblemRow> rows =
            new SortedDictionary<string, ProblemRow>(StringComparer.Ordinal);

        /// <summary>Adds to the count of one kind of problem; 0 adds no row.</summary>
        public void Add(string place, string what, long count)
        {
            if (count <= 0)
            {
                return;
            }
            string key = place + "\n" + what;
            ProblemRow row;
            rows.TryGetValue(key, out row);
            rows[key] = new ProblemRow { Place = place, What = what, Count = row.Count + count };
        }

        /// <summary>Fills the table problem.</summary>
        public void Write(ArrowTable table)
        {
            foreach (ProblemRow row in rows.Values)
            {
                table.Long(Identities.TraceId).Text(row.Place).Text(row.What).Long(row.Count).EndRow();
            }
        }
    }
}

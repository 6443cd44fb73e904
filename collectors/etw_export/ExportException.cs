using System;

namespace Schedlens.EtwExport
{
    /// <summary>What ends the export: one line that says what was found and what to do.</summary>
    public sealed class ExportException : Exception
    {
        public ExportException(string line) : base(line)
        {
        }
    }
}

using System;

namespace Schedlens.EtwExport
{
    /// <summary>Ends the export with one line that says what was found and what to do.</summary>
    public sealed class ExportException : Exception
    {
        public ExportException(string line) : base(line)
        {
        }
    }
}

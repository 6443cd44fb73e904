using System;
using System.Collections.Generic;
using System.IO;

namespace Schedlens.EtwExport
{
    /// <summary>The command: exports a trace to a folder of tables.</summary>
    public static class Program
    {
        private const int Answered = 0;
        private const int EventsLost = 1;
        private const int NoAnswer = 2;
        private const string WrittenBy = "etw_export 0.1.0, " + TraceProcessorReader.PackageName;

        public static int Main(string[] arguments)
        {
            if (Array.IndexOf(arguments, "--help") >= 0 || arguments.Length == 0)
            {
                Console.Write(Options.Usage);
                return arguments.Length == 0 ? NoAnswer : Answered;
            }
            try
            {
                return Export(Options.Parse(arguments));
            }
            catch (ExportException error)
            {
                return Refused(error.Message);
            }
            catch (IOException error)
            {
                return Refused(error.Message);
            }
            catch (UnauthorizedAccessException error)
            {
                return Refused(error.Message);
            }
            catch (OutOfMemoryException)
            {
                return Refused("not enough memory: omit tables with --without, and do not use --counters");
            }
            catch (Exception error)
            {
                // TraceProcessor's own errors have many types; the user needs one line.
                return Refused(error.GetType().Name + ": " + error.Message);
            }
        }

        private static int Export(Options options)
        {
            if (!File.Exists(options.TracePath))
            {
                throw new ExportException(options.TracePath + " does not exist: name an existing .etl file");
            }
            if (Directory.Exists(options.OutputFolder)
                && Directory.GetFileSystemEntries(options.OutputFolder).Length > 0)
            {
                throw new ExportException(options.OutputFolder + " is not empty: choose another folder with -o");
            }
            Directory.CreateDirectory(options.OutputFolder);
            bool whole = false;
            try
            {
                int code = ExportInto(options);
                whole = true;
                return code;
            }
            finally
            {
                if (!whole)
                {
                    Directory.Delete(options.OutputFolder, true);
                }
            }
        }

        private static int ExportInto(Options options)
        {
            var progress = new ProgressLine();
            using (var spool = new Spool(Path.Combine(options.OutputFolder, "spool")))
            using (var reader = new TraceProcessorReader(options, spool))
            {
                reader.Process(options.TracePath, progress.Show);
                progress.Clear();
                IReadOnlyDictionary<string, long> rows =
                    TablesExport.Write(options.OutputFolder, spool, reader, WrittenBy);
                foreach (KeyValuePair<string, long> table in rows)
                {
                    Console.WriteLine("{0,12} {1}", table.Value, table.Key);
                }
                TraceFacts facts = reader.Facts;
                if (facts.EventsLost > 0 || facts.BuffersLost > 0)
                {
                    Console.Error.WriteLine(
                        "etw_export: the trace lost {0} events and {1} buffers, so threads may be joined wrongly. "
                        + "Record again with larger buffers", facts.EventsLost, facts.BuffersLost);
                    return EventsLost;
                }
                return Answered;
            }
        }

        private static int Refused(string line)
        {
            Console.Error.WriteLine("etw_export: " + line.Replace("\r", "").Replace('\n', ' '));
            return NoAnswer;
        }

        /// <summary>A progress line that is rewritten in place; written only to a terminal.</summary>
        private sealed class ProgressLine
        {
            private int shown = -1;

            public void Show(double share)
            {
                int percent = (int)Math.Max(0, Math.Min(100, share * 100));
                if (percent != shown && !Console.IsErrorRedirected)
                {
                    shown = percent;
                    Console.Error.Write("\rreading {0,3} %", percent);
                }
            }

            public void Clear()
            {
                if (shown >= 0)
                {
                    Console.Error.Write("\r              \r");
                }
            }
        }
    }
}

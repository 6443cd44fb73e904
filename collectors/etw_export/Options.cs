using System;
using System.Collections.Generic;

namespace Schedlens.EtwExport
{
    /// <summary>What was asked for on the command line.</summary>
    public sealed class Options
    {
        public const string Usage =
            "usage: etw_export TRACE.etl -o FOLDER [--counters] [--without TABLE,TABLE] [--toolkit FOLDER]\n"
            + "\n"
            + "Writes the base tables of a trace as Arrow files; `analyze FOLDER` reads them.\n"
            + "\n"
            + "  -o FOLDER        where to; it must not exist yet, or be empty\n"
            + "  --counters       counters at each switch too: several GB of memory for a long trace\n"
            + "  --without TABLE  leave out tables that TraceProcessor holds in memory as a whole:\n"
            + "                   cpu_parking, cpu_frequency, cpu_idle, interrupt_slice, mark, frame\n"
            + "  --toolkit FOLDER the native part of TraceProcessor, if it is not beside the program\n"
            + "\n"
            + "Exit code 0: all was exported. 1: exported, but the trace has lost events. 2: nothing exported.\n";

        private static readonly string[] Optional =
        {
            "cpu_parking", "cpu_frequency", "cpu_idle", "interrupt_slice", "mark", "frame",
        };

        private readonly HashSet<string> without = new HashSet<string> { "counter_sample" };

        public string TracePath { get; private set; }

        public string OutputFolder { get; private set; }

        public string ToolkitPath { get; private set; }

        /// <summary>Whether a table is to be written.</summary>
        public bool Wants(string table)
        {
            return !without.Contains(table);
        }

        /// <summary>Reads the arguments; raises <see cref="ExportException"/>.</summary>
        public static Options Parse(IReadOnlyList<string> arguments)
        {
            var options = new Options();
            for (int at = 0; at < arguments.Count; at++)
            {
                string argument = arguments[at];
                switch (argument)
                {
                    case "-o":
                        options.OutputFolder = Next(arguments, ref at);
                        break;
                    case "--toolkit":
                        options.ToolkitPath = Next(arguments, ref at);
                        break;
                    case "--counters":
                        options.without.Remove("counter_sample");
                        break;
                    case "--without":
                        options.LeaveOut(Next(arguments, ref at));
                        break;
                    default:
                        options.TakeTrace(argument);
                        break;
                }
            }
            if (options.TracePath == null || options.OutputFolder == null)
            {
                throw new ExportException("a trace and -o FOLDER are needed: --help shows how");
            }
            return options;
        }

        private static string Next(IReadOnlyList<string> arguments, ref int at)
        {
            at += 1;
            if (at == arguments.Count)
            {
                throw new ExportException(arguments[at - 1] + " needs a value: --help shows how");
            }
            return arguments[at];
        }

        private void LeaveOut(string tables)
        {
            foreach (string table in tables.Split(','))
            {
                if (Array.IndexOf(Optional, table) < 0)
                {
                    throw new ExportException(
                        "'" + table + "' cannot be left out: only " + string.Join(", ", Optional));
                }
                without.Add(table);
            }
        }

        private void TakeTrace(string argument)
        {
            if (argument.StartsWith("-", StringComparison.Ordinal))
            {
                throw new ExportException("'" + argument + "' is no option: --help lists them");
            }
            if (TracePath != null)
            {
                throw new ExportException(
                    "one trace a run, '" + argument + "' is a second: TraceProcessor opens one in a process");
            }
            TracePath = argument;
        }
    }
}

using System;
using System.Collections.Generic;

namespace Schedlens.EtwExport
{
    /// <summary>The command-line options.</summary>
    public sealed class Options
    {
        public const string Usage =
            "usage: etw_export TRACE.etl -o FOLDER [--counters] [--without TABLE,TABLE] [--toolkit FOLDER]\n"
            + "\n"
            + "Writes the base tables of a trace as Arrow files; `analyze FOLDER` reads them.\n"
            + "\n"
            + "  -o FOLDER        output folder; it must be empty or not exist yet\n"
            + "  --counters       also write counters at each switch: needs several GB for a long trace\n"
            + "  --without TABLE  omit tables that TraceProcessor keeps in memory as a whole:\n"
            + "                   cpu_parking, cpu_frequency, cpu_idle, interrupt_slice, mark, frame\n"
            + "  --toolkit FOLDER the native part of TraceProcessor, if it is in another folder\n"
            + "\n"
            + "Exit code 0: exported. 1: exported, but the trace has lost events. 2: nothing exported.\n";

        private static readonly string[] Optional =
        {
            "cpu_parking", "cpu_frequency", "cpu_idle", "interrupt_slice", "mark", "frame",
        };

        private readonly HashSet<string> without = new HashSet<string> { "counter_sample" };

        public string TracePath { get; private set; }

        public string OutputFolder { get; private set; }

        public string ToolkitPath { get; private set; }

        /// <summary>Whether to write a table.</summary>
        public bool Wants(string table)
        {
            return !without.Contains(table);
        }

        /// <summary>Parses the arguments; throws <see cref="ExportException"/>.</summary>
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
                throw new ExportException("name a trace and an output folder (-o FOLDER), see --help");
            }
            return options;
        }

        private static string Next(IReadOnlyList<string> arguments, ref int at)
        {
            at += 1;
            if (at == arguments.Count)
            {
                throw new ExportException(arguments[at - 1] + " needs a value, see --help");
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
                        "--without: cannot omit '" + table + "', only " + string.Join(", ", Optional));
                }
                without.Add(table);
            }
        }

        private void TakeTrace(string argument)
        {
            if (argument.StartsWith("-", StringComparison.Ordinal))
            {
                throw new ExportException("unknown option '" + argument + "', see --help");
            }
            if (TracePath != null)
            {
                throw new ExportException(
                    "'" + argument + "' is a second trace: export one trace at a time");
            }
            TracePath = argument;
        }
    }
}

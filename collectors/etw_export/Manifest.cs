using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Text;

namespace Schedlens.EtwExport
{
    /// <summary>
    /// tables.json lists the contents of a folder of tables. It is written last, so a folder without
    /// it is incomplete.
    /// </summary>
    public sealed class Manifest
    {
        public const string FileName = "tables.json";
        private const int FormatVersion = 1;

        private readonly TraceFacts facts;
        private readonly long first;
        private readonly long last;
        private readonly IReadOnlyDictionary<string, long> rows;
        private readonly string writtenBy;
        private readonly StringBuilder text = new StringBuilder();

        public Manifest(
            TraceFacts facts,
            long first,
            long last,
            IReadOnlyDictionary<string, long> rows,
            string writtenBy)
        {
            this.facts = facts;
            this.first = first;
            this.last = last;
            this.rows = rows;
            this.writtenBy = writtenBy;
        }

        /// <summary>Writes the manifest to a temporary file and renames it.</summary>
        public void Write(string folder)
        {
            text.Append("{\n \"format\": \"schedlens-tables\",\n");
            text.Append(" \"format_version\": ").Append(FormatVersion).Append(",\n");
            text.Append(" \"source\": \"etw\",\n \"written_by\": ").Append(Quoted(writtenBy));
            text.Append(",\n \"trace\": {\n");
            Line("path", Quoted(facts.Path));
            Line("host", Quoted(facts.Host));
            Line("os", Quoted(facts.Os));
            Line("cpu_model", Quoted(facts.CpuModel));
            Line("clock_name", Quoted(facts.ClockName));
            Line("start_clock", Number(facts.StartClock));
            Line("clock_hz", Number(facts.ClockHz));
            Line("start_time_utc_ns", Number(facts.StartTimeUtcNs));
            Line("first_ns", Number(first));
            Line("duration_ns", Number(last));
            Line("events_lost", Number(facts.EventsLost));
            Line("buffers_lost", Number(facts.BuffersLost));
            CutComma();
            text.Append(" },\n \"tables\": {\n");
            foreach (KeyValuePair<string, long> table in rows)
            {
                Line(table.Key, Number(table.Value));
            }
            CutComma();
            text.Append(" }\n}\n");
            string path = Path.Combine(folder, FileName);
            File.WriteAllText(path + ".part", text.ToString(), new UTF8Encoding(false));
            File.Delete(path);
            File.Move(path + ".part", path);
        }

        private void Line(string key, string value)
        {
            text.Append("  ").Append(Quoted(key)).Append(": ").Append(value).Append(",\n");
        }

        private void CutComma()
        {
            text.Length -= 2;
            text.Append('\n');
        }

        private static string Number(long? value)
        {
            return value.HasValue ? value.Value.ToString(CultureInfo.InvariantCulture) : "null";
        }

        private static string Quoted(string value)
        {
            if (value == null)
            {
                return "null";
            }
            var quoted = new StringBuilder("\"");
            foreach (char letter in value)
            {
                bool plain = letter >= ' ' && letter < 127 && letter != '"' && letter != '\\';
                quoted.Append(plain
                    ? letter.ToString()
                    : "\\u" + ((int)letter).ToString("x4", CultureInfo.InvariantCulture));
            }
            return quoted.Append('"').ToString();
        }
    }
}

using System.Collections.Generic;

namespace Schedlens.EtwExport
{
    /// <summary>Column types.</summary>
    public enum Kind
    {
        Long,
        Int,
        Flag,
        Text,
        /// <summary>A list of Int.</summary>
        Ints,
    }

    /// <summary>A column of a table.</summary>
    public sealed class ColumnSchema
    {
        public readonly string Name;
        public readonly Kind Kind;
        public readonly bool Nullable;

        public ColumnSchema(string name, Kind kind, bool nullable)
        {
            Name = name;
            Kind = kind;
            Nullable = nullable;
        }
    }

    /// <summary>The exported tables, as queries/schema/base.sql declares them.</summary>
    public static class TableSchemas
    {
        // Before the tables: C# initializes static fields in the order of the text.
        private static readonly Dictionary<string, Kind> Kinds = new Dictionary<string, Kind>
        {
            { "BIGINT", Kind.Long },
            { "INTEGER", Kind.Int },
            { "BOOLEAN", Kind.Flag },
            { "VARCHAR", Kind.Text },
            { "INTEGER[]", Kind.Ints },
        };

        public static readonly IReadOnlyDictionary<string, ColumnSchema[]> All =
            new Dictionary<string, ColumnSchema[]>
            {
                { "cpu", Table(
                    "trace_id BIGINT!", "cpu INTEGER!", "group_no INTEGER", "number_in_group INTEGER",
                    "core INTEGER", "smt_index INTEGER", "core_type VARCHAR", "efficiency_class INTEGER",
                    "capacity INTEGER", "l2 INTEGER", "llc INTEGER", "package INTEGER",
                    "numa_node INTEGER", "base_khz BIGINT", "max_khz BIGINT", "online BOOLEAN",
                    "valid_from_ns BIGINT") },
                { "machine_setting", Table("trace_id BIGINT!", "key VARCHAR!", "value VARCHAR") },
                { "process", Table(
                    "trace_id BIGINT!", "upid BIGINT!", "pid BIGINT!", "name VARCHAR",
                    "start_ns BIGINT", "end_ns BIGINT", "parent_pid BIGINT", "session_id BIGINT",
                    "command_line VARCHAR") },
                { "thread", Table(
                    "trace_id BIGINT!", "utid BIGINT!", "tid BIGINT!", "upid BIGINT", "name VARCHAR",
                    "start_ns BIGINT", "end_ns BIGINT", "base_priority INTEGER", "is_idle BOOLEAN!") },
                { "thread_name", Table(
                    "trace_id BIGINT!", "utid BIGINT!", "ts BIGINT", "name VARCHAR!") },
                { "affinity", Table(
                    "trace_id BIGINT!", "utid BIGINT!", "valid_from_ns BIGINT", "cpus INTEGER[]!",
                    "source VARCHAR!") },
                { "context_switch", Table(
                    "trace_id BIGINT!", "ts BIGINT!", "cpu INTEGER!", "seq BIGINT!",
                    "prev_utid BIGINT", "next_utid BIGINT", "prev_state INTEGER",
                    "prev_wait_reason INTEGER", "prev_wait_mode INTEGER", "prev_priority INTEGER",
                    "next_priority INTEGER", "prev_preempted BOOLEAN", "prev_ideal_cpu INTEGER",
                    "prev_cstate INTEGER", "prev_remaining_quantum INTEGER", "stack_id BIGINT",
                    "next_stack_id BIGINT", "source VARCHAR!") },
                { "wakeup", Table(
                    "trace_id BIGINT!", "ts BIGINT!", "cpu INTEGER!", "seq BIGINT!", "utid BIGINT",
                    "waker_utid BIGINT", "prev_cpu INTEGER", "target_cpu INTEGER", "kind VARCHAR!",
                    "in_interrupt BOOLEAN", "stack_id BIGINT", "effective BOOLEAN") },
                { "interrupt_slice", Table(
                    "trace_id BIGINT!", "ts BIGINT!", "cpu INTEGER!", "seq BIGINT!", "dur BIGINT",
                    "kind VARCHAR!", "name VARCHAR") },
                { "cpu_idle", Table(
                    "trace_id BIGINT!", "ts BIGINT!", "cpu INTEGER!", "dur BIGINT",
                    "state INTEGER!") },
                { "cpu_frequency", Table(
                    "trace_id BIGINT!", "ts BIGINT!", "cpu INTEGER!", "khz BIGINT!") },
                { "cpu_parking", Table(
                    "trace_id BIGINT!", "ts BIGINT", "cpu INTEGER!", "parked BOOLEAN",
                    "soft_parked BOOLEAN", "reason VARCHAR") },
                { "counter_sample", Table(
                    "trace_id BIGINT!", "ts BIGINT!", "cpu INTEGER!", "utid BIGINT",
                    "counter VARCHAR!", "core_type VARCHAR", "value BIGINT!") },
                { "frame", Table(
                    "trace_id BIGINT!", "frame BIGINT!", "upid BIGINT", "utid BIGINT",
                    "process VARCHAR", "start_ns BIGINT!", "dur_ns BIGINT", "cpu_busy_ns BIGINT",
                    "gpu_busy_ns BIGINT", "displayed_ns BIGINT", "dropped BOOLEAN",
                    "dialect VARCHAR", "clock_residual_ns BIGINT") },
                { "mark", Table(
                    "trace_id BIGINT!", "ts BIGINT!", "dur BIGINT", "name VARCHAR!",
                    "kind VARCHAR!") },
                { "loss", Table(
                    "trace_id BIGINT!", "cpu INTEGER", "start_ns BIGINT", "end_ns BIGINT",
                    "events BIGINT", "signalled_by VARCHAR!") },
                { "problem", Table(
                    "trace_id BIGINT!", "place VARCHAR!", "what VARCHAR!", "count BIGINT!") },
            };

        /// <summary>Columns as "name TYPE"; "!" follows the type if the column is never NULL.</summary>
        private static ColumnSchema[] Table(params string[] columns)
        {
            var found = new ColumnSchema[columns.Length];
            for (int at = 0; at < columns.Length; at++)
            {
                string[] words = columns[at].Split(' ');
                bool nullable = !words[1].EndsWith("!");
                found[at] = new ColumnSchema(words[0], Kinds[words[1].TrimEnd('!')], nullable);
            }
            return found;
        }
    }
}

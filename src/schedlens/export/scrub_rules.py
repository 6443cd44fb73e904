"""What a scrubbed recording contains of each text: kept, replaced by a keyed hash, or left out.

Every text is replaced unless a rule keeps it, and the rules keep only words of schedlens, of the
kernel, and of Windows. A text column without a rule is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pyarrow as pa

from schedlens import _decoders
from schedlens.output.pseudonyms import Pseudonyms

Rule = Callable[[str], str | None]


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that the tables use for kinds, states, reasons, and sources.
_WORDS = frozenset(_decoders.KWAIT_REASON) | _listed(
    "perf trace_cmd etw perfetto none unknown other yes no on off monotonic monotonic_raw "
    "realtime boottime tai qpc systemtime cyclecounter local global counter uptime x86-tsc "
    "mono mono_raw boot U P E LP-E snapshot reading pin event rundown kernel_thread switch "
    "switch_event ready waking wakeup wakeup_new dynamic base irq softirq dpc isr HI TIMER "
    "NET_TX NET_RX BLOCK IRQ_POLL TASKLET SCHED HRTIMER RCU dxgi d3d9 dxgkrnl presentmon1 "
    "presentmon2 presentmon2.3 android mark workload_phase user frame default physical "
    "siblings pinned ok failed unsupported iterations bytes command begin end last R S D T t "
    "X Z P I W K x r+ R+ PERF_RECORD_LOST RB_MISSED_EVENTS buffer_lost events_lost "
    "chain_break stream_start stream_end truncated damaged overwritten late_start early_end "
    "silent_cpu not_recorded cpu_offline cpu_stats buffer_change header missing_buffer "
    "last_dropped_times left_out exit blocked quantum_end quantum_end_or_yield yield preempted "
    "throttled_or_moved runnable_other trace_end running waiting new thread interrupt idle "
    "offline High Medium Low Utility Eco Media Deadline high medium low utility eco media "
    "deadline multimedia page_fault hard_fault disk_issue disk_done read write flush cpu io "
    "memory batch fifo rr deadline ext"
)
# Values of machine settings.
_SETTINGS = _WORDS | _listed(
    "performance powersave schedutil ondemand conservative userspace menu teo ladder haltpoll "
    "intel_idle acpi_idle intel_pstate intel_cpufreq amd-pstate amd-pstate-epp acpi-cpufreq "
    "balance_performance balance_power power CFS EEVDF rt lazy full voluntary KVM QEMU xen "
    "forceoff notsupported notimplemented tsc hpet acpi_pm kvm-clock always madvise never"
)
_SETTING_KEYS = _listed(
    "hz smt_control smt_active isolated_cpus nohz_full scheduler preempt boost governor "
    "frequency_driver energy_preference idle_driver idle_governor clocksource autogroup "
    "numa_balancing hypervisor allowed_cpus command_pid"
)
# Weights of groups of threads: of cgroups by name, and of sessions by process id.
_GROUP_KEYS = _listed("cpu_shares autogroups")
_AUTOGROUP = re.compile(r"/autogroup-\d+ nice -?\d+")
_POWER_KEY = re.compile(r"[a-z0-9_.]*(park|power|epp|perf_|pstate|freq|idle|hetero)[a-z0-9_.]*")
_NUMBERS = re.compile(r"[-0-9, .%]*|0x[0-9a-fA-F]+")
_OS = re.compile(r"(Linux|Windows)(?: NT)?(?: (\d+(?:\.\d+){0,3}))?")
_COUNTER = re.compile(
    r"(?:(?:cpu|cpu_core|cpu_atom|msr)/)?(?:cpu-|ref-|bus-)?(?:cycles|instructions|tsc|aperf|mperf|"
    r"branches|branch-misses|cache-references|cache-misses|totalcycles|unhaltedcorecycles|"
    r"instructions?retired)/?(?::[ukhGHpPSD]+)?",
    re.IGNORECASE,
)
_DOMAIN = re.compile(r"(package|core|dram|uncore|psys|pkg|cores|gpu|ram)(-\d{1,4})?")
_RECORD = re.compile(
    r"PERF_RECORD_[A-Z0-9_]+"
    r"|(sched|power|irq|cpuhp|cgroup|dummy|timer|task|block|exceptions):\w+"
    r"|(syscalls:)?sys_(enter|exit)_[a-z_]+|sched_[a-z_]+|cpu_idle|cpu_frequency"
    r"|(softirq|irq_handler)_(entry|exit)"
    r"|(Thread|Process|PerfInfo|EventTrace|Image|SystemConfig|DiskIo|PageFault)/[A-Za-z]+"
)
# What the state machine counts has words of its own; readers quote from the file.
_STATE_MACHINE = "states"
# By this place `recorded_kind` knows that other threads ran without a record.
_CHOSEN_THREADS = "PERF_RECORD_THREAD_MAP"

# Columns whose texts are words of schedlens or of the system.
_WORD_COLUMNS = _listed(
    "trace.source trace.clock_name trace.tool_version cpu.core_type affinity.source "
    "context_switch.source wakeup.kind priority_change.kind qos_change.old_qos "
    "qos_change.new_qos wait_event.kind wait_event.operation snapshot_pressure.edge "
    "snapshot_pressure.resource thread_policy.policy "
    "interrupt_slice.kind interrupt_slice.name counter_sample.core_type "
    "counter_delta.core_type frame.dialect mark.kind run.placement run.status "
    "run.overhead_unit snapshot_cpu.edge snapshot_thread.edge snapshot_thread.state "
    "snapshot_cgroup.edge loss.signalled_by sched_slice.end_reason "
    "thread_state_other.state thread_state_other.reason cpu_state_other.state "
    "calibration.core_type"
)
# Kernels of the workload program with their variants, places of workers, and words of experiments.
_OWN_WORDS = _WORDS | _listed(
    "add1 add8 imul_add ruler sha256 mem_seq mem_stride pointer_chase aes matmul scan serve "
    "pause spin_handoff simd scalar shani ce 1g 64m private shared lines fma plain closed "
    "open spin park pairs scaling smt boost handoff shards alone both core same_l2 same_llc "
    "across_llc across_package p_beside_e two_cpus turbo service mpmc_queue atomic_counter "
    "spin_lock mutex false_sharing same_line own_line"
)
_OWN_NUMBER = re.compile(r"(imul|cpu|[a-z])?\d{1,4}")
_OWN_SEPARATOR = re.compile(r"[-+: ]+")
# Names of our own workloads and experiments.
_OWN_COLUMNS = _listed(
    "run.workload run.variant experiment_cell.experiment experiment_cell.cell "
    "experiment_cell.place experiment_cell.smt experiment_cell.boost experiment_cell.load "
    "experiment_cell.how experiment_worker.label experiment_worker.kernel "
    "experiment_worker.variant calibration.workload calibration.variant"
)
_CGROUP_COLUMNS = frozenset({"snapshot_thread.cgroup", "thread_cgroup.cgroup",
                             "snapshot_cgroup.cgroup"})  # fmt: skip


class Rules:
    """The rules of one export."""

    def __init__(self, secret: bytes) -> None:
        self._pseudonyms = Pseudonyms(secret)

    def name(self, text: str) -> str:
        """What stands for a name."""
        return self._pseudonyms.name(text)

    def counter(self, text: str) -> str:
        """The name of a counter, if processors have it, else what stands for it."""
        return text if _COUNTER.fullmatch(text) else self.name(text)

    def subject(self, process: str) -> str:
        """What stands for the value of `--process`: a name, or a group of threads."""
        kind, _, text = process.partition(":")
        if kind == "cgroup":
            return f"{kind}:{self._pseudonyms.cgroup(text)}"
        if kind == "service":
            unit = text if "." in text else f"{text}.service"
            return f"{kind}:{self._pseudonyms.cgroup(unit)}"
        return self.name(process)

    def scrubbed(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with every text as its rule says; the columns remain the same."""
        columns = [
            self._column(f"{table}.{name}", column)
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
        ]
        made = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
        if table == "machine_setting":
            return _changed(made, self._setting)
        if table == "problem":
            return _changed(made, _problem)
        if table == "record_count":
            known = [bool(_RECORD.fullmatch(text)) for text in made["record"].to_pylist()]
            return made.filter(pa.array(known, pa.bool_()))
        return made

    def _column(self, column: str, values: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_list(values.type) and pa.types.is_string(values.type.value_type):
            rule = self._word_or_name
            kept = [None if row is None else [rule(text) for text in row]
                    for row in values.to_pylist()]  # fmt: skip
            return pa.array(kept, values.type)
        if not pa.types.is_string(values.type):
            return values
        rule_of = self._rule(column)
        words = values.dictionary_encode()
        replaced = [rule_of(text) for text in words.dictionary.to_pylist()]
        return pa.array(replaced, pa.string()).take(words.indices)

    def _rule(self, column: str) -> Rule:
        if column in _WORD_COLUMNS:
            return self._version if column == "trace.tool_version" else self._word_or_name
        if column in _OWN_COLUMNS:
            return self._own
        if column in _CGROUP_COLUMNS:
            return self._pseudonyms.cgroup
        match column:
            case ("machine_setting.key" | "machine_setting.value" | "record_count.record"
                  | "problem.place" | "problem.what"):  # fmt: skip
                # Decided by row.
                return str
            case "counter_sample.counter" | "counter_delta.counter" | "track_counter.name":
                return self.counter
            case "energy.domain":
                return lambda text: text if _DOMAIN.fullmatch(text) else self.name(text)
            case "trace.os":
                return _system
            case ("trace.path" | "trace.cpu_model" | "process.command_line"
                  | "experiment_worker.predicted_basis"):  # fmt: skip
                return lambda text: None
            case "calibration.measured_utc":
                return lambda text: ""
            case "run.command":
                return lambda text: "command"
        return self.name

    def _setting(self, key: str, value: str | None) -> tuple[str, str | None] | None:
        if key not in _GROUP_KEYS:
            return _setting(key, value)
        try:
            found = json.loads(value or "")
        except ValueError:
            return None
        if not isinstance(found, dict):
            return None
        if key == "cpu_shares":
            kept = {self._pseudonyms.cgroup(name): shares for name, shares in found.items()
                    if isinstance(shares, int)}  # fmt: skip
        else:
            kept = {pid: text for pid, text in found.items()
                    if pid.isdigit() and _AUTOGROUP.fullmatch(str(text))}  # fmt: skip
        return key, json.dumps(kept, sort_keys=True)

    def _word_or_name(self, text: str) -> str:
        return text if text in _WORDS else self.name(text)

    def _version(self, text: str) -> str:
        return text if re.fullmatch(r"\d+(\.\d+){0,3}", text) else ""

    def _own(self, text: str) -> str:
        words = _OWN_SEPARATOR.split(text)
        is_own = all(word in _OWN_WORDS or _OWN_NUMBER.fullmatch(word) for word in words)
        return text if is_own else self.name(text)


def _system(text: str) -> str | None:
    """The system and the number of its version, without what a distributor or builder added."""
    found = _OS.match(text)
    return " ".join(part for part in found.groups() if part) if found else None


def _changed(
    rows: pa.RecordBatch, change: Callable[[str, str | None], tuple[str, str | None] | None]
) -> pa.RecordBatch:
    """The rows with their second and third column changed, without those that become None."""
    kept = []
    for row in rows.to_pylist():
        first, second = list(row)[1:3]
        changed = change(row[first], row[second])
        if changed is not None:
            kept.append({**row, first: changed[0], second: changed[1]})
    return pa.RecordBatch.from_pylist(kept, rows.schema)


def _problem(place: str, what: str | None) -> tuple[str, str | None]:
    """A problem in the words of the state machine; of others only that there is one."""
    if place == _STATE_MACHINE:
        return place, what
    if place == _CHOSEN_THREADS:
        return place, "only chosen threads were recorded: see the original analysis"
    return "reader", "a problem whose description may quote the file: see the original analysis"


def _setting(key: str, value: str | None) -> tuple[str, str | None] | None:
    """A setting that analyzers use, its value as far as it is a number or a known word."""
    is_number = value is None or bool(_NUMBERS.fullmatch(value))
    if key not in _SETTING_KEYS:
        return (key, value) if _POWER_KEY.fullmatch(key) and is_number and value else None
    words = [] if value is None else value.replace(" (default of a dynamic kernel)", "").split(",")
    if is_number or all(word in _SETTINGS for word in words):
        return key, value
    # Which hypervisor it is, or the name of a scheduler, may identify a product.
    return key, "yes" if key == "hypervisor" else "hidden"

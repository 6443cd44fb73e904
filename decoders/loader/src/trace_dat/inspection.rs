//! What a recording contains and which questions it can answer.

use schedlens_trace_dat::Recording;
use schedlens_tracepoints::events::Family;
use serde_json::{Value, json};

/// A question, the events that answer it, and what records them.
type Question = (&'static str, fn(&Family) -> bool, &'static str, &'static str);

const QUESTIONS: [Question; 8] = [
    (
        "which thread ran where, and who shared a core with whom",
        |family| matches!(family, Family::Switch { .. }),
        "sched_switch was not recorded",
        "trace-cmd record -e sched",
    ),
    (
        "why a thread left its CPU (state, priority)",
        |family| matches!(family, Family::Switch { .. }),
        "sched_switch was not recorded",
        "trace-cmd record -e sched",
    ),
    (
        "how long threads waited for a CPU, and who woke them",
        |family| matches!(family, Family::Wakeup { .. }),
        "no wakings were recorded (sched_waking or sched_wakeup)",
        "trace-cmd record -e sched",
    ),
    (
        "migrations and where a woken thread was sent",
        |family| matches!(family, Family::Migrate { .. }),
        "sched_migrate_task was not recorded",
        "trace-cmd record -e sched",
    ),
    (
        "interrupt work on CPUs that look idle",
        |family| matches!(family, Family::SoftirqEntry { .. }),
        "softirq_entry and softirq_exit were not recorded",
        "trace-cmd record -e sched -e irq",
    ),
    (
        "idle states",
        |family| matches!(family, Family::Idle { .. }),
        "cpu_idle was not recorded",
        "trace-cmd record -e sched -e cpu_idle",
    ),
    (
        "frequencies",
        |family| matches!(family, Family::Frequency { .. }),
        "cpu_frequency was not recorded",
        "trace-cmd record -e sched -e cpu_frequency",
    ),
    (
        "whether a thread yielded",
        |family| matches!(family, Family::Yield),
        "sys_enter_sched_yield was not recorded",
        "trace-cmd record -e sched -e syscalls:sys_enter_sched_yield",
    ),
];

/// Facts about a recording as JSON, with the keys of [`crate::perf::inspect`].
pub fn inspect(recording: &Recording) -> Value {
    let counts = recording.counts_by_name();
    let by_event: serde_json::Map<String, Value> =
        counts.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
    let problems: Vec<Value> = recording
        .problems
        .rows()
        .iter()
        .map(|p| json!({"place": p.place, "what": p.what, "count": p.count}))
        .collect();
    let start = recording.first.unwrap_or_default();
    let since = |time: u64| time.wrapping_sub(start).cast_signed();
    let gaps: Vec<Value> = recording
        .gaps
        .iter()
        .map(|gap| {
            json!({
                "cpu": gap.cpu,
                "start_ns": gap.before.map(since),
                "end_ns": gap.until.map(since),
                "events": gap.events,
                "signalled_by": gap.signalled_by,
            })
        })
        .collect();
    json!({
        "format": format_name(recording),
        "header": header(recording),
        "clock": recording.clock_name(),
        "cpus": recording.cpus(),
        "start_clock": recording.first,
        "end_clock": recording.last,
        "duration_ns": recording.first.zip(recording.last).map(|(first, last)| last - first),
        "start_time_utc_ns": recording.wall_start_ns(),
        "records": recording.records,
        "records_by_event": by_event,
        "loss": {"events": recording.events_lost(), "gaps": gaps},
        "guests": guests(recording),
        "problems": problems,
        "can_answer": questions(recording),
    })
}

fn format_name(recording: &Recording) -> String {
    let compressed = recording.compression().map_or(String::new(), |name| format!(", {name}"));
    let cut_off = if recording.cut_off { ", cut off" } else { "" };
    format!("trace.dat version {}{compressed}{cut_off}", recording.version)
}

fn header(recording: &Recording) -> Value {
    let options = &recording.options;
    let buffers: Vec<&str> = options
        .buffers
        .iter()
        .map(|buffer| if buffer.name.is_empty() { "top" } else { &buffer.name })
        .collect();
    let facts = [
        ("host", recording.host().map(str::to_owned)),
        ("os_release", recording.os()),
        ("arch", recording.arch().map(str::to_owned)),
        ("trace_cmd_version", options.version.clone()),
        ("trace_id", options.trace_id.map(|id| format!("{id:#x}"))),
        ("host_trace_id", options.time_shift.as_ref().map(|shift| format!("{:#x}", shift.peer))),
        ("buffers", (buffers.len() > 1).then(|| buffers.join(", "))),
    ];
    facts
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), Value::String(value?))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn guests(recording: &Recording) -> Vec<Value> {
    let guest = |guest: &schedlens_trace_dat::options::Guest| {
        let cpus: Vec<Value> =
            guest.cpus.iter().map(|(cpu, tid)| json!({"cpu": cpu, "host_tid": tid})).collect();
        json!({"name": guest.name, "trace_id": format!("{:#x}", guest.trace_id), "cpus": cpus})
    };
    recording.guests().iter().map(guest).collect()
}

fn questions(recording: &Recording) -> Vec<Value> {
    let mut answers: Vec<Value> = QUESTIONS
        .iter()
        .map(|(question, wanted, why, record_with)| {
            let is_answerable = recording.has(*wanted);
            json!({
                "question": question,
                "answerable": is_answerable,
                "why": (!is_answerable).then_some(why),
                "record_with": (!is_answerable).then_some(record_with),
            })
        })
        .collect();
    let has_wall_time = recording.options.date_ns.is_some();
    answers.push(json!({
        "question": "wall time of the recording",
        "answerable": has_wall_time,
        "why": (!has_wall_time).then_some("the file does not relate its clock to wall time"),
        "record_with": (!has_wall_time).then_some("trace-cmd record --date"),
    }));
    answers
}

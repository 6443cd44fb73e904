//! What a recording contains and which questions it can answer, without reading it all twice.

use schedlens_perf_data::attrs::TYPE_TRACEPOINT;
use schedlens_perf_data::features::Features;
use schedlens_perf_data::record;
use schedlens_perf_data::recording::{Form, Recording};
use schedlens_perf_data::streams;
use schedlens_tracepoints::events::Family;
use serde_json::{Value, json};

use crate::linux::threads::{Birth, Threads};

/// A question, whether this recording can answer it, and what would.
struct Question {
    question: &'static str,
    answerable: bool,
    why: &'static str,
    record_with: &'static str,
}

/// Facts about a recording as JSON.
///
/// Keys: `format`, `header`, `clock`, `cpus`, `start_ns`, `end_ns`, `duration_ns`, `start_time_utc_ns`,
/// `records`, `records_by_event`, `processes`, `events`, `loss`, `features`, `problems`,
/// `can_answer`.
pub fn inspect(recording: &Recording) -> Value {
    let index = &recording.index;
    let features = &recording.features;
    let seconds = index.first.zip(index.last).map(|(first, last)| last - first);
    let by_event: serde_json::Map<String, Value> =
        recording.counts().into_iter().map(|(name, count)| (name, json!(count))).collect();
    let events: Vec<Value> = recording
        .events
        .attrs
        .iter()
        .zip(&recording.named)
        .map(|(attr, event)| {
            json!({
                "name": event.name,
                "type": attr.kind,
                "config": attr.config,
                "sample_type": attr.sample_type,
                "read_format": attr.read_format,
                "ids": attr.ids,
            })
        })
        .collect();
    let problems: Vec<Value> = recording
        .problems
        .rows()
        .iter()
        .map(|p| json!({"place": p.place, "what": p.what, "count": p.count}))
        .collect();
    json!({
        "format": format_name(recording),
        "header": header(features),
        "clock": recording.clock_name(),
        "cpus": index.cpus(),
        "start_clock": index.first,
        "end_clock": index.last,
        "duration_ns": seconds,
        "start_time_utc_ns": recording.wall_start_ns(),
        "records": index.records,
        "records_by_event": by_event,
        "processes": processes(recording),
        "events": events,
        "loss": {"events": index.lost.max(index.lost_samples), "damaged_places": index.damaged},
        "features": features.present,
        "problems": problems,
        "can_answer": questions(recording)
            .iter()
            .map(|q| {
                json!({
                    "question": q.question,
                    "answerable": q.answerable,
                    "why": (!q.answerable).then_some(q.why),
                    "record_with": (!q.answerable).then_some(q.record_with),
                })
            })
            .collect::<Vec<_>>(),
    })
}

fn format_name(recording: &Recording) -> String {
    let form = match recording.form {
        Form::File => "perf.data file",
        Form::Pipe => "perf.data, pipe mode",
        Form::Directory => "perf.data directory",
    };
    let compressed = if recording.compressed { ", compressed" } else { "" };
    let cut_off = if recording.cut_off { ", cut off" } else { "" };
    format!("{form}{compressed}{cut_off}")
}

fn header(features: &Features) -> Value {
    let facts = [
        ("host", features.host.clone()),
        ("os_release", features.os_release.clone()),
        ("perf_version", features.perf_version.clone()),
        ("arch", features.arch.clone()),
        ("cpu_model", features.cpu_model.clone()),
        ("cpu_id", features.cpu_id.clone()),
        ("cpus_online", features.cpus_online.map(|cpus| cpus.to_string())),
        ("cpus_available", features.cpus_available.map(|cpus| cpus.to_string())),
        ("clock_resolution_ns", features.clock_resolution_ns.map(|ns| ns.to_string())),
        ("command", features.command.as_ref().map(|command| command.join(" "))),
    ];
    facts
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), Value::String(value?))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn processes(recording: &Recording) -> Value {
    let mut threads = Threads::new(0);
    let first = recording.index.first.unwrap_or_default();
    for (ts, span) in &recording.index.tasks {
        let time = (*ts != 0 && *ts >= first).then(|| ts.wrapping_sub(first).cast_signed());
        for found in streams::records(&recording.segments, span) {
            let id = |at| {
                schedlens_input::bytes::u32_at(found.bytes, at).unwrap_or_default().cast_signed()
            };
            match (found.kind, time) {
                (record::COMM, _) => {
                    let name =
                        schedlens_input::bytes::text(found.bytes.get(16..).unwrap_or_default());
                    threads.comm((id(8), id(12)), time, name);
                }
                (record::FORK, _) => {
                    threads.fork(Birth::Record, id(16), Some(id(8)), time, id(20));
                }
                (record::EXIT, ts) => threads.exit(id(16), ts.unwrap_or_default()),
                _ => {}
            }
        }
    }
    threads
        .listing()
        .into_iter()
        .map(|process| {
            let members: Vec<Value> = process
                .threads
                .into_iter()
                .map(|(tid, name)| json!({"tid": tid, "name": name}))
                .collect();
            json!({"pid": process.pid, "name": process.name, "threads": members})
        })
        .collect()
}

fn questions(recording: &Recording) -> Vec<Question> {
    let has = |wanted: fn(&Family) -> bool| recording.has(wanted);
    let switches = has(|family| matches!(family, Family::Switch { .. }));
    let kinds = &recording.index.kinds;
    let switch_events = [record::SWITCH, record::SWITCH_CPU_WIDE]
        .iter()
        .any(|kind| kinds.contains_key(kind))
        || recording.events.attrs.iter().any(schedlens_perf_data::attrs::Attr::has_switch_events);
    let with_cpu = recording.events.attrs.iter().all(schedlens_perf_data::attrs::Attr::has_cpu);
    let runs = (switches || switch_events) && with_cpu;
    let wakings = has(|family| matches!(family, Family::Wakeup { .. }));
    let group = recording
        .events
        .attrs
        .iter()
        .any(|attr| attr.kind != TYPE_TRACEPOINT && attr.read_format & 8 != 0);
    let all = "perf record -a -k CLOCK_MONOTONIC --switch-events -e sched:sched_switch,\
               sched:sched_waking,sched:sched_wakeup_new,sched:sched_migrate_task";
    vec![
        Question {
            question: "which thread ran where, and who shared a core with whom",
            answerable: runs,
            why: if with_cpu {
                "neither sched:sched_switch nor --switch-events was recorded"
            } else {
                "records do not contain their CPU"
            },
            record_with: if with_cpu { all } else { "perf record --sample-cpu --switch-events" },
        },
        Question {
            question: "why a thread left its CPU (state, priority)",
            answerable: switches,
            why: "sched:sched_switch was not recorded",
            record_with: all,
        },
        Question {
            question: "how long threads waited for a CPU, and who woke them",
            answerable: runs && wakings,
            why: "no wakings were recorded (sched:sched_waking or sched:sched_wakeup)",
            record_with: all,
        },
        Question {
            question: "migrations and where a woken thread was sent",
            answerable: has(|family| matches!(family, Family::Migrate { .. })),
            why: "sched:sched_migrate_task was not recorded",
            record_with: all,
        },
        Question {
            question: "interrupt work on CPUs that look idle",
            answerable: has(|family| matches!(family, Family::SoftirqEntry { .. })),
            why: "irq:softirq_entry and irq:softirq_exit were not recorded",
            record_with: "perf record -a -e irq:softirq_entry,irq:softirq_exit",
        },
        Question {
            question: "idle states",
            answerable: has(|family| matches!(family, Family::Idle { .. })),
            why: "power:cpu_idle was not recorded",
            record_with: "perf record -a -e power:cpu_idle",
        },
        Question {
            question: "frequencies",
            answerable: has(|family| matches!(family, Family::Frequency { .. })),
            why: "power:cpu_frequency was not recorded",
            record_with: "perf record -a -e power:cpu_frequency",
        },
        Question {
            question: "cycles and instructions of each slice",
            answerable: group && switches,
            why: "no counters are read at switches",
            record_with: "perf record -a -e '{sched:sched_switch,cycles,instructions}:S'",
        },
        Question {
            question: "whether a thread yielded",
            answerable: has(|family| matches!(family, Family::Yield)),
            why: "syscalls:sys_enter_sched_yield was not recorded",
            record_with: "perf record -a -e syscalls:sys_enter_sched_yield",
        },
        Question {
            question: "wall time of the recording",
            answerable: recording.features.clock.is_some(),
            why: "the file does not relate its clock to wall time",
            record_with: "perf record -k CLOCK_MONOTONIC",
        },
    ]
}

//! The contents of a log as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::container::clock::unix_ns;
use crate::container::header::{LogHeader, mode};
use crate::facts::names::{Names, is_documented_only};
use crate::facts::survey::Survey;
use crate::passes::counts::{Event, Key};
use crate::passes::scan::Scan;
use crate::records::{Kind, Pointer};

/// Facts about a recording as JSON: see [`crate::Recording::inspect`].
pub(crate) fn inspect(scan: &Scan, survey: &Survey) -> Value {
    let names = Names::new(scan, survey);
    let log = scan.log();
    let (header, clock) = (log.header(), log.clock());
    let window = scan.window();
    let span = window.map(|(first, last)| (clock.ns(first), clock.ns(last)));
    let problems: Vec<Value> = scan
        .problems()
        .map(|(place, what, count)| json!({"place": place, "what": what, "count": count}))
        .collect();
    json!({
        "format": format_name(scan),
        "os_build": header.os_build,
        "num_processors": header.num_processors,
        "perf_freq": header.perf_freq,
        "start": utc(header.start_time),
        "end": header.end_time.and_then(utc),
        "header": header_facts(header),
        "files": log.headers().map(|(name, header)| file_facts(name, header)).collect::<Vec<_>>(),
        "clock": clock.name(),
        "clock_hz": clock.hz,
        "start_clock": clock.start,
        "end_clock": window.map(|(_, last)| last),
        "first_ns": span.map(|(first, _)| first),
        "last_ns": span.map(|(_, last)| last),
        "duration_ns": span.map(|(_, last)| last),
        "start_time_utc_ns": clock.wall_start_ns(),
        "cpus": scan.cpus(),
        "buffers": buffers(scan),
        "records": scan.records(),
        "records_by_kind": by_kind(scan),
        "records_by_event": by_name(scan, &names),
        "events": scan.counts().iter().map(|counted| event(counted, &names)).collect::<Vec<_>>(),
        "loss": loss(scan),
        "documentation_only": documentation_only(scan, &names),
        "problems": problems,
    })
}

fn format_name(scan: &Scan) -> String {
    let header = scan.log().header();
    let mut name = "Windows event trace log".to_owned();
    for (bit, word) in [
        (mode::RELOG, ", merged"),
        (mode::CIRCULAR, ", circular"),
        (mode::BUFFERING, ", ring buffer"),
    ] {
        if header.has(bit) {
            name += word;
        }
    }
    if scan.log.files.iter().any(|file| file.buffers.iter().any(|buffer| buffer.packed)) {
        name += ", compressed";
    }
    if header.end_time.is_none() {
        name += ", not closed";
    }
    if scan.log.files.iter().any(|file| file.cut_off) {
        name += ", cut off";
    }
    name
}

fn header_facts(header: &LogHeader) -> Value {
    let (major, minor) = header.os_version;
    let (layout_major, layout_minor) = header.layout;
    let modes: Vec<&str> =
        mode::NAMES.iter().filter(|(bit, _)| header.has(1 << bit)).map(|(_, name)| *name).collect();
    json!({
        "os_version": format!("{major}.{minor}.{}", header.os_build),
        "layout": format!("{layout_major}.{layout_minor}"),
        "pointer_size": header.pointer.size(),
        "buffer_size": header.buffer_size,
        "buffers_written": header.buffers_written,
        "max_file_size": header.max_file_size,
        "log_file_mode": header.mode,
        "modes": modes,
        "timer_resolution_100ns": header.timer_resolution,
        "cpu_mhz": header.cpu_mhz,
        "clock_type": header.clock_type,
        "header_record_clock": header.start_clock,
        "boot_time": utc(header.boot_time),
        "start_filetime": header.start_time,
        "end_filetime": header.end_time,
        "boot_filetime": header.boot_time,
        "utc_bias_minutes": header.utc_bias_minutes,
        "events_lost": header.events_lost,
        "buffers_lost": header.buffers_lost,
        "session_name": header.session_name,
        "log_file_name": header.log_file_name,
    })
}

fn file_facts(name: &str, header: &LogHeader) -> Value {
    json!({
        "name": name,
        "session_name": header.session_name,
        "start": utc(header.start_time),
        "end": header.end_time.and_then(utc),
        "events_lost": header.events_lost,
        "buffers_lost": header.buffers_lost,
    })
}

fn buffers(scan: &Scan) -> Value {
    let all = || scan.log.files.iter().flat_map(|file| &file.buffers);
    let packed = || all().filter(|buffer| buffer.packed);
    let packing = scan.log.files.iter().find(|file| file.buffers.iter().any(|b| b.packed));
    let mut per_cpu: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for buffer in all() {
        if let Some(cpu) = buffer.cpu {
            let counts = per_cpu.entry(cpu).or_default();
            counts.0 += 1;
            counts.1 += u64::from(buffer.records);
        }
    }
    let per_cpu: Vec<Value> = per_cpu
        .into_iter()
        .map(
            |(cpu, (buffers, records))| json!({"cpu": cpu, "buffers": buffers, "records": records}),
        )
        .collect();
    json!({
        "count": all().count(),
        "compressed": packed().count(),
        "compression": packing.map(|file| file.packing.name()),
        "content_bytes": scan.content_bytes(),
        "by_cpu": per_cpu,
    })
}

fn by_kind(scan: &Scan) -> Value {
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for (key, count) in scan.counts() {
        *kinds.entry(kind_name(key)).or_default() += count;
    }
    kinds.into_iter().map(|(name, count)| (name, json!(count))).collect::<Map<_, _>>().into()
}

fn by_name(scan: &Scan, event_names: &Names<'_>) -> Value {
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    for (key, count) in scan.counts() {
        *names.entry(event_names.of(key)).or_default() += count;
    }
    names.into_iter().map(|(name, count)| (name, json!(count))).collect::<Map<_, _>>().into()
}

fn kind_name(key: &Key) -> String {
    let width = match key.pointer {
        Pointer::Four => "32",
        Pointer::Eight => "64",
    };
    let (name, has_width) = match key.kind {
        Kind::System => ("system", true),
        Kind::Compact => ("compact", true),
        Kind::PerfInfo => ("perfinfo", true),
        Kind::Full => ("full", true),
        Kind::Instance => ("instance", true),
        Kind::Event => ("event", true),
        Kind::Message => ("message", false),
        Kind::Error => ("error", false),
        Kind::Timed => ("timed", false),
    };
    if has_width { format!("{name}{width}") } else { name.to_owned() }
}

fn event((key, count): &(Key, u64), names: &Names<'_>) -> Value {
    let mut event = Map::new();
    event.insert("name".to_owned(), json!(names.of(key)));
    event.insert("kind".to_owned(), json!(kind_name(key)));
    match key.event {
        Event::Hook(hook) => {
            event.insert("hook".to_owned(), json!(format!("{hook:04x}")));
        }
        Event::Classic(class, opcode) => {
            event.insert("class".to_owned(), json!(class.to_string()));
            event.insert("opcode".to_owned(), json!(opcode));
        }
        Event::Manifest(provider, id) => {
            event.insert("provider".to_owned(), json!(provider.to_string()));
            event.insert("id".to_owned(), json!(id));
        }
        Event::SelfDescribing(provider, _) => {
            event.insert("provider".to_owned(), json!(provider.to_string()));
            event.insert("id".to_owned(), json!(0));
        }
        Event::Message(number) => {
            event.insert("message".to_owned(), json!(number));
        }
        Event::None => {}
    }
    event.insert("version".to_owned(), json!(key.version));
    event.insert("count".to_owned(), json!(count));
    Value::Object(event)
}

fn loss(scan: &Scan) -> Value {
    let clock = scan.log().clock();
    let gaps: Vec<Value> = scan
        .gaps()
        .iter()
        .map(|gap| {
            json!({
                "cpu": gap.cpu,
                "start_ns": gap.start.map(|ts| clock.ns(ts)),
                "end_ns": gap.end.map(|ts| clock.ns(ts)),
                "events": gap.events,
                "signalled_by": gap.signalled_by,
            })
        })
        .collect();
    json!({
        "events": scan.log().lost(|header| header.events_lost),
        "buffers": scan.log().lost(|header| header.buffers_lost),
        "gaps": gaps,
    })
}

/// The parts of this recording that are decoded from documentation alone, because no real file with
/// them was available.
fn documentation_only(scan: &Scan, names: &Names<'_>) -> Vec<String> {
    let mut found: Vec<String> = scan
        .counts()
        .iter()
        .filter(|(key, _)| is_documented_only(key.event))
        .map(|(key, _)| names.of(key))
        .collect();
    let kinds = |kind: Kind| scan.counts().iter().any(|(key, _)| key.kind == kind);
    for (kind, name) in [
        (Kind::Compact, "compact record headers"),
        (Kind::Instance, "instance record headers"),
        (Kind::Message, "WPP messages"),
        (Kind::Error, "error records"),
        (Kind::Timed, "timed records"),
    ] {
        if kinds(kind) {
            found.push(name.to_owned());
        }
    }
    let header = scan.log().header();
    if header.clock_type > 1 {
        found.push(format!("clock {}", scan.log().clock().name()));
    }
    if header.has(mode::CIRCULAR) {
        found.push("circular files that have wrapped".to_owned());
    }
    let packed = scan.log.files.iter().filter(|file| file.buffers.iter().any(|b| b.packed));
    for file in packed.filter(|file| file.packing != crate::compression::Packing::Xpress) {
        found.push(format!("{} buffers", file.packing.name()));
    }
    found.sort();
    found.dedup();
    found
}

/// A FILETIME as ISO 8601 in UTC with all its digits; `None` for times before 1970.
fn utc(filetime: u64) -> Option<String> {
    let ns = unix_ns(filetime).filter(|ns| *ns >= 0)?;
    let (seconds, ticks) = (ns / 1_000_000_000, ns % 1_000_000_000 / 100);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ticks:07}Z"))
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar.
fn date(days: i64) -> (i64, i64, i64) {
    // Years that start in March, so that leap days come last.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filetimes_keep_every_digit() {
        assert_eq!(utc(116_444_736_000_000_000).as_deref(), Some("1970-01-01T00:00:00.0000000Z"));
        assert_eq!(utc(132_264_173_104_203_138).as_deref(), Some("2020-02-17T12:48:30.4203138Z"));
        assert_eq!(utc(133_536_383_999_999_999).as_deref(), Some("2024-02-28T23:59:59.9999999Z"));
        assert_eq!(utc(133_536_384_000_000_000).as_deref(), Some("2024-02-29T00:00:00.0000000Z"));
        assert_eq!(utc(0), None);
    }
}

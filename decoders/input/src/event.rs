//! Single events with their decoded fields, and the filter for them.

use serde_json::{Map, Value as Json};

/// One event of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time from the start of the recording, ns.
    pub ts_ns: i64,
    /// Clock of the recording, as written.
    pub clock: i64,
    /// Logical CPU, if the record contains it.
    pub cpu: Option<i64>,
    /// Process, if the record contains it.
    pub pid: Option<i64>,
    /// Thread, if the record contains it.
    pub tid: Option<i64>,
    /// Its source: a provider, a tracepoint's system, or a recorder.
    pub provider: String,
    /// Name, such as `Thread/CSwitch` or `sched_switch`.
    pub name: String,
    /// Name of the layout used to read its fields, if several events share one.
    pub layout: Option<String>,
    /// Its identifier in the file: a hook, an opcode, or a number.
    pub id: String,
    /// Version of its layout.
    pub version: Option<i64>,
    /// Pointer size in its payload, if that differs between records.
    pub pointer: Option<i64>,
    /// Fields by name; `None` without a description.
    pub fields: Option<Map<String, Json>>,
    /// File, buffer, and offset, if the format has buffers.
    pub place: Option<[i64; 3]>,
}

impl Event {
    /// The fields as a JSON object; empty if they are not described.
    pub fn fields_json(&self) -> String {
        let fields = self.fields.clone();
        fields.map_or_else(String::new, |fields| Json::Object(fields).to_string())
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        let mut object = Map::new();
        object.insert("ts_ns".into(), self.ts_ns.into());
        object.insert("clock".into(), self.clock.into());
        object.insert("cpu".into(), self.cpu.into());
        object.insert("pid".into(), self.pid.into());
        object.insert("tid".into(), self.tid.into());
        object.insert("provider".into(), self.provider.as_str().into());
        object.insert("name".into(), self.name.as_str().into());
        object.insert("layout".into(), self.layout.as_deref().into());
        object.insert("id".into(), self.id.as_str().into());
        object.insert("version".into(), self.version.into());
        if let Some(pointer) = self.pointer {
            object.insert("pointer".into(), pointer.into());
        }
        object.insert("fields".into(), self.fields.clone().map_or(Json::Null, Json::Object));
        if let Some(place) = self.place {
            object.insert("place".into(), place.to_vec().into());
        }
        Json::Object(object).to_string()
    }

    /// The cells of [`CSV_HEADER`], quoted as in RFC 4180.
    pub fn csv(&self) -> String {
        let number = |value: Option<i64>| value.map_or_else(String::new, |v| v.to_string());
        [
            self.ts_ns.to_string(),
            number(self.cpu),
            number(self.pid),
            number(self.tid),
            quoted(&self.provider),
            quoted(&self.name),
            quoted(&self.id),
            number(self.version),
            quoted(&self.fields_json()),
        ]
        .join(",")
    }

    /// A line of text without control characters, safe to print to a terminal.
    pub fn text(&self) -> String {
        let (seconds, ns) = (self.ts_ns.div_euclid(NS_PER_S), self.ts_ns.rem_euclid(NS_PER_S));
        let number = |value: Option<i64>| value.map_or_else(|| "-".to_owned(), |v| v.to_string());
        let thread = format!("{}/{}", number(self.pid), number(self.tid));
        let mut line = format!(
            "{seconds:5}.{ns:09} CPU {:>3} {thread:>13} {} {}",
            number(self.cpu),
            self.provider,
            self.name
        );
        for (key, value) in self.fields.iter().flatten() {
            line.push_str(&format!(" {key}={value}"));
        }
        if self.fields.is_none() {
            line.push_str(&format!(" (not decoded: {})", self.id));
        }
        line.chars().filter(|c| !c.is_control()).collect()
    }
}

const NS_PER_S: i64 = 1_000_000_000;

/// First line of a CSV file of events.
pub const CSV_HEADER: &str = "ts_ns,cpu,pid,tid,provider,name,id,version,fields";

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The wanted events; the default is all.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Provider patterns; empty: all.
    pub providers: Vec<String>,
    /// Name patterns; empty: all.
    pub names: Vec<String>,
    /// No event before this time, ns.
    pub from_ns: Option<i64>,
    /// No event at or after this time, ns.
    pub to_ns: Option<i64>,
}

impl Wanted {
    /// Whether an event at that time is in the window.
    pub fn has_time(&self, ts_ns: i64) -> bool {
        self.from_ns.is_none_or(|from| ts_ns >= from) && self.to_ns.is_none_or(|to| ts_ns < to)
    }

    /// Whether the end of the window has been reached.
    pub fn is_over(&self, ts_ns: i64) -> bool {
        self.to_ns.is_some_and(|to| ts_ns >= to)
    }

    /// Whether events of that provider are wanted.
    pub fn has_provider(&self, provider: &str) -> bool {
        self.providers.is_empty() || self.providers.iter().any(|p| matches(p, provider))
    }

    /// Whether events of that name are wanted, with its group or without, or of that id.
    pub fn has_name(&self, name: &str, id: &str) -> bool {
        let short = name.rsplit('/').next().unwrap_or(name);
        let fits = |pattern: &String| [name, short, id].iter().any(|text| matches(pattern, text));
        self.names.is_empty() || self.names.iter().any(fits)
    }
}

/// Whether a text matches a pattern: `*` is any text, `?` any character; case does not matter.
pub fn matches(pattern: &str, text: &str) -> bool {
    let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (pattern, text) = (lower(pattern), lower(text));
    let (mut p, mut t) = (0, 0);
    // Where to continue if the text after the last star does not match.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                p = at + 1;
                t = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        let mut fields = Map::new();
        fields.insert("comm".into(), "a\x1b,\"b".into());
        fields.insert("pid".into(), 7.into());
        Event {
            ts_ns: 1_000_000_002,
            clock: 5,
            cpu: Some(3),
            pid: None,
            tid: Some(9),
            provider: "sched".into(),
            name: "sched_waking".into(),
            layout: None,
            id: "315".into(),
            version: None,
            pointer: None,
            fields: Some(fields),
            place: None,
        }
    }

    #[test]
    fn patterns_match_like_those_of_a_shell() {
        for (pattern, text, expected) in [
            ("sched_*", "sched_switch", true),
            ("SCHED_SWITCH", "sched_switch", true),
            ("*switch", "sched_switch", true),
            ("s*d_s?itch", "sched_switch", true),
            ("sched", "sched_switch", false),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn name_is_found_with_and_without_its_group() {
        let wanted = |name: &str| Wanted { names: vec![name.into()], ..Wanted::default() };
        assert!(wanted("CSwitch").has_name("Thread/CSwitch", "0524"));
        assert!(wanted("thread/*").has_name("Thread/CSwitch", "0524"));
        assert!(!wanted("Thread").has_name("Thread/CSwitch", "0524"));
    }

    #[test]
    fn text_has_no_control_characters_and_csv_is_quoted() {
        let event = event();
        assert_eq!(
            event.text(),
            "    1.000000002 CPU   3           -/9 sched sched_waking comm=\"a\\u001b,\\\"b\" pid=7"
        );
        assert_eq!(
            event.csv(),
            "1000000002,3,,9,sched,sched_waking,315,,\
             \"{\"\"comm\"\":\"\"a\\u001b,\\\"\"b\"\",\"\"pid\"\":7}\""
        );
        assert!(event.json().starts_with("{\"clock\":5,\"cpu\":3,"));
    }
}

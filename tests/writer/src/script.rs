//! The input: JSON lines, the machine and the files' options first, then one event a line.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::WriteError;
use crate::event::Event;
use crate::layout::{EtlOptions, PerfOptions};
use crate::machine::Machine;

/// The first line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The machine that was recorded.
    pub machine: Machine,
    /// How to lay out the .etl.
    #[serde(default)]
    pub etl: EtlOptions,
    /// How to lay out the perf.data.
    #[serde(default)]
    pub perf: PerfOptions,
}

/// An event with its place in time.
#[derive(Clone, Debug)]
pub struct Line {
    /// Nanoseconds from the begin of the recording.
    pub ts: i64,
    /// CPU on which it is recorded.
    pub cpu: u16,
    /// The event.
    pub event: Event,
}

/// A script, line by line.
pub struct Script<R> {
    lines: std::io::Lines<R>,
    number: usize,
    latest: i64,
}

impl<R: BufRead> Script<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// A first line that is missing or not understood.
    pub fn open(reader: R) -> Result<(Head, Self), WriteError> {
        let mut script = Self { lines: reader.lines(), number: 0, latest: i64::MIN };
        let Some(text) = script.text()? else {
            return Err(WriteError::Value("the script is empty".to_owned()));
        };
        let head = serde_json::from_str(&text).map_err(|error| script.wrong(error.to_string()))?;
        Ok((head, script))
    }

    /// Number of the line read last.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    fn text(&mut self) -> Result<Option<String>, WriteError> {
        loop {
            let Some(text) = self.lines.next().transpose()? else { return Ok(None) };
            self.number += 1;
            if !text.trim().is_empty() {
                return Ok(Some(text));
            }
        }
    }

    fn wrong(&self, what: impl Into<String>) -> WriteError {
        WriteError::Line { line: self.number, what: what.into() }
    }

    /// The next event.
    ///
    /// # Errors
    /// A line that is not understood, or is earlier than the one before it.
    pub fn line(&mut self) -> Result<Option<Line>, WriteError> {
        let Some(text) = self.text()? else { return Ok(None) };
        let mut fields: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| self.wrong(error.to_string()))?;
        let mut number = |name: &str| {
            let value = fields.remove(name).and_then(|value| value.as_i64());
            value.ok_or_else(|| format!("{name} is missing or not a whole number"))
        };
        let ts = number("ts").map_err(|what| self.wrong(what))?;
        let cpu = number("cpu").map_err(|what| self.wrong(what))?;
        let cpu = u16::try_from(cpu).map_err(|_| self.wrong("cpu is out of range"))?;
        if ts < self.latest {
            return Err(self.wrong(format!("{ts} is before {}", self.latest)));
        }
        self.latest = ts;
        let event = Event::deserialize(Value::Object(fields))
            .map_err(|error| self.wrong(error.to_string()))?;
        Ok(Some(Line { ts, cpu, event }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Vec<Line>, WriteError> {
        let (_, mut script) = Script::open(text.as_bytes())?;
        std::iter::from_fn(|| script.line().transpose()).collect()
    }

    const HEAD: &str = r#"{"machine": {"cpus": [{"cpu": 0, "core": 0}]}}"#;

    #[test]
    fn line_becomes_event_with_time_and_cpu() {
        let text = format!(
            "{HEAD}\n\n{{\"ts\": 100, \"cpu\": 3, \"event\": \"switch\", \"old\": 0, \"new\": 7}}\n"
        );
        let lines = lines(&text).expect("read");
        assert_eq!((lines.len(), lines[0].ts, lines[0].cpu), (1, 100, 3));
        assert!(matches!(&lines[0].event, Event::Switch(switch) if switch.new == 7));
    }

    #[test]
    fn invalid_line_is_named() {
        for (line, message) in [
            (r#"{"ts": 1, "cpu": 0, "event": "idle", "stat": 1}"#, "line 2: unknown field `stat`"),
            (r#"{"cpu": 0, "event": "idle"}"#, "line 2: ts is missing"),
            (r#"{"ts": 1, "cpu": -1, "event": "idle"}"#, "line 2: cpu is out of range"),
            (r#"{"ts": 1, "cpu": 0, "event": "sleep"}"#, "line 2: unknown variant `sleep`"),
        ] {
            let error = lines(&format!("{HEAD}\n{line}\n")).expect_err("refused").to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn earlier_time_is_refused() {
        let text = format!(
            "{HEAD}\n{}\n{}\n",
            r#"{"ts": 5, "cpu": 0, "event": "idle"}"#, r#"{"ts": 4, "cpu": 0, "event": "idle"}"#
        );
        assert_eq!(lines(&text).expect_err("refused").to_string(), "line 3: 4 is before 5");
    }
}

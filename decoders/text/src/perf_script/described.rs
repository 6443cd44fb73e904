//! The machine and the recorder, from the comments of `perf script --header`.

use crate::numbers::seconds;

/// What the comments state.
#[derive(Debug, Default)]
pub(super) struct Described {
    pub(super) host: Option<String>,
    pub(super) os_release: Option<String>,
    pub(super) perf_version: Option<String>,
    pub(super) arch: Option<String>,
    pub(super) cpu_model: Option<String>,
    pub(super) cpus_online: Option<u32>,
    pub(super) cpus_available: Option<u32>,
    /// `CLOCK_*`
    pub(super) clockid: Option<i32>,
    /// Wall time and time of the recording's clock at one moment, ns.
    pub(super) clock: Option<(u64, u64)>,
    /// Names of the events, also of those without a record.
    pub(super) events: Vec<String>,
}

/// More events than perf opens.
const MOST_EVENTS: usize = 4096;

impl Described {
    /// Reads a comment.
    pub(super) fn add(&mut self, comment: &[u8]) {
        let text = String::from_utf8_lossy(comment);
        let Some((key, value)) = text.trim_start_matches('#').split_once(':') else { return };
        let value = value.trim();
        let owned = || Some(value.to_owned()).filter(|value| !value.is_empty());
        match key.trim() {
            "hostname" => self.host = owned(),
            "os release" => self.os_release = owned(),
            "perf version" => self.perf_version = owned(),
            "arch" => self.arch = owned(),
            "cpudesc" => self.cpu_model = owned(),
            "nrcpus online" => self.cpus_online = value.parse().ok(),
            "nrcpus avail" => self.cpus_available = value.parse().ok(),
            // monotonic (1)
            "clockid" => {
                let number = value.rsplit('(').next().and_then(|rest| rest.strip_suffix(')'));
                self.clockid = number.and_then(|number| number.parse().ok());
            }
            "reference time" => self.clock = moment(value),
            "event" => {
                let name = value.strip_prefix("name = ").and_then(|rest| rest.split(", ").next());
                if let Some(name) = name.filter(|_| self.events.len() < MOST_EVENTS) {
                    self.events.push(name.to_owned());
                }
            }
            _ => {}
        }
    }
}

/// `2026-01-02 03:04:05.000006 = 1767323045.000006 (TOD) = 17.841763774 (monotonic)`
fn moment(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.split(" = ").skip(1);
    let mut next = || seconds(parts.next()?.split(' ').next()?.as_bytes());
    Some((next()?.0, next()?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_describe_the_recording() {
        let mut found = Described::default();
        for line in [
            "# hostname : box",
            "# nrcpus online : 4",
            "# event : name = sched:sched_switch, , id = { 1, 2 }, type = 2",
            "# clockid: monotonic (1)",
            "# reference time: 2026-11-21 05:24:09.625546 = 1795238649.625546 (TOD) = 4884.364689125 (monotonic)",
            "# ========",
        ] {
            found.add(line.as_bytes());
        }
        assert_eq!((found.host.as_deref(), found.cpus_online), (Some("box"), Some(4)));
        assert_eq!((found.events, found.clockid), (vec!["sched:sched_switch".to_owned()], Some(1)));
        assert_eq!(found.clock, Some((1_795_238_649_625_546_000, 4_884_364_689_125)));
    }
}

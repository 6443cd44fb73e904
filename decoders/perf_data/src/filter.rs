//! Filters of events, which a file states only in the command that recorded it.

/// Maximum length of a filter in a problem, in characters.
const SHOWN: usize = 100;

/// The first filter of `sched_switch` in a command of `perf record`, as one line.
pub(crate) fn of_switches(command: &[String]) -> Option<String> {
    let filter = found(command)?;
    let shown = filter.chars().map(|c| if c.is_control() { ' ' } else { c });
    Some(shown.take(SHOWN).collect())
}

fn found(command: &[String]) -> Option<&str> {
    let mut events = "";
    let mut words = command.iter().map(String::as_str);
    while let Some(word) = words.next() {
        // What follows is the command that was run.
        if word == "--" {
            return None;
        }
        let is_long = word.starts_with("--");
        let (option, joined) = match word.split_once('=').filter(|_| is_long) {
            Some((option, value)) => (option, Some(value)),
            None if word.starts_with("-e") && word.len() > 2 => ("-e", word.get(2..)),
            None => (word, None),
        };
        match option {
            "-e" | "--event" => events = joined.or_else(|| words.next()).unwrap_or_default(),
            "--filter" => {
                let filter = joined.or_else(|| words.next()).unwrap_or_default();
                if events.split(['{', ',', '}']).any(is_switch) {
                    return Some(filter);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether an event as given to perf is `sched_switch`, or includes it.
fn is_switch(event: &str) -> bool {
    let name = event.strip_prefix("sched:").unwrap_or_default();
    let begin = name.split(['*', '?', '[']).next().unwrap_or_default();
    let is_pattern = begin.len() < name.len();
    name == "sched_switch" || (is_pattern && "sched_switch".starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::of_switches;

    fn filter(command: &str) -> Option<String> {
        let words: Vec<String> = command.split('|').map(str::to_owned).collect();
        of_switches(&words)
    }

    #[test]
    fn a_filter_applies_to_the_events_of_the_option_before_it() {
        let switches = "perf|record|-a|-e|sched:sched_switch";
        let some = Some("prev_pid != 0".to_owned());
        assert_eq!(filter(&format!("{switches}|--filter|prev_pid != 0")), some);
        assert_eq!(filter(&format!("{switches}|--filter=prev_pid != 0|-o|x")), some);
        assert_eq!(filter("perf|record|-esched:*|--filter|prev_pid != 0"), some);
        assert_eq!(filter("perf|record|--event={cycles,sched:sched_switch}|--filter|f"), {
            Some("f".to_owned())
        });
        for without in [
            format!("{switches}|-e|sched:sched_waking|--filter|prio < 100"),
            format!("{switches}|--|my|--filter|prev_pid != 0"),
            "perf|record|-e|sched:sched_wak*|--filter|prio < 100".to_owned(),
            "perf|record|--filter|x".to_owned(),
            switches.to_owned(),
        ] {
            assert_eq!(filter(&without), None, "{without}");
        }
        assert_eq!(filter(&format!("{switches}|--filter")), Some(String::new()));
        let long = format!("{switches}|--filter|a\n{}", "b".repeat(200));
        assert_eq!(filter(&long), Some(format!("a {}", "b".repeat(98))));
    }
}

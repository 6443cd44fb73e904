//! What the kernel counted for each buffer and CPU when the recording ended (`CPUSTAT`).

use std::collections::HashMap;

/// The lost events of a CPU's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Overwritten before they were read; pages mark where.
    pub(crate) overwritten: u64,
    /// Not written; no page marks where.
    pub(crate) dropped: u64,
}

/// The counts by name of the buffer, then by CPU.
pub(crate) fn read(text: &str) -> HashMap<&str, HashMap<i32, Stats>> {
    let mut found: HashMap<&str, HashMap<i32, Stats>> = HashMap::new();
    let (mut buffer, mut cpu) = (found.entry("").or_default(), None);
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let count = || value.parse::<u64>().unwrap_or_default();
        match (key, cpu) {
            ("Buffer", _) => (buffer, cpu) = (found.entry(value).or_default(), None),
            ("CPU", _) => cpu = value.parse::<i32>().ok(),
            ("overrun" | "commit overrun" | "dropped events", Some(cpu)) => {
                let stats = buffer.entry(cpu).or_default();
                let sum =
                    if key == "overrun" { &mut stats.overwritten } else { &mut stats.dropped };
                *sum = sum.saturating_add(count());
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_belong_to_the_buffer_and_cpu_above_them() {
        let text = "CPU: 0\nentries: 9\noverrun: 5\ncommit overrun: 1\ndropped events: 2\n\n\
                    \nBuffer: other\n\n\nCPU: 1\noverrun: 7\ndropped events: x\n";
        let found = read(text);
        let stats = |buffer, cpu| found.get(buffer).and_then(|cpus| cpus.get(&cpu)).copied();
        assert_eq!(stats("", 0), Some(Stats { overwritten: 5, dropped: 3 }));
        assert_eq!(stats("other", 1), Some(Stats { overwritten: 7, dropped: 0 }));
        assert_eq!(found.values().map(HashMap::len).sum::<usize>(), 2);
    }
}

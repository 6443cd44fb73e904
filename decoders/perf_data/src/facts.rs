//! What a recording states about its clock, its system and what was recorded.

use schedlens_tracepoints::events::Family;

use crate::attrs::Attr;
use crate::recording::Recording;

impl Recording {
    /// Raw clock at ns 0.
    pub fn start_clock(&self) -> i64 {
        self.index.first.unwrap_or_default().cast_signed()
    }

    /// Calls of `sched_yield` were recorded.
    pub fn has_yields(&self) -> bool {
        self.has(|family| matches!(family, Family::Yield))
    }

    /// Wakeups were recorded.
    pub fn has_wakings(&self) -> bool {
        self.has(|family| matches!(family, Family::Wakeup { .. }))
    }

    /// Name of the timestamp clock.
    pub fn clock_name(&self) -> &'static str {
        let by_attr = self.events.attrs.iter().find_map(Attr::clock);
        match by_attr {
            Some(0) => "realtime",
            Some(1) => "monotonic",
            Some(4) => "monotonic_raw",
            Some(7) => "boottime",
            Some(11) => "tai",
            Some(_) => "other",
            None => "perf",
        }
    }

    /// Wall time at the earliest record in ns since 1970, if the file relates its clock to wall
    /// time.
    pub fn wall_start_ns(&self) -> Option<i64> {
        let clock = self.features.clock?;
        let first = i128::from(self.index.first?);
        let wall = i128::from(clock.wall_ns) + first - i128::from(clock.clock_ns);
        i64::try_from(wall).ok()
    }

    /// Operating system and kernel release.
    pub fn os(&self) -> Option<String> {
        self.features.os_release.as_ref().map(|release| format!("Linux {release}"))
    }
}

//! What starts and ends a run: a time, or a recorder through `--gate`.

use std::io::{self, BufRead, Write};

use crate::engine::Conductor;
use crate::os::{Event, Waiter};

/// Starts at once; ends after a time or on a signal.
pub struct Timed<'a> {
    pub waiter: &'a Waiter,
    pub ns: i64,
}

impl Conductor for Timed<'_> {
    fn ready(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn warm_up(&mut self, ns: i64) -> bool {
        self.waiter.wait(Some(ns), false) == Event::Interrupt
    }

    fn measure(&mut self) -> bool {
        self.waiter.wait(Some(self.ns), false) == Event::Interrupt
    }

    fn done(&mut self) {}
}

/// Prints `ready`, starts on the line `go`, prints `done`.
pub struct Gated<'a> {
    pub timed: Timed<'a>,
}

fn say(word: &str) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).is_ok()
}

impl Conductor for Gated<'_> {
    fn ready(&mut self) -> Result<bool, String> {
        if !say("ready") || self.timed.waiter.wait(None, true) == Event::Interrupt {
            return Ok(false);
        }
        let mut line = Vec::new();
        let read = io::stdin().lock().read_until(b'\n', &mut line);
        match (read, line.trim_ascii()) {
            (Ok(0) | Err(_), _) => Ok(false),
            (_, b"go") => Ok(true),
            (_, other) => {
                let shown: String = String::from_utf8_lossy(other).chars().take(40).collect();
                Err(format!("expected the line \"go\" on standard input, found {shown:?}"))
            }
        }
    }

    fn warm_up(&mut self, ns: i64) -> bool {
        self.timed.warm_up(ns)
    }

    fn measure(&mut self) -> bool {
        self.timed.measure()
    }

    fn done(&mut self) {
        // If nobody reads this any more, the files must still be written.
        say("done");
    }
}

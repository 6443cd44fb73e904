//! `topology` and `observe`: the machine's CPUs, and the state that the system reports.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use schedlens_system::processors::Topology;
use serde_json::Value;

use crate::json::{list, object};

/// Longer than any machine's buffer: one of 2048 logical CPUs takes less than a third.
const MOST_BYTES: u64 = 1 << 20;

/// The topology in a saved buffer; all its CPUs count as allowed.
///
/// # Errors
/// One line that names the file.
pub fn recorded_topology(path: &Path) -> Result<Value, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    let named = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    read.map_err(|error| named(&error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(named(&format_args!("more than {MOST_BYTES} bytes, so not such a buffer")));
    }
    let topology = Topology::read(&bytes).map_err(|error| named(&error))?;
    let all: Vec<usize> = topology.cpus.iter().map(|cpu| cpu.cpu).collect();
    Ok(session_topology(&topology, &all))
}

/// The object `topology` of session.json; `allowed`: the CPUs this process may use.
fn session_topology(topology: &Topology, allowed: &[usize]) -> Value {
    let cpus = topology.cpus.iter().zip(topology.core_types()).map(|(cpu, core_type)| {
        let known = [
            ("cpu", Value::from(cpu.cpu)),
            ("online", true.into()),
            ("core_type", core_type.into()),
        ];
        let numbers = cpu.columns().map(|(name, number)| (name, number.into()));
        let unknown = ["capacity", "base_khz", "max_khz"].map(|name| (name, Value::Null));
        object(known.into_iter().chain(numbers).chain(unknown))
    });
    object([
        ("source", Value::from("GetLogicalProcessorInformationEx")),
        ("cpus", list(cpus)),
        ("allowed", list(allowed.iter().copied())),
    ])
}

#[cfg(windows)]
mod system {
    use std::fs;
    use std::io::{self, BufRead, Write};
    use std::path::Path;

    use schedlens_system::processors::Topology;
    use serde_json::Value;

    use super::session_topology;
    use crate::os;

    /// The topology of this machine; `raw`: a file for the system's own bytes.
    ///
    /// # Errors
    /// One line that says what failed.
    pub fn topology(raw: Option<&Path>) -> Result<Value, String> {
        let bytes = os::processor_information()
            .map_err(|error| format!("the system does not report its CPUs: {error}"))?;
        if let Some(path) = raw {
            fs::write(path, &bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let topology = Topology::read(&bytes).map_err(|error| error.to_string())?;
        Ok(session_topology(&topology, &os::allowed_cpus(&topology)))
    }

    fn say(line: &str) -> Result<(), String> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| error.to_string())
    }

    /// Prints `ready`, answers the lines `begin` and `end` with a snapshot each, and exits.
    ///
    /// # Errors
    /// One line that says what failed.
    pub fn observe() -> Result<(), String> {
        let mut observer = os::Observer::new()?;
        say("ready")?;
        for line in io::stdin().lock().lines() {
            match line.map_err(|error| error.to_string())?.trim() {
                "begin" => say(&observer.begin()?.to_string())?,
                "end" => return say(&observer.end()?.to_string()),
                other => {
                    let shown: String = other.chars().take(40).collect();
                    return Err(format!("expected the line \"begin\" or \"end\", found {shown:?}"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(not(windows))]
mod system {
    use std::path::Path;

    use serde_json::Value;

    /// Supported only on Windows.
    ///
    /// # Errors
    /// Always.
    pub fn topology(_raw: Option<&Path>) -> Result<Value, String> {
        Err("topology requires --buffer FILE on this system; only Windows needs none".to_owned())
    }

    /// Supported only on Windows.
    ///
    /// # Errors
    /// Always.
    pub fn observe() -> Result<(), String> {
        Err("observe works only on Windows; on other systems, read /proc".to_owned())
    }
}

pub use system::{observe, topology};

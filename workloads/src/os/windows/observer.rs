//! The state of the system at both edges of a step, and the load it reports between them.

use schedlens_system::processors::{Numbering, Topology};
use schedlens_system::thread_states::kthread_state::{
    DEFERRED_READY, READY, RUNNING, STANDBY, TERMINATED, WAITING,
};

use super::processors::processor_information;
use super::reported_load::ReportedLoad;
use super::{monotonic_ns, system_information};
use crate::json::{list, object};
use crate::system_information::Thread;
use serde_json::Value;

/// Takes the snapshots at the start and at the end of a step.
pub struct Observer {
    topology: Topology,
    numbering: Numbering,
    load: ReportedLoad,
}

impl Observer {
    /// # Errors
    /// One line that says what the system does not report.
    pub fn new() -> Result<Observer, String> {
        let bytes = processor_information()
            .map_err(|error| format!("the system does not report its CPUs: {error}"))?;
        let topology = Topology::read(&bytes).map_err(|error| error.to_string())?;
        let numbering = topology.numbering();
        Ok(Observer { topology, numbering, load: ReportedLoad::new() })
    }

    /// The object of begin.json: the CPUs are read last.
    ///
    /// # Errors
    /// One line that says what the system does not report.
    pub fn begin(&mut self) -> Result<Value, String> {
        let threads = system_information::threads()?;
        self.load.collect();
        let (mono_ns, cpus) = self.cpus()?;
        Ok(snapshot(mono_ns, cpus, &threads))
    }

    /// The object of end.json, with the reported load: the CPUs are read first.
    ///
    /// # Errors
    /// One line that says what the system does not report.
    pub fn end(&mut self) -> Result<Value, String> {
        let (mono_ns, cpus) = self.cpus()?;
        self.load.collect();
        let threads = system_information::threads()?;
        let Value::Object(mut pairs) = snapshot(mono_ns, cpus, &threads) else {
            return Err("a snapshot is an object".to_owned());
        };
        pairs.insert("reported".to_owned(), self.reported());
        Ok(Value::Object(pairs))
    }

    fn cpus(&self) -> Result<(i64, Vec<Value>), String> {
        let alone = self.topology.groups.len() == 1;
        let mut rows = Vec::new();
        let mono_ns = monotonic_ns();
        for group in &self.topology.groups {
            let numbers = (0..64_u8).filter(|number| group.active_mask >> number & 1 == 1);
            let times = system_information::processor_times(group.group, alone)?;
            for (number, times) in numbers.zip(times) {
                rows.push(object([
                    ("cpu", Value::from(self.numbering.cpu(group.group, number))),
                    ("user_ns", times.user_ns.into()),
                    ("system_ns", times.system_ns.into()),
                    ("idle_ns", times.idle_ns.into()),
                    ("irq_ns", times.interrupt_ns.into()),
                    ("softirq_ns", times.dpc_ns.into()),
                    ("steal_ns", Value::Null),
                ]));
            }
        }
        Ok((mono_ns, rows))
    }

    fn reported(&mut self) -> Value {
        let values = self.load.values();
        let cpus = self.topology.cpus.iter().map(|cpu| {
            let of = |key: &str| {
                let place = (cpu.group, cpu.number_in_group);
                let row =
                    values.iter().find(|row| row.key == key && (row.group, row.number) == place);
                Value::from(row.map(|row| row.value))
            };
            object([
                ("cpu", Value::from(cpu.cpu)),
                ("processor_time_pct", of("processor_time_pct")),
                ("processor_utility_pct", of("processor_utility_pct")),
            ])
        });
        object([
            ("cpus", list(cpus)),
            ("missing", list(self.load.missing.iter().map(String::as_str))),
        ])
    }
}

/// The letter that Linux uses for a `KTHREAD_STATE`; `None` if it has none.
fn letter(state: u32) -> Option<&'static str> {
    match i32::try_from(state).ok()? {
        READY | RUNNING | STANDBY | DEFERRED_READY => Some("R"),
        TERMINATED => Some("X"),
        WAITING => Some("S"),
        _ => None,
    }
}

fn snapshot(mono_ns: i64, cpus: Vec<Value>, threads: &[Thread]) -> Value {
    // All idle threads have the id 0.
    let threads = threads.iter().filter(|thread| thread.tid != 0).map(|thread| {
        object([
            ("pid", Value::from(thread.pid)),
            ("tid", thread.tid.into()),
            ("name", thread.name.as_str().into()),
            ("state", letter(thread.state).into()),
            ("cpu", Value::Null),
            ("user_ns", thread.user_ns.into()),
            ("system_ns", thread.system_ns.into()),
            ("voluntary", Value::Null),
            ("involuntary", Value::Null),
            ("cgroup", Value::Null),
            ("cpus_allowed", Value::Null),
        ])
    });
    object([
        ("mono_ns", Value::from(mono_ns)),
        ("cpus", Value::Array(cpus)),
        ("threads", list(threads)),
        ("cgroups", Value::Array(Vec::new())),
    ])
}

//! Files of any size for benchmarks: context switches and ReadyThreads of a busy machine.

use std::io::{Seek, Write};

use crate::error::WriteError;
use crate::etl;
use crate::event::{Event, Leaves, Phase, Ready, Switch};
use crate::layout::EtlOptions;
use crate::machine::{Cpu, Machine};
use crate::random::Random;
use crate::script::Line;

/// CPUs of the machine, and threads that take turns on each.
const CPUS: u16 = 8;
const THREADS: u32 = 12;
/// Bytes of a CSwitch (version 4) and a ReadyThread together.
const PAIR: u64 = 40 + 24;

/// Writes about `bytes` of records; their number, the header's aside.
///
/// # Errors
/// The disk.
pub fn write<W: Write + Seek>(out: W, bytes: u64, options: EtlOptions) -> Result<u64, WriteError> {
    let cpu = |cpu| Cpu {
        cpu,
        core: u32::from(cpu / 2),
        efficiency_class: 0,
        pmu: None,
        l2: Some(u32::from(cpu / 2)),
        l3: Some(0),
        package: 0,
        numa_node: 0,
        group: None,
        number: None,
    };
    let machine = Machine {
        cpus: (0..CPUS).map(cpu).collect(),
        name: "flood".to_owned(),
        cpu_model: "Drawn processor".to_owned(),
        mhz: 3000,
    };
    let mut writer = etl::Writer::new(out, machine, options)?;
    let mut records = 0;
    for process in 0..THREADS {
        let (pid, name) = (1000 + process * 100, format!("drawn{process}.exe"));
        let command_line = format!("drawn{process}.exe --number {process}");
        let begin = Phase::RundownStart;
        let event = Event::Process { phase: begin, pid, parent: 4, name, command_line };
        writer.line(&Line { ts: 0, cpu: 0, event })?;
        records += 1;
        for thread in 0..u32::from(CPUS) {
            let event = Event::Thread {
                phase: begin,
                pid,
                tid: pid + thread + 1,
                name: None,
                base_priority: 8,
                affinity: u64::MAX,
                version: 3,
            };
            writer.line(&Line { ts: 0, cpu: 0, event })?;
            records += 1;
        }
    }
    let mut random = Random::new(1);
    let mut running = [0_u32; CPUS as usize];
    let mut now = 1_000;
    for _ in 0..bytes / PAIR {
        let cpu = random.below(usize::from(CPUS));
        let drawn = random.number();
        now += 100 * (1 + (drawn & 31) as i64);
        let of_cpu = |n: u64| 1000 + (n % u64::from(THREADS)) as u32 * 100 + cpu as u32 + 1;
        let mut new = of_cpu(drawn >> 8);
        if new == running[cpu] {
            new = 0;
        }
        let at = (now, cpu as u16);
        if new != 0 {
            let ready = Ready {
                tid: new,
                new: false,
                target: cpu as u16,
                in_dpc: drawn >> 40 & 7 == 0,
                adjust: (1, 0),
                header: None,
                stack: Vec::new(),
            };
            writer.line(&Line { ts: now, cpu: at.1, event: Event::Ready(ready) })?;
            records += 1;
        }
        let old = running[cpu];
        let switch = Switch {
            old,
            new,
            planned: None,
            leaves: Leaves::Blocked,
            reason: None,
            state: None,
            user_mode: drawn >> 44 & 1 == 1,
            qos: (0, 0),
            old_priority: if old == 0 { 0 } else { 8 },
            new_priority: if new == 0 { 0 } else { 8 },
            ideal: cpu as u8,
            c_state: if old == 0 { 1 } else { 0 },
            wait_time: (drawn >> 48 & 15) as u32,
            counters: Vec::new(),
            stack: Vec::new(),
            version: None,
        };
        writer.switch((now + 100, at.1), &switch)?;
        running[cpu] = new;
        now += 100;
        records += 1;
    }
    writer.finish()?;
    Ok(records)
}

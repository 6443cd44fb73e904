//! One `FtraceEventBundle`: the events of a CPU, with switches and wakings in columns.

use std::collections::HashMap;

use crate::SCHEDULE_SEQUENCE;
use crate::message::{Message, packet, varint};

/// Events after which a bundle is written.
const FULL: usize = 32_768;
const HARDIRQ: i64 = 0x08;
// Fields of FtraceEvent.
const CPU_FREQUENCY: u64 = 11;
const CPU_IDLE: u64 = 13;
const SCHED_SWITCH: u64 = 4;
const SCHED_BLOCKED_REASON: u64 = 18;
const SCHED_WAKING: u64 = 20;

/// Numbers of one column, packed.
#[derive(Debug, Default)]
struct Column(Vec<u8>);

impl Column {
    fn push(&mut self, value: i64) {
        varint(&mut self.0, value as u64);
    }

    fn write_to(&mut self, message: &mut Message, field: u64) {
        message.bytes_field(field, &self.0);
        self.0.clear();
    }
}

/// Times of one column: the first, then the distances.
#[derive(Debug, Default)]
struct Times {
    column: Column,
    last: i64,
    count: usize,
}

impl Times {
    fn push(&mut self, ts: i64) {
        self.column.push(ts - if self.count == 0 { 0 } else { self.last });
        self.last = ts;
        self.count += 1;
    }

    fn write_to(&mut self, message: &mut Message, field: u64) {
        self.column.write_to(message, field);
        (self.last, self.count) = (0, 0);
    }
}

/// A waking of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Waking<'a> {
    /// Time, ns.
    pub ts: i64,
    /// Thread id of the thread made ready.
    pub tid: i32,
    /// Its name.
    pub name: &'a str,
    /// Where it was sent.
    pub target_cpu: i32,
    /// Whether an interrupt woke it.
    pub in_interrupt: bool,
}

/// A switch, as the columns or an event contain it.
#[derive(Clone, Copy, Debug)]
pub struct Switch<'a> {
    /// Time, ns.
    pub ts: i64,
    /// State of the thread that switches out.
    pub prev_state: u16,
    /// Thread that switches in: id, name, priority.
    pub next: (i32, &'a str, i32),
}

/// The bundle that is being filled.
#[derive(Debug, Default)]
pub struct Bundle {
    cpu: i32,
    names: HashMap<String, i64>,
    table: Message,
    switches: Times,
    prev_states: Column,
    next_pids: Column,
    next_prios: Column,
    next_comms: Column,
    wakings: Times,
    pids: Column,
    targets: Column,
    prios: Column,
    comms: Column,
    flags: Column,
    others: Vec<Message>,
    symbols: HashMap<String, u64>,
    new_symbols: Message,
    has_begun: bool,
}

impl Bundle {
    /// Writes what is left and continues with another CPU.
    pub fn begin_cpu(&mut self, cpu: i32, trace: &mut Vec<u8>) {
        self.flush(trace);
        self.cpu = cpu;
    }

    /// A switch in columns: the thread that switches out is the one of the switch before.
    pub fn switch(&mut self, switch: Switch<'_>, trace: &mut Vec<u8>) {
        self.make_room(trace);
        let (tid, name, priority) = switch.next;
        let name = self.name(name);
        self.switches.push(switch.ts);
        self.prev_states.push(i64::from(switch.prev_state));
        self.next_pids.push(i64::from(tid));
        self.next_prios.push(i64::from(priority));
        self.next_comms.push(name);
    }

    /// A switch as an event, which `trace_processor` takes after all switches in columns that have
    /// the same time. `prev` is the thread that switches out: id, name, priority.
    pub fn late_switch(&mut self, prev: (i32, &str, i32), switch: Switch<'_>, trace: &mut Vec<u8>) {
        let mut fields = Message::default();
        fields.text(1, prev.1);
        fields.int(2, i64::from(prev.0));
        fields.int(3, i64::from(prev.2));
        fields.int(4, i64::from(switch.prev_state));
        fields.text(5, switch.next.1);
        fields.int(6, i64::from(switch.next.0));
        fields.int(7, i64::from(switch.next.2));
        self.event(switch.ts, prev.0, SCHED_SWITCH, &fields, trace);
    }

    /// A waking by the thread that runs on this CPU.
    pub fn waking(&mut self, waking: Waking<'_>, trace: &mut Vec<u8>) {
        self.make_room(trace);
        let name = self.name(waking.name);
        self.wakings.push(waking.ts);
        self.pids.push(i64::from(waking.tid));
        self.targets.push(i64::from(waking.target_cpu));
        self.prios.push(0);
        self.comms.push(name);
        self.flags.push(if waking.in_interrupt { HARDIRQ } else { 0 });
    }

    /// A waking as an event, which names its waker.
    pub fn waking_by(&mut self, waker: i32, waking: Waking<'_>, trace: &mut Vec<u8>) {
        let mut fields = Message::default();
        fields.text(1, waking.name);
        fields.int(2, i64::from(waking.tid));
        fields.int(5, i64::from(waking.target_cpu));
        self.event(waking.ts, waker, SCHED_WAKING, &fields, trace);
    }

    /// Why a thread that switched out waits, by name.
    pub fn blocked_reason(&mut self, ts: i64, tid: i32, reason: &str, trace: &mut Vec<u8>) {
        // A symbol belongs to the packet that uses it first.
        self.make_room(trace);
        let mut fields = Message::default();
        fields.int(1, i64::from(tid));
        fields.uint(2, self.symbol(reason));
        self.event(ts, tid, SCHED_BLOCKED_REASON, &fields, trace);
    }

    /// An event without effect: the idle thread never waits.
    pub fn no_reason(&mut self, ts: i64, trace: &mut Vec<u8>) {
        let mut fields = Message::default();
        fields.int(1, 0);
        self.event(ts, 0, SCHED_BLOCKED_REASON, &fields, trace);
    }

    /// The CPU enters an idle state; `u32::MAX`: it leaves it.
    pub fn idle(&mut self, ts: i64, state: u32, trace: &mut Vec<u8>) {
        self.cpu_value(ts, CPU_IDLE, state, trace);
    }

    /// The frequency of the CPU, kHz.
    pub fn frequency(&mut self, ts: i64, khz: u32, trace: &mut Vec<u8>) {
        self.cpu_value(ts, CPU_FREQUENCY, khz, trace);
    }

    fn cpu_value(&mut self, ts: i64, field: u64, value: u32, trace: &mut Vec<u8>) {
        let mut fields = Message::default();
        fields.uint(1, u64::from(value));
        fields.int(2, i64::from(self.cpu));
        self.event(ts, 0, field, &fields, trace);
    }

    /// Adds a `FtraceEvent`; `tid` is the thread that it is recorded in.
    fn event(&mut self, ts: i64, tid: i32, field: u64, fields: &Message, trace: &mut Vec<u8>) {
        self.make_room(trace);
        let mut event = Message::default();
        event.int(1, ts);
        event.int(2, i64::from(tid));
        event.message(field, fields);
        self.others.push(event);
    }

    /// Writes the bundle if it is full.
    fn make_room(&mut self, trace: &mut Vec<u8>) {
        if self.switches.count + self.wakings.count + self.others.len() >= FULL {
            self.flush(trace);
        }
    }

    fn name(&mut self, name: &str) -> i64 {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        let number = self.names.len() as i64;
        self.names.insert(name.to_owned(), number);
        self.table.text(5, name);
        number
    }

    fn symbol(&mut self, name: &str) -> u64 {
        if let Some(number) = self.symbols.get(name) {
            return *number;
        }
        let number = self.symbols.len() as u64 + 1;
        self.symbols.insert(name.to_owned(), number);
        let mut symbol = Message::default();
        symbol.uint(1, number);
        symbol.text(2, name);
        self.new_symbols.message(26, &symbol);
        number
    }

    /// Writes the packet, if it contains anything.
    pub fn flush(&mut self, trace: &mut Vec<u8>) {
        if self.switches.count + self.wakings.count + self.others.len() == 0 {
            return;
        }
        let mut bundle = Message::default();
        bundle.int(1, i64::from(self.cpu));
        for event in self.others.drain(..) {
            bundle.message(2, &event);
        }
        let mut compact = std::mem::take(&mut self.table);
        self.names.clear();
        if self.switches.count > 0 {
            self.switches.write_to(&mut compact, 1);
            self.prev_states.write_to(&mut compact, 2);
            self.next_pids.write_to(&mut compact, 3);
            self.next_prios.write_to(&mut compact, 4);
            self.next_comms.write_to(&mut compact, 6);
        }
        if self.wakings.count > 0 {
            self.wakings.write_to(&mut compact, 7);
            self.pids.write_to(&mut compact, 8);
            self.targets.write_to(&mut compact, 9);
            self.prios.write_to(&mut compact, 10);
            self.comms.write_to(&mut compact, 11);
            self.flags.write_to(&mut compact, 12);
        }
        if !compact.is_empty() {
            bundle.message(4, &compact);
        }
        let mut whole = Message::default();
        whole.uint(10, SCHEDULE_SEQUENCE);
        // SEQ_INCREMENTAL_STATE_CLEARED, then SEQ_NEEDS_INCREMENTAL_STATE.
        whole.uint(13, if self.has_begun { 2 } else { 1 });
        self.has_begun = true;
        if !self.new_symbols.is_empty() {
            whole.message(12, &self.new_symbols);
            self.new_symbols.clear();
        }
        whole.message(1, &bundle);
        packet(trace, &whole);
    }
}

//! Payloads of kernel records: switches, threads, processes, interrupts, idle states.

use crate::bytes::Bytes;
use crate::event::{Leaves, Phase, Ready, Switch};

/// Hooks.
pub(super) const CSWITCH: u16 = 0x0524;
pub(super) const READY_THREAD: u16 = 0x0532;
pub(super) const STACK_WALK: u16 = 0x1820;
pub(super) const SET_PRIORITY: u16 = 0x0530;
pub(super) const SET_AFFINITY: u16 = 0x0535;
pub(super) const SET_NAME: u16 = 0x0548;
pub(super) const COUNTER_CONFIG: u16 = 0x0F30;
pub(super) const DPC: u16 = 0x0F44;
pub(super) const TIMER_DPC: u16 = 0x0F45;
pub(super) const THREADED_DPC: u16 = 0x0F42;
pub(super) const ISR: u16 = 0x0F43;
pub(super) const IDLE_ENTER: u16 = 0x1239;
pub(super) const IDLE_EXIT: u16 = 0x123A;

/// Low byte of a hook of groups 03 and 05.
pub(super) fn opcode(phase: Phase) -> u16 {
    match phase {
        Phase::Start => 1,
        Phase::End => 2,
        Phase::RundownStart => 3,
        Phase::RundownEnd => 4,
        Phase::Defunct => 39,
    }
}

/// `KTHREAD_STATE` and `KWAIT_REASON` of the outgoing thread.
fn state_and_reason(switch: &Switch) -> (u8, u8) {
    let (state, reason) = match switch.leaves {
        _ if switch.old == 0 => (2, 0),
        Leaves::Blocked => (5, 6),
        Leaves::Exit => (4, 0),
        Leaves::QuantumEnd => (1, 30),
        Leaves::Preempted => (1, 32),
        Leaves::Yield => (1, 33),
        Leaves::RunnableOther => (1, 23),
    };
    (switch.state.unwrap_or(state), switch.reason.unwrap_or(reason))
}

/// CSwitch of that version; the incoming thread is the planned one.
pub(super) fn switch(out: &mut Bytes, version: u8, switch: &Switch) {
    let (state, reason) = state_and_reason(switch);
    out.u32(switch.planned.unwrap_or(switch.new)).u32(switch.old);
    out.u8(switch.new_priority.cast_unsigned()).u8(switch.old_priority.cast_unsigned());
    match version {
        1 => out.u8(6).u8(6),
        _ => out.u8(switch.c_state).u8(0),
    };
    let qos = (switch.qos.0 & 7) << 1 | (switch.qos.1 & 7) << 4;
    let flags = u8::from(switch.user_mode) | if version >= 3 { qos } else { 0 };
    out.u8(reason).u8(flags).u8(state).u8(switch.ideal);
    if version >= 2 {
        out.u32(switch.wait_time).u32(7);
    }
    if version >= 5 {
        out.u32(2);
    }
}

/// ReadyThread, version 2.
pub(super) fn ready(out: &mut Bytes, ready: &Ready) {
    out.u32(ready.tid).u8(ready.adjust.0).u8(ready.adjust.1.cast_unsigned());
    out.u8(u8::from(ready.in_dpc)).u8(0);
}

/// StackWalk of the event at `ticks`.
pub(super) fn stack(
    out: &mut Bytes,
    pointer: usize,
    (ticks, pid, tid): (i64, u32, u32),
    frames: &[u64],
) {
    out.i64(ticks).u32(pid).u32(tid);
    for frame in frames {
        out.pointer(pointer, *frame);
    }
}

/// Process, version 4: no SID.
pub(super) fn process(
    out: &mut Bytes,
    pointer: usize,
    (pid, parent): (u32, u32),
    name: &str,
    command: &str,
) {
    out.pointer(pointer, 0xFFFF_A000_0000_0000 | u64::from(pid) << 4);
    out.u32(pid).u32(parent).u32(1).u32(259).pointer(pointer, 0x1A_A000).u32(0);
    out.u32(0).text_z(name).utf16z(command).utf16z("").utf16z("");
}

/// A thread's lifetime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread<'a> {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) name: Option<&'a str>,
    pub(super) base_priority: i8,
    pub(super) affinity: u64,
    pub(super) version: u8,
}

/// Thread, versions 2 to 4.
pub(super) fn thread(out: &mut Bytes, pointer: usize, thread: Thread<'_>) {
    out.u32(thread.pid).u32(thread.tid);
    for stack in [0x2000, 0x1000, 0x4000, 0x3000] {
        out.pointer(pointer, stack);
    }
    out.pointer(pointer, if thread.version >= 3 { thread.affinity } else { 0x7FF6_0000_1000 });
    out.pointer(pointer, 0x7FF6_0000_2000).pointer(pointer, 0x5000).u32(0);
    if thread.version >= 3 {
        out.u8(thread.base_priority.cast_unsigned()).u8(5).u8(2).u8(0);
    }
    if thread.version >= 4 || thread.name.is_some() {
        out.utf16z(thread.name.unwrap_or_default());
    }
}

/// DPC of any kind: when it began, and its routine.
pub(super) fn dpc(out: &mut Bytes, pointer: usize, start_ticks: i64, routine: u64) {
    out.i64(start_ticks).pointer(pointer, routine);
}

/// ISR, version 2.
pub(super) fn isr(out: &mut Bytes, pointer: usize, start_ticks: i64, routine: u64) {
    out.i64(start_ticks).pointer(pointer, routine).u8(1).u16(0x81).u8(0);
}

/// `PERFINFO_PPM_IDLE_STATE_ENTER`
pub(super) fn idle_enter(out: &mut Bytes, state: u32) {
    out.u32(state).u16(0).u8(0).u8(0).u64(0);
}

/// `PERFINFO_PPM_IDLE_STATE_EXIT`
pub(super) fn idle_exit(out: &mut Bytes, state: u32) {
    out.u32(state).u32(0);
}

/// Names of the counters in the headers of switches.
pub(super) fn counters(out: &mut Bytes, names: &[String]) {
    out.u32(names.len() as u32);
    for name in names {
        out.utf16z(name);
    }
}

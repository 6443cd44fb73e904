//! Switches, wakeups and interrupts, and which thread ran on each CPU in between.

use schedlens_etl::payload::switching::{CSwitch, ReadyThread};
use schedlens_schedule::tables::{Busy, Moment};
use schedlens_system::thread_states::kthread_state::TERMINATED;

use super::lives::Seen;
use super::rows::{Change, Interrupt};
use super::session::Session;
use super::state::cpus::UNKNOWN;
use super::switches::Switch;
use super::wakeups::Wakeup;

impl Session<'_> {
    #[inline(always)]
    pub(super) fn switch(&mut self, read: &CSwitch, counters: &[u8], at: Moment) {
        let old = self.lives.now(read.old_tid, at.cpu, at.ts);
        let new = self.lives.now(read.new_tid, at.cpu, at.ts);
        let mut here = self.scheduling.placed(at);
        if !here.given.is_empty() && here.running != old {
            self.give_wakeups(at.cpu, old);
            here = self.scheduling.placed(at);
        }
        here.given.clear();
        here.running = new;
        let (prev, next) = (self.lives.utid(old), self.lives.utid(new));
        let qos = read.qos();
        if read.old_tid != 0 {
            let ideal = self.has_ideal.then_some(read.ideal_processor());
            let old_qos = qos.map(|(old, _)| old);
            if let Some(before) = self.lives.saw_leave(old, ideal, old_qos) {
                self.note_outgoing(prev, (before, ideal, old_qos), at);
            }
            if i32::from(read.state()) == TERMINATED {
                self.lives.leaves_for_good(read.old_tid);
            }
        }
        if let Some((_, qos)) = qos.filter(|_| read.new_tid != 0)
            && let Some(before) = self.lives.saw_enter(new, qos)
        {
            self.note_qos(next, (before.qos(), qos), at);
        }
        let remaining_quantum = read.remaining_quantum().unwrap_or_default();
        let row = Switch { prev, next, details: read.details(), remaining_quantum };
        self.current.tables.switches.put(at, row);
        if !counters.is_empty() {
            self.counters(counters, prev, at);
        }
    }

    #[inline(never)]
    fn note_outgoing(
        &mut self,
        utid: i64,
        (before, ideal, qos): (Seen, Option<u8>, Option<u8>),
        at: Moment,
    ) {
        if let (Some(old), Some(new)) = (before.ideal(), ideal)
            && old != new
        {
            self.current.rows.ideal.push(Change { at, utid, old: Some(old), new });
        }
        if let Some(qos) = qos {
            self.note_qos(utid, (before.qos(), qos), at);
        }
    }

    /// Ignores a first QoS class of 0, because all threads have it on systems without QoS.
    #[inline(never)]
    fn note_qos(&mut self, utid: i64, (before, qos): (Option<u8>, u8), at: Moment) {
        if before != Some(qos) && (before.is_some() || qos != 0) {
            self.current.rows.qos.push(Change { at, utid, old: before, new: qos });
        }
    }

    /// The thread that leaves is not the one planned: it did the wakeups.
    #[inline(never)]
    fn give_wakeups(&mut self, cpu: i32, life: u32) {
        let waker = self.lives.utid(life);
        let given = std::mem::take(&mut self.scheduling.cpu(cpu).given);
        for (chunk, row) in &given {
            if let Some(tables) = self.chunk(*chunk) {
                tables.wakeups.correct_waker(*row, waker);
            }
        }
        let mut given = given;
        given.clear();
        self.scheduling.cpu(cpu).given = given;
    }

    fn chunk(&mut self, number: u64) -> Option<&mut super::Tables> {
        if self.current.number == number {
            return Some(&mut self.current.tables);
        }
        self.closed.numbered(number).map(|chunk| &mut chunk.tables)
    }

    #[inline(never)]
    fn counters(&mut self, counters: &[u8], utid: i64, at: Moment) {
        let good_until = self.survey.counters_good_until(at.cpu);
        if good_until.is_some_and(|until| self.clock.ns(until) < at.ts) {
            return;
        }
        let core_type = self.core_types.get(at.cpu as usize).and_then(Option::as_deref);
        for (number, value) in counters.as_chunks().0.iter().enumerate() {
            let value = u64::from_le_bytes(*value);
            let unnamed;
            let name = match self.survey.counters.get(number).map(String::as_str) {
                Some(name) if !name.is_empty() => name,
                _ => {
                    unnamed = format!("counter {number}");
                    &unnamed
                }
            };
            self.current.tables.counter(at, Some(utid), name, core_type, value);
        }
    }

    #[inline(always)]
    pub(super) fn ready(&mut self, read: ReadyThread, tid: Option<u32>, at: Moment) {
        if read.tid == 0 {
            return;
        }
        let woken = self.lives.now(read.tid, at.cpu, at.ts);
        let header = tid.filter(|tid| *tid != 0 && *tid != u32::MAX);
        let waker = match header {
            Some(tid) => self.lives.now(tid, at.cpu, at.ts),
            None => {
                let place = (self.current.number, self.current.tables.wakeups.rows());
                let here = self.scheduling.placed(at);
                here.given.push(place);
                here.running
            }
        };
        let row = Wakeup {
            utid: self.lives.utid(woken),
            waker: (waker != UNKNOWN).then(|| self.lives.utid(waker)),
            in_interrupt: read.in_dpc(),
        };
        self.current.tables.wakeups.put(at, row);
    }

    /// A DPC or ISR: its record is written at its end.
    #[inline(always)]
    pub(super) fn interrupt(&mut self, hook: u16, from: i64, at: Moment) {
        let kind = match hook {
            0x0f44 => 0,
            0x0f45 => 1,
            0x0f42 => 2,
            0x0f43 => 3,
            0x0f32 => 4,
            _ => 5,
        };
        // An invalid time: later than the end, or longer ago than an interrupt can last.
        let begin = self.clock.near_ns(from);
        let begin = begin.filter(|begin| (0..=LONGEST_INTERRUPT_NS).contains(&(at.ts - begin)));
        let Some(begin) = begin else {
            self.scheduling_damage();
            return;
        };
        // It may have started before the recording.
        let begin = begin.max(self.first_ns).min(at.ts);
        let row = Interrupt { at: Moment { ts: begin, ..at }, dur: at.ts - begin, kind };
        let late = begin < self.current.from_ns;
        match self.closed.at(begin).filter(|_| late) {
            Some(earlier) => earlier.rows.interrupts.push(row),
            None => self.current.rows.interrupts.push(row),
        }
    }

    #[inline(never)]
    fn scheduling_damage(&mut self) {
        self.problems.add("DPC and ISR", "an interrupt with an impossible start");
    }
}

/// 10 minutes: the watchdog resets the system long before.
const LONGEST_INTERRUPT_NS: i64 = 600_000_000_000;

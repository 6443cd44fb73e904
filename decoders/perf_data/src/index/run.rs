//! The fast way into the index: samples and switches of one CPU that follow each other in time.

use schedlens_input::bytes::{CPU_LIMIT, prefetch};

use super::{FAR_NS, Index};
use crate::ids::{CommonPart, Events};
use crate::record;
use crate::streams::{NO_CPU, Span};

impl Index {
    /// Indexes samples and switches of one CPU in time order; returns where they end, or `start` if a
    /// record needs closer examination. Each switch is a run of its own, like any other record.
    #[inline]
    pub(super) fn run(
        &mut self,
        events: &Events,
        segment: u32,
        data: &[u8],
        start: usize,
    ) -> usize {
        let Some(common) = &events.common else { return start };
        let Some(begin) = common.sample(data, start) else { return start };
        let cpu = begin.cpu;
        let limit = self.cpu_limit.unwrap_or(CPU_LIMIT);
        // See `Index::is_near`; time 0 marks what existed before the recording.
        let clock = self.clock.unwrap_or(begin.ts);
        let earliest = clock.saturating_sub(FAR_NS - 1).max(1);
        let latest = clock.saturating_add(FAR_NS - 1);
        if !(NO_CPU..limit).contains(&cpu) || !(earliest..=latest).contains(&begin.ts) {
            return start;
        }
        let event_of = |sample: &CommonPart| sample.id.map_or(Some(0), |id| events.by_id(id));
        if event_of(&begin).is_none() || self.conflict(cpu, begin.ts).is_some() {
            return start;
        }
        let Some(lane) = self.lane_for(cpu, begin.ts, false) else { return start };
        let mut position = start;
        let mut last = begin.ts;
        let mut records = 0;
        let mut switches = [0; 2];
        let mut from = (start, begin.ts);
        loop {
            let Some(sample) = common.sample(data, position) else {
                let found = events.tail.as_ref().and_then(|tail| tail.switch(data, position));
                let Some((kind, switch)) = found else { break };
                if switch.cpu != cpu || switch.ts < last || switch.ts > latest {
                    break;
                }
                prefetch(data, position);
                let end = position + switch.length;
                if from.0 < position {
                    self.extend(lane, (from.1, last), (segment, from.0, position));
                }
                self.extend(lane, (switch.ts, switch.ts), (segment, position, end));
                switches[usize::from(kind == record::SWITCH_CPU_WIDE)] += 1;
                last = switch.ts;
                position = end;
                from = (end, 0);
                continue;
            };
            if sample.cpu != cpu || sample.ts < last || sample.ts > latest {
                break;
            }
            let event = event_of(&sample);
            let Some(count) = event.and_then(|event| self.samples.get_mut(event)) else { break };
            prefetch(data, position);
            *count += 1;
            records += 1;
            last = sample.ts;
            if from.0 == position {
                from.1 = last;
            }
            position += sample.length;
        }
        self.records += records + switches[0] + switches[1];
        self.few_kinds[record::SAMPLE as usize] += records;
        self.few_kinds[record::SWITCH as usize] += switches[0];
        self.few_kinds[record::SWITCH_CPU_WIDE as usize] += switches[1];
        self.cover(begin.ts, last);
        if from.0 < position {
            self.extend(lane, (from.1, last), (segment, from.0, position));
        }
        position
    }

    /// Adds records from one time to another to a lane.
    #[inline(always)]
    fn extend(&mut self, lane: usize, (first, last): (u64, u64), at: (u32, usize, usize)) {
        let lane = &mut self.lanes[lane];
        lane.end_gap(first, &mut self.gaps);
        let run = Span { segment: at.0, start: at.1 as u64, end: at.2 as u64 };
        (lane.before, lane.run) = (lane.last, Some(run));
        // A LOST record that came first may be later.
        lane.first = lane.first.min(first);
        lane.last = last;
        lane.extend(run);
    }
}

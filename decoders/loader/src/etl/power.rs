//! Idle states, parking and frequencies of CPUs.

use schedlens_etl::facts::numbering::bits;
use schedlens_etl::payload::value::Fields;
use schedlens_etl::records::Record;
use schedlens_input::bytes::u32_at;
use schedlens_schedule::tables::Moment;

use super::rows::Parking;
use super::session::Session;
use super::state::power::Parked;

/// Maximum number of nodes whose caps are kept.
const MOST_CAPS: usize = 1024;
/// kHz per MHz.
const KHZ: i64 = 1000;

impl Session<'_> {
    /// Hooks 1239 and 123A: an idle state is entered or left.
    #[inline(never)]
    pub(super) fn idle_state(&mut self, hook: u16, payload: &[u8], at: Moment) -> Option<()> {
        let state = u32_at(payload, 0)?;
        if let Some((from, state)) = self.power.idle.remove(&at.cpu) {
            self.current.tables.idle(from, at.cpu, Some(at.ts - from), state);
        }
        if hook == 0x1239 {
            self.power.idle.insert(at.cpu, (at.ts, i32::try_from(state).unwrap_or(i32::MAX)));
        }
        Some(())
    }

    /// An event of Microsoft-Windows-Kernel-Processor-Power.
    pub(super) fn processor_power(&mut self, id: u16, record: &Record<'_>, ts: i64) {
        if !matches!(id, 10 | 14 | 15 | 18 | 64 | 65 | 66 | 111 | 112 | 137 | 138 | 148) {
            return;
        }
        let Some((_, fields)) = self.survey.event(record) else { return };
        if self.power_fields(id, &fields, ts).is_none() {
            // Later versions of these contain structs instead of masks.
            if matches!(id, 65 | 66 | 112 | 137) {
                self.power.not_described += 1;
            } else {
                self.short_payloads += 1;
            }
        }
    }

    fn power_fields(&mut self, id: u16, fields: &Fields, ts: i64) -> Option<()> {
        let group = u16::try_from(fields.number("Group")?).ok()?;
        if matches!(id, 65 | 66 | 112 | 137) {
            return self.node(id, group, fields, ts);
        }
        let number = u8::try_from(fields.number("Number")?).ok()?;
        let Some(cpu) = self.survey.numbering.cpu(group, number) else {
            self.problems.add(
                format!("group {group}, number {number}"),
                "an event of Kernel-Processor-Power for a CPU that the recording does not have",
            );
            return Some(());
        };
        match id {
            10 | 18 => self.frequency(cpu, ts, fields.id("Speed")?),
            111 | 148 => {
                let mhz = fields.id("DeliveredFrequency");
                if let Some(mhz) = mhz.or_else(|| fields.id("DeliveredFrequencyMhz")) {
                    self.frequency(cpu, ts, mhz);
                }
            }
            14 => {
                let soft = fields.flag("SoftParked");
                self.park(cpu, ts, Parked { parked: Some(true), soft });
            }
            15 => self.park(cpu, ts, Parked { parked: Some(false), soft: Some(false) }),
            138 => {
                let known = self.power.parked.get(&cpu).copied().unwrap_or_default();
                let soft = Some(fields.flag("SoftParked")?);
                self.park(cpu, ts, Parked { soft, ..known });
            }
            _ => {
                let parked = Some(fields.flag("Parked")?);
                self.found_parked(cpu, ts, Parked { parked, soft: fields.flag("SoftParked") });
                if let Some(mhz) = fields.id("DeliveredFrequencyMhz") {
                    self.frequency(cpu, ts, mhz);
                }
            }
        }
        Some(())
    }

    fn frequency(&mut self, cpu: i32, ts: i64, mhz: u32) {
        let khz = i64::from(mhz) * KHZ;
        if khz > 0 && self.power.khz.insert(cpu, khz) != Some(khz) {
            self.current.tables.frequency(ts, cpu, khz);
        }
    }

    /// A CPU is parked or unparked.
    fn park(&mut self, cpu: i32, ts: i64, state: Parked) {
        let power = &mut self.power;
        power.changes_from.get_or_insert(ts);
        let before = power.parked.insert(cpu, state);
        let chosen = power.chosen.remove(&cpu);
        let reason = chosen.filter(|(parked, _)| Some(*parked) == state.parked);
        if before != Some(state) {
            let reason = reason.map(|(_, reason)| format!("park reason {reason}"));
            self.parking(Some(ts), cpu, state, reason);
        }
    }

    /// A rundown states whether a CPU is parked. Without an earlier record of the CPU, the state
    /// applies from the first recorded change on any CPU.
    fn found_parked(&mut self, cpu: i32, ts: i64, state: Parked) {
        let known = self.power.parked.get(&cpu).copied();
        let merged = Parked { soft: state.soft.or(known.and_then(|known| known.soft)), ..state };
        if known == Some(merged) {
            return;
        }
        self.power.parked.insert(cpu, merged);
        let since = self.power.changes_from.filter(|from| known.is_none() && *from < ts);
        self.parking(Some(since.unwrap_or(ts)), cpu, merged, Some("rundown".to_owned()));
    }

    fn parking(&mut self, ts: Option<i64>, cpu: i32, state: Parked, reason: Option<String>) {
        let row = Parking { ts, cpu, parked: state.parked, soft_parked: state.soft, reason };
        self.current.rows.parking.push(row);
    }

    /// Events about the CPUs of a node, as masks in a group.
    fn node(&mut self, id: u16, group: u16, fields: &Fields, ts: i64) -> Option<()> {
        match id {
            65 => {
                let (all, parked) = (fields.number("Affinity")?, fields.number("Parked")?);
                let soft = fields.number("SoftParked");
                for number in bits(all) {
                    let Some(cpu) = self.survey.numbering.cpu(group, number as u8) else {
                        continue;
                    };
                    let is = |mask: u64| mask >> number & 1 == 1;
                    let state = Parked { parked: Some(is(parked)), soft: soft.map(is) };
                    self.found_parked(cpu, ts, state);
                }
                self.cap(group, all, fields)
            }
            66 => self.cap(group, fields.number("Affinity")?, fields),
            _ => {
                let (old, new) = (fields.number("OldPark")?, fields.number("NewPark")?);
                let reason = fields.number("ParkReason")?;
                for number in bits(old ^ new) {
                    if let Some(cpu) = self.survey.numbering.cpu(group, number as u8) {
                        let parked = new >> number & 1 == 1;
                        self.power.chosen.insert(cpu, (parked, reason));
                    }
                }
                Some(())
            }
        }
    }

    fn cap(&mut self, group: u16, mask: u64, fields: &Fields) -> Option<()> {
        let key = format!("parking_cap group {group} mask {mask:#x}");
        let lpi = fields.number("LpiCap")?;
        let value = match fields.number("ThermalCap") {
            Some(thermal) => format!("LpiCap {lpi}, ThermalCap {thermal}"),
            None => format!("LpiCap {lpi}"),
        };
        let caps = &mut self.power.caps;
        match caps.iter().position(|(known, _)| *known == key) {
            Some(known) => caps[known].1 = value,
            None if caps.len() < MOST_CAPS => caps.push((key, value)),
            None => {}
        }
        Some(())
    }
}

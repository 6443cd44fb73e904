//! The times of a recording: ticks as nanoseconds, and times of a guest as times of its host.

use schedlens_input::bytes::{Bytes, TooShort};

/// `TRACECMD_TSYNC_FLAG_INTERPOLATE`
const INTERPOLATE: u32 = 1;
/// Clocks of the kernel that count nanoseconds.
const IN_NS: [&str; 8] = ["local", "global", "perf", "mono", "mono_raw", "boot", "tai", "tsc2nsec"];

/// Whether a clock of the kernel counts nanoseconds.
pub(crate) fn is_in_ns(clock: &str) -> bool {
    IN_NS.contains(&clock)
}

/// How ticks become nanoseconds: `ticks * multiplier >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsc {
    /// The multiplier.
    pub multiplier: u32,
    /// The shift.
    pub shift: u32,
}

impl Tsc {
    fn ns(&self, ticks: u64) -> u64 {
        let wide = u128::from(ticks) * u128::from(self.multiplier);
        wide.checked_shr(self.shift).unwrap_or_default() as u64
    }
}

/// The difference between the clocks of a guest and its host at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When it was measured, on the clock of the guest.
    pub time: u64,
    /// Host minus guest.
    pub offset: i64,
    /// Ticks of the host per tick of the guest, as `scaling >> fraction`.
    pub scaling: u64,
    /// Bits of `scaling` behind its point.
    pub fraction: u64,
}

/// How times of a guest become times of its host (`TIME_SHIFT`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeShift {
    /// Identifier of the host's recording.
    pub peer: u64,
    interpolates: bool,
    /// Samples by CPU, in order of their times.
    cpus: Vec<Vec<Sample>>,
}

impl TimeShift {
    /// # Errors
    /// The data ends before the samples do.
    pub(crate) fn read(bytes: &mut Bytes<'_>) -> Result<Self, TooShort> {
        let peer = bytes.u64()?;
        let interpolates = bytes.u32()? & INTERPOLATE != 0;
        let mut cpus: Vec<Vec<Sample>> = Vec::new();
        for _ in 0..bytes.u32()? {
            let count = bytes.u32()?;
            let mut column = || {
                let column = bytes.take(u64::from(count) * 8)?;
                Ok(column
                    .chunks_exact(8)
                    .map(|one| u64::from_le_bytes(one.try_into().unwrap_or_default())))
            };
            let (times, offsets, scalings) = (column()?, column()?, column()?);
            let samples = times.zip(offsets).zip(scalings);
            let sample = |((time, offset), scaling): ((u64, u64), u64)| Sample {
                time,
                offset: offset.cast_signed(),
                scaling,
                fraction: 0,
            };
            cpus.push(samples.map(sample).collect());
        }
        // Files of trace-cmd 2.9 end here.
        if bytes.left() > 0 {
            for sample in cpus.iter_mut().flatten() {
                sample.fraction = bytes.u64()?;
            }
        }
        for samples in &mut cpus {
            samples.sort_by_key(|sample| sample.time);
            samples.dedup_by_key(|sample| sample.time);
        }
        Ok(Self { peer, interpolates, cpus })
    }

    /// A time of the host; the time itself for CPUs without a sample.
    ///
    /// Between two samples the earlier one applies, and its offset changes evenly towards that of
    /// the later one if the file asks for that. Before the first and after the last sample the
    /// nearest two apply.
    pub(crate) fn host(&self, time: u64, cpu: i32) -> u64 {
        let samples = usize::try_from(cpu).ok().and_then(|cpu| self.cpus.get(cpu));
        let samples = samples.map(Vec::as_slice).unwrap_or_default();
        let [first, .., _] = samples else {
            // One sample is only a difference.
            let offset = samples.first().map_or(0, |only| only.offset);
            return time.wrapping_add_signed(offset);
        };
        let after = samples.partition_point(|sample| sample.time <= time);
        let at = after.saturating_sub(1).min(samples.len() - 2);
        let (low, high) = (samples.get(at).unwrap_or(first), samples.get(at + 1).unwrap_or(first));
        let mut offset = i128::from(low.offset);
        if self.interpolates {
            let span = i128::from(high.time) - i128::from(low.time);
            let part = (i128::from(time) - i128::from(low.time))
                .saturating_mul(i128::from(high.offset) - offset);
            // Rounded as trace-cmd does, which is not evenly.
            offset += part.saturating_add(span / 2).checked_div(span).unwrap_or_default();
        }
        let scaled = u128::from(time) * u128::from(low.scaling);
        let scaled = u32::try_from(low.fraction).ok().and_then(|bits| scaled.checked_shr(bits));
        let shifted = i128::from(scaled.unwrap_or_default() as u64).saturating_add(offset);
        shifted as u64
    }
}

/// How raw times of a file become times in ns.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    pub(crate) shift: Option<TimeShift>,
    pub(crate) tsc: Option<Tsc>,
    /// Added at the end.
    pub(crate) offset_ns: i64,
}

impl Clock {
    /// The time of a record of a CPU in ns; on the host's clock if the file is a guest's.
    #[inline(always)]
    pub fn ns(&self, raw: u64, cpu: i32) -> u64 {
        if self.shift.is_none() && self.tsc.is_none() {
            return raw.wrapping_add_signed(self.offset_ns);
        }
        self.converted(raw, cpu)
    }

    #[inline(never)]
    fn converted(&self, raw: u64, cpu: i32) -> u64 {
        // The host's clock may count ticks, too, and the samples are in its ticks.
        let host = self.shift.as_ref().map_or(raw, |shift| shift.host(raw, cpu));
        let ns = self.tsc.as_ref().map_or(host, |tsc| tsc.ns(host));
        ns.wrapping_add_signed(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(flags: u32, cpus: &[&[[u64; 4]]], with_fractions: bool) -> Vec<u8> {
        let mut data = 5_u64.to_le_bytes().to_vec();
        data.extend(flags.to_le_bytes());
        data.extend((cpus.len() as u32).to_le_bytes());
        for samples in cpus {
            data.extend((samples.len() as u32).to_le_bytes());
            for column in 0..3 {
                data.extend(samples.iter().flat_map(|sample| sample[column].to_le_bytes()));
            }
        }
        for sample in cpus.iter().flat_map(|samples| samples.iter()).filter(|_| with_fractions) {
            data.extend(sample[3].to_le_bytes());
        }
        data
    }

    fn shift(flags: u32, cpus: &[&[[u64; 4]]], with_fractions: bool) -> TimeShift {
        let data = option(flags, cpus, with_fractions);
        TimeShift::read(&mut Bytes::new(&data, "TIME_SHIFT")).expect("read")
    }

    // guest  0 ... 100 ... 200 ... 300
    // offset       +10     +30    -20
    const THREE: [[u64; 4]; 3] =
        [[200, 30, 1, 0], [100, 10, 1, 0], [300, 20_u64.wrapping_neg(), 1, 0]];

    #[test]
    fn each_period_has_the_offset_of_its_first_sample() {
        let steps = shift(0, &[&THREE], true);
        let host = |time| steps.host(time, 0);
        assert_eq!([host(50), host(100), host(199), host(200)], [60, 110, 209, 230]);
        // After the last sample the two before it apply.
        assert_eq!([host(300), host(400)], [330, 430]);
        assert_eq!(steps.host(400, 1), 400);
        assert_eq!(steps.peer, 5);
    }

    #[test]
    fn offsets_change_evenly_where_the_file_asks_for_it() {
        let even = shift(INTERPOLATE, &[&THREE], false);
        let host = |time| even.host(time, 0);
        assert_eq!(
            [host(100), host(150), host(200), host(250), host(300)],
            [110, 170, 230, 256, 281]
        );
        // The nearest two samples continue before the first one.
        assert_eq!(host(90), 90 + 9);
    }

    #[test]
    fn one_sample_is_an_offset_and_a_scaling_is_a_fixed_point_number() {
        let one = shift(0, &[&[[100, 7, 99, 0]]], true);
        assert_eq!(one.host(1000, 0), 1007);
        // 1.5, of a time that needs more than 64 bits on the way
        let scaled = shift(0, &[&[[0, 1, 3 << 47, 48], [10, 1, 3 << 47, 48]]], true);
        assert_eq!(scaled.host(1 << 40, 0), (3 << 39) + 1);
        assert_eq!(shift(0, &[&[]], true).host(3, 0), 3);
    }

    #[test]
    fn a_time_shift_is_never_read_beyond_its_end() {
        let data = option(0, &[&THREE, &THREE], true);
        for cut in 0..data.len() {
            // Without all fractions it ends behind the samples, as in files of older programs.
            let found = TimeShift::read(&mut Bytes::new(&data[..cut], "TIME_SHIFT"));
            assert_eq!(found.is_ok(), cut == data.len() - 48, "{cut}");
        }
    }

    #[test]
    fn ticks_become_nanoseconds_on_the_clock_of_the_host() {
        let clock = Clock {
            shift: Some(shift(0, &[&[[0, 1000, 1, 0]]], true)),
            tsc: Some(Tsc { multiplier: 1 << 31, shift: 32 }),
            offset_ns: -1,
        };
        assert_eq!(clock.ns(5000, 0), 2999);
        assert_eq!(clock.ns(u64::MAX, 1), u64::MAX / 2 - 1);
        assert_eq!(Clock { offset_ns: 3, ..Clock::default() }.ns(4, 0), 7);
    }
}

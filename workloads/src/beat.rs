//! A 60 Hz frame rate: starts frames on time and counts late ones.

use std::thread;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::os;

/// Time from one frame to the next.
pub const FRAME_NS: i64 = 1_000_000_000 / 60;
/// Sleeps are at most this long, so that the end of the run is noticed.
const NAP_NS: i64 = 20_000_000;
/// Frames that are stored: four hours of them.
const MOST_MARKS: usize = 1 << 20;
/// Initial capacity in frames.
const ROOM: usize = 1 << 14;

/// A frame, by the system's clock. It lasts until the next one of its thread starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameMark {
    pub start_mono_ns: i64,
    /// When its work was done and it could be shown; none if the run ended first.
    pub present_mono_ns: Option<i64>,
}

/// The frames of one thread.
pub struct Beat {
    /// When the current frame was due; none before the first.
    due_ns: Option<i64>,
    began_ns: i64,
    lengths: Histogram,
    /// Frames that were already due when the previous one ended.
    missed: u64,
    /// Sum of the frame times.
    measured_ns: u64,
    marks: Vec<FrameMark>,
}

impl Beat {
    /// No frame has started yet.
    pub fn new() -> Beat {
        Beat {
            due_ns: None,
            began_ns: 0,
            lengths: Histogram::new(),
            missed: 0,
            measured_ns: 0,
            marks: Vec::with_capacity(ROOM),
        }
    }

    /// Forgets all frames, because the measured interval begins.
    pub fn restart(&mut self) {
        self.due_ns = None;
        self.lengths.clear();
        (self.missed, self.measured_ns) = (0, 0);
        self.marks.clear();
    }

    /// Sleeps until the next frame is due, and starts it; false: `released` says to leave.
    pub fn next(&mut self, released: impl Fn() -> bool) -> bool {
        let now_ns = os::monotonic_ns();
        let due_ns = self.due_ns.map_or(now_ns, |due_ns| due_ns + FRAME_NS);
        self.missed += u64::from(self.due_ns.is_some() && now_ns > due_ns);
        loop {
            let left_ns = due_ns - os::monotonic_ns();
            if left_ns <= 0 {
                break;
            }
            if released() {
                return false;
            }
            thread::sleep(Duration::from_nanos(left_ns.min(NAP_NS) as u64));
        }
        let begin_ns = os::monotonic_ns();
        if self.due_ns.is_some() {
            self.lengths.add(begin_ns - self.began_ns);
            self.measured_ns += u64::try_from(begin_ns - self.began_ns).unwrap_or(0);
        }
        self.began_ns = begin_ns;
        // A frame in time keeps the rhythm; a late one starts a new one.
        self.due_ns = Some(if now_ns > due_ns { begin_ns } else { due_ns });
        if self.marks.len() < MOST_MARKS {
            self.marks.push(FrameMark { start_mono_ns: begin_ns, present_mono_ns: None });
        }
        true
    }

    /// Marks the work of the current frame as done.
    pub fn present(&mut self) {
        let now_ns = os::monotonic_ns();
        let began_ns = self.began_ns;
        if let Some(mark) = self.marks.last_mut().filter(|mark| mark.start_mono_ns == began_ns) {
            mark.present_mono_ns = Some(now_ns);
        }
    }

    /// The frames since the measured interval began, the first `MOST_MARKS` of them.
    pub fn marks(&self) -> &[FrameMark] {
        &self.marks
    }

    /// Times of the frames that ended.
    pub fn lengths(&self) -> &Histogram {
        &self.lengths
    }

    /// Number of frames that ended, number of late ones, and the sum of their times.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("frames", self.lengths.total()),
            ("missed_frames", self.missed),
            ("interval_ns", self.measured_ns),
        ]
    }

    /// Warns if frames were not stored.
    pub fn warnings(&self) -> Vec<String> {
        if self.marks.len() < MOST_MARKS {
            return Vec::new();
        }
        vec![format!("only the first {MOST_MARKS} frames are stored individually")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_the_beat_a_late_one_begins_a_new_one_and_each_is_stamped() {
        let mut beat = Beat::new();
        assert!(beat.next(|| false));
        beat.present();
        assert!(beat.next(|| false));
        thread::sleep(Duration::from_nanos(FRAME_NS as u64 + 5_000_000));
        beat.present();
        assert!(beat.next(|| false));
        let marks = beat.marks().to_vec();
        assert_eq!(marks.len(), 3);
        assert_eq!(marks[2].present_mono_ns, None);
        // A frame may start late, and is then closer to the next one.
        assert!(marks[1].start_mono_ns - marks[0].start_mono_ns >= FRAME_NS / 2);
        for pair in marks.windows(2) {
            let shown_ns = pair[0].present_mono_ns.expect("it was presented");
            assert!((pair[0].start_mono_ns..=pair[1].start_mono_ns).contains(&shown_ns));
        }
        let whole = (marks[2].start_mono_ns - marks[0].start_mono_ns) as u64;
        let counts = beat.counts();
        assert_eq!((counts[0], counts[2]), (("frames", 2), ("interval_ns", whole)));
        assert!(counts[1].1 >= 1, "{counts:?}");
        assert!(!beat.next(|| true));
        beat.restart();
        assert!(beat.marks().is_empty() && beat.lengths().total() == 0);
    }
}

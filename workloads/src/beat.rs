//! A beat of 60 frames a second: when the next frame may begin, and what became of those before.

use std::thread;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::os;

/// From one frame to the next.
pub const FRAME_NS: i64 = 1_000_000_000 / 60;
/// The longest that a sleep hides the end of the run.
const NAP_NS: i64 = 20_000_000;
/// Frames that are kept: four hours of them.
const MOST_MARKS: usize = 1 << 20;
/// Frames there is room for from the beginning.
const ROOM: usize = 1 << 14;

/// A frame, by the system's clock. It lasts until the next one of its thread begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameMark {
    pub start_mono_ns: i64,
    /// When its work was done, so that it could be shown; none where the run ended before.
    pub present_mono_ns: Option<i64>,
}

/// Frame after frame of one thread.
pub struct Beat {
    /// The beat that the frame under way keeps; none before the first.
    due_ns: Option<i64>,
    began_ns: i64,
    lengths: Histogram,
    /// Frames whose turn was over when the one before ended.
    missed: u64,
    /// Sum of the lengths of the frames.
    measured_ns: u64,
    marks: Vec<FrameMark>,
}

impl Beat {
    /// Before its first frame.
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

    /// Forgets all frames: the measured interval begins.
    pub fn restart(&mut self) {
        self.due_ns = None;
        self.lengths.clear();
        (self.missed, self.measured_ns) = (0, 0);
        self.marks.clear();
    }

    /// Sleeps until the next frame may begin, and begins it; false: `released` says to leave.
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
        // A frame in time keeps the beat; one that is late begins a new one.
        self.due_ns = Some(if now_ns > due_ns { begin_ns } else { due_ns });
        if self.marks.len() < MOST_MARKS {
            self.marks.push(FrameMark { start_mono_ns: begin_ns, present_mono_ns: None });
        }
        true
    }

    /// The work of the frame under way is done.
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

    /// Lengths of the frames that ended.
    pub fn lengths(&self) -> &Histogram {
        &self.lengths
    }

    /// Frames that ended, those that came late, and the sum of their lengths.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("frames", self.lengths.total()),
            ("missed_frames", self.missed),
            ("interval_ns", self.measured_ns),
        ]
    }

    /// What of it is not kept.
    pub fn warnings(&self) -> Vec<String> {
        if self.marks.len() < MOST_MARKS {
            return Vec::new();
        }
        vec![format!("frames after the first {MOST_MARKS} are not kept one by one")]
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
        // A frame may begin late, and then lies nearer to the next.
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

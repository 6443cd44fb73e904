//! game: a render thread with 60 frames a second, a game thread, and workers for its jobs.
//!
//! In each frame, the render thread wakes the game thread, does its own work, and waits for the
//! game thread. The game thread computes, queues jobs for the workers, helps them, and waits for
//! the last one. With fewer threads, the render thread also does the missing threads' work.

use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::beat::{Beat, FrameMark};
use crate::histogram::Histogram;
use crate::kernel::{Builder, Crew, Kernel, Link, Options, Proof, Unit, Variant, Work, anywhere};
use crate::os;

/// Work of the render thread before and after it needs the game thread's result.
const RENDER_NS: [i64; 2] = [1_500_000, 500_000];
const SIMULATE_NS: i64 = 1_000_000;
/// Jobs per frame, and the work of each.
const JOBS: u64 = 8;
const JOB_NS: i64 = 400_000;
/// For `stutter`: once in this many frames, one job is long.
const STUTTER_EVERY: u64 = 30;
const LONG_JOB_NS: i64 = 40_000_000;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "game",
    summary: "render, game and job threads, 60 frames a second (1 thread: render alone)",
    note: "an iteration is a frame of 6 ms of work; stutter: one job of 40 ms every 30 frames",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[
        Variant {
            name: "even",
            refusal: anywhere,
            crew: |threads, _: Options| crew(threads, u64::MAX),
        },
        Variant {
            name: "stutter",
            refusal: anywhere,
            crew: |threads, _: Options| crew(threads, STUTTER_EVERY),
        },
    ],
    usual_cycles: None,
    instructions: None,
};

/// Steps of one unit of work, about 10 us.
const UNIT_STEPS: u32 = 10_000;
/// The shortest of this many units counts as the length of one; the others were disturbed.
const TRIED_UNITS: usize = 25;

fn unit() -> u64 {
    let mut value = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..UNIT_STEPS {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    value
}

/// Computes for about the requested time.
struct Labour {
    unit_ns: i64,
    due: u64,
    units: u64,
    wrong: u64,
}

impl Labour {
    fn new() -> Labour {
        let mut shortest_ns = i64::MAX;
        let mut due = 0;
        for _ in 0..TRIED_UNITS {
            let begin_ns = os::monotonic_ns();
            due = unit();
            shortest_ns = shortest_ns.min(os::monotonic_ns() - begin_ns);
        }
        Labour { unit_ns: shortest_ns.max(1), due, units: 0, wrong: 0 }
    }

    fn work(&mut self, ns: i64) {
        for _ in 0..(ns / self.unit_ns).max(1) {
            self.units += 1;
            self.wrong += u64::from(unit() != self.due);
        }
    }

    fn proof(&self) -> Proof {
        Proof::new(format!("wrong results of {} units of work", self.units), 0, self.wrong)
    }
}

#[derive(Default)]
struct State {
    /// Frames that the render thread started, and those whose simulation ended.
    begun: u64,
    simulated: u64,
    /// Total number of jobs queued, taken and done.
    posted: u64,
    taken: u64,
    done: u64,
    released: bool,
}

/// State that the threads of one game share.
struct Stage {
    game: bool,
    workers: bool,
    stutter_every: u64,
    state: Mutex<State>,
    frame_begun: Condvar,
    jobs_posted: Condvar,
    jobs_done: Condvar,
    frame_simulated: Condvar,
}

impl Stage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the condition holds; None: released instead.
    fn wait(
        &self,
        until: &Condvar,
        holds: impl Fn(&State) -> bool,
    ) -> Option<MutexGuard<'_, State>> {
        let mut state = self.state();
        while !holds(&state) {
            if state.released {
                return None;
            }
            state = until.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(state)
    }

    fn job_ns(&self, job: u64) -> i64 {
        let frame = job / JOBS + 1;
        let long = frame.is_multiple_of(self.stutter_every) && job.is_multiple_of(JOBS);
        if long { LONG_JOB_NS } else { JOB_NS }
    }

    /// Does a job that no thread has taken; false: there is none.
    fn job(&self, mut state: MutexGuard<'_, State>, labour: &mut Labour) -> bool {
        if state.taken == state.posted {
            return false;
        }
        let job = state.taken;
        state.taken += 1;
        drop(state);
        labour.work(self.job_ns(job));
        let mut state = self.state();
        state.done += 1;
        let last = state.done == state.posted;
        drop(state);
        if last {
            self.jobs_done.notify_one();
        }
        true
    }

    /// The game thread's part of a frame; false: released.
    fn simulate(&self, labour: &mut Labour) -> bool {
        labour.work(SIMULATE_NS);
        self.state().posted += JOBS;
        if self.workers {
            self.jobs_posted.notify_all();
        }
        while self.job(self.state(), labour) {}
        let Some(mut state) = self.wait(&self.jobs_done, |state| state.done == state.posted) else {
            return false;
        };
        state.simulated += 1;
        drop(state);
        self.frame_simulated.notify_one();
        true
    }
}

impl Link for Stage {
    fn release(&self) {
        self.state().released = true;
        for waited in [&self.frame_begun, &self.jobs_posted, &self.jobs_done, &self.frame_simulated]
        {
            waited.notify_all();
        }
    }

    fn rearm(&self) {
        // The frame that the release interrupted is abandoned: no thread works on a job now.
        *self.state() = State::default();
    }
}

struct Render {
    stage: Arc<Stage>,
    labour: Labour,
    beat: Beat,
}

impl Render {
    fn frame(&mut self) -> bool {
        let stage = Arc::clone(&self.stage);
        if !self.beat.next(|| stage.state().released) {
            return false;
        }
        stage.state().begun += 1;
        stage.frame_begun.notify_one();
        self.labour.work(RENDER_NS[0]);
        if stage.game {
            let whole = |state: &State| state.simulated == state.begun;
            if stage.wait(&stage.frame_simulated, whole).is_none() {
                return false;
            }
        } else if !stage.simulate(&mut self.labour) {
            return false;
        }
        self.labour.work(RENDER_NS[1]);
        self.beat.present();
        true
    }
}

impl Work for Render {
    fn role(&self) -> Option<&'static str> {
        Some("render")
    }

    fn begin(&mut self) {
        self.beat.restart();
    }

    fn batch(&mut self, iterations: u64) -> u64 {
        for frame in 0..iterations {
            if !self.frame() {
                return frame;
            }
        }
        iterations
    }

    fn leave(&self) {
        self.stage.release();
    }

    fn prove(&mut self) -> Vec<Proof> {
        let state = self.stage.state();
        let all_but_one = state.begun.checked_sub(state.simulated).is_some_and(|left| left <= 1);
        vec![
            self.labour.proof(),
            Proof::new(
                format!("{} frames are simulated, or all but the last", state.begun),
                true,
                all_but_one,
            ),
            Proof::new("jobs that were taken and not done", 0, state.taken - state.done),
        ]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.beat.counts()
    }

    fn latency(&self) -> Option<&Histogram> {
        Some(self.beat.lengths())
    }

    fn frames(&self) -> &[FrameMark] {
        self.beat.marks()
    }

    fn warnings(&self) -> Vec<String> {
        self.beat.warnings()
    }
}

/// The game thread and the workers, which count no iterations of their own.
struct Helper {
    stage: Arc<Stage>,
    labour: Labour,
    is_game: bool,
}

impl Helper {
    fn play(&mut self) -> Option<()> {
        let stage = Arc::clone(&self.stage);
        if self.is_game {
            drop(stage.wait(&stage.frame_begun, |state| state.begun > state.simulated)?);
            stage.simulate(&mut self.labour).then_some(())
        } else {
            let state = stage.wait(&stage.jobs_posted, |state| state.taken < state.posted)?;
            stage.job(state, &mut self.labour);
            Some(())
        }
    }
}

impl Work for Helper {
    fn role(&self) -> Option<&'static str> {
        Some(if self.is_game { "game" } else { "job" })
    }

    fn batch(&mut self, _iterations: u64) -> u64 {
        while !self.stage.state().released && self.play().is_some() {}
        0
    }

    fn iterates(&self) -> bool {
        false
    }

    fn leave(&self) {
        self.stage.release();
    }

    fn prove(&mut self) -> Vec<Proof> {
        vec![self.labour.proof()]
    }
}

fn crew(threads: usize, stutter_every: u64) -> Crew {
    let stage = Arc::new(Stage {
        game: threads > 1,
        workers: threads > 2,
        stutter_every,
        state: Mutex::default(),
        frame_begun: Condvar::new(),
        jobs_posted: Condvar::new(),
        jobs_done: Condvar::new(),
        frame_simulated: Condvar::new(),
    });
    let builders = (0..threads)
        .map(|worker| {
            let stage = Arc::clone(&stage);
            let builder: Builder = Box::new(move |_| {
                let labour = Labour::new();
                Ok(match worker {
                    0 => Box::new(Render { stage, labour, beat: Beat::new() }),
                    _ => Box::new(Helper { stage, labour, is_game: worker == 1 }),
                })
            });
            builder
        })
        .collect();
    Crew { builders, links: vec![stage] }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::beat::FRAME_NS;

    /// The frames of a game with that many threads, and whether all proofs hold.
    fn play(threads: usize, frames: u64, stutter_every: u64) -> (Vec<i64>, bool) {
        let Crew { builders, links } = crew(threads, stutter_every);
        let parts: Vec<(Vec<i64>, bool)> = thread::scope(|scope| {
            let parts: Vec<_> = builders
                .into_iter()
                .enumerate()
                .map(|(worker, build)| {
                    let links = &links;
                    scope.spawn(move || {
                        let mut work = build(None).expect("a part of a game needs nothing");
                        let (wanted, due) = if worker == 0 { (frames, frames) } else { (1, 0) };
                        assert_eq!(work.batch(wanted), due);
                        links.iter().for_each(|link| link.release());
                        let begins = work.frames().iter().map(|mark| mark.start_mono_ns);
                        let begins: Vec<i64> = begins.collect();
                        (begins, work.prove().iter().all(Proof::holds))
                    })
                })
                .collect();
            parts.into_iter().map(|part| part.join().expect("no part panics")).collect()
        });
        let (frames, holds): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        (frames.into_iter().flatten().collect(), holds.into_iter().all(|one| one))
    }

    #[test]
    fn a_game_has_its_frames_with_any_number_of_threads() {
        for threads in [1, 2, 4] {
            let (begins, holds) = play(threads, 4, u64::MAX);
            assert_eq!((begins.len(), holds), (4, true), "{threads}");
            assert!(begins[3] - begins[0] >= FRAME_NS * 5 / 2, "{begins:?}");
        }
    }

    #[test]
    fn the_long_job_is_in_the_requested_frame() {
        let (begins, holds) = play(3, 4, 2);
        assert!(holds);
        // The work is at least nine tenths of the target, whatever the clock speed is then.
        assert!(begins[2] - begins[1] >= LONG_JOB_NS * 9 / 10, "{begins:?}");
    }

    #[test]
    fn what_is_wrong_is_found_and_release_ends_every_wait() {
        let mut labour = Labour::new();
        labour.work(1);
        assert!(labour.proof().holds());
        labour.due ^= 1;
        labour.work(1);
        assert_eq!(labour.proof().found, "1");
        let mut crew = crew(2, u64::MAX);
        crew.links[0].release();
        let build = crew.builders.remove(1);
        let mut game = build(None).expect("a part of a game needs nothing");
        assert_eq!(game.batch(5), 0);
    }
}

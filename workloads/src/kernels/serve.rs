//! serve: requests for a 10 KiB asset, each answered with a copy and its SHA-256.
//!
//! `closed` takes the next request as soon as one is done, which shows how many it can serve. In
//! `open`, requests arrive at random (a Poisson process per worker, `--rate` a second) whether or
//! not the worker is free. They are timed from their intended arrival, because a closed loop hides
//! the queue.

use std::hint::{black_box, spin_loop};
use std::thread;
use std::time::Duration;

use super::register_loop::ODD;
use super::sha256::{self, Compress};
use crate::histogram::Histogram;
use crate::kernel::{Crew, How, Kernel, Options, Proof, Unit, Variant, Work, anywhere};
use crate::os;

const ASSET_BYTES: usize = 10 * 1024;
/// Number of different assets, too many to fit in L1d.
const ASSETS: usize = 64;
/// A worker that parks wakes this long before the arrival and spins for the rest.
const EARLY_NS: i64 = 20_000;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "serve",
    summary: "requests for 10 KiB assets: copied and hashed, closed loop or open (--rate)",
    note: "an iteration is a request; open: timed from the intended arrival, --how spin, yield or \
           park until it",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[
        Variant {
            name: "closed",
            refusal: anywhere,
            crew: |threads, _| Crew::alone(threads, |_| Ok(Server::new(None))),
        },
        Variant {
            name: "open",
            refusal: anywhere,
            crew: |threads, options: Options| {
                Crew::numbered(threads, move |worker, _| {
                    Ok(Server::new(Some(Arrivals::new(options, worker))))
                })
            },
        },
    ],
    usual_cycles: None,
    instructions: None,
};

/// The output function of SplitMix64: a bijection whose results look random.
fn mix(state: u64) -> u64 {
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Requests that arrive at random.
struct Arrivals {
    mean_ns: f64,
    how: How,
    random: u64,
    /// The state before the first gap: a warm-up must not change which requests are measured.
    first: u64,
    /// The next intended arrival, in ns of CLOCK_MONOTONIC.
    next_ns: f64,
    open: bool,
}

impl Arrivals {
    fn new(options: Options, worker: usize) -> Arrivals {
        // Hashed, because nearby states would give workers the same gaps, shifted by a few.
        let random = mix(mix(options.seed.wrapping_add(ODD)).wrapping_add(worker as u64));
        Arrivals {
            mean_ns: 1e9 / options.rate,
            how: options.how,
            random,
            first: random,
            next_ns: 0.0,
            open: false,
        }
    }

    /// An exponential gap to the next request.
    fn gap_ns(&mut self) -> f64 {
        // SplitMix64: every state is used once.
        self.random = self.random.wrapping_add(ODD);
        let mixed = mix(self.random);
        // In (0, 1]: the logarithm of 0 does not exist.
        let uniform = ((mixed >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -uniform.ln() * self.mean_ns
    }

    /// Waits for the next request; returns its intended arrival, and whether it had arrived by
    /// `now_ns`.
    fn wait(&mut self, now_ns: i64) -> (i64, bool) {
        let due_ns = self.next_ns as i64;
        self.next_ns += self.gap_ns();
        if now_ns > due_ns {
            return (due_ns, true);
        }
        loop {
            let left_ns = due_ns - os::monotonic_ns();
            if left_ns <= 0 {
                return (due_ns, false);
            }
            match self.how {
                How::Park if left_ns > 2 * EARLY_NS => {
                    thread::sleep(Duration::from_nanos((left_ns - EARLY_NS) as u64));
                }
                How::Yield => thread::yield_now(),
                How::Park | How::Spin => spin_loop(),
            }
        }
    }
}

struct Server {
    compress: Compress,
    assets: Vec<Vec<u8>>,
    due: Vec<String>,
    body: Vec<u8>,
    arrivals: Option<Arrivals>,
    latency: Histogram,
    /// Requests since construction, and since the measured interval began.
    served: u64,
    counted: u64,
    busy_ns: i64,
    /// Time in requests only: neither spinning for the next one nor waking up for it.
    work_ns: i64,
    late: u64,
    /// Intended arrival of the last request.
    arrived_ns: i64,
    wrong: u64,
    began_ns: i64,
    ended_ns: i64,
}

impl Server {
    fn new(arrivals: Option<Arrivals>) -> Server {
        let assets: Vec<Vec<u8>> = (0..ASSETS)
            .map(|asset| (0..ASSET_BYTES).map(|byte| (byte * 31 + asset * 17) as u8).collect())
            .collect();
        let due = assets.iter().map(|asset| sha256::digest(sha256::plain(), asset)).collect();
        Server {
            compress: sha256::fastest(),
            assets,
            due,
            body: vec![0; ASSET_BYTES],
            arrivals,
            latency: Histogram::new(),
            served: 0,
            counted: 0,
            busy_ns: 0,
            work_ns: 0,
            late: 0,
            arrived_ns: 0,
            wrong: 0,
            began_ns: 0,
            ended_ns: 0,
        }
    }

    fn serve(&mut self) {
        let number = (self.served % ASSETS as u64) as usize;
        self.body.copy_from_slice(black_box(&self.assets[number]));
        let digest = sha256::digest(self.compress, &self.body);
        self.wrong += u64::from(digest != self.due[number]);
        self.served += 1;
    }
}

impl Work for Server {
    fn begin(&mut self) {
        self.began_ns = os::monotonic_ns();
        self.ended_ns = self.began_ns;
        self.latency.clear();
        (self.counted, self.busy_ns, self.work_ns, self.late) = (0, 0, 0, 0);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.open = true;
            arrivals.random = arrivals.first;
            arrivals.next_ns = self.began_ns as f64 + arrivals.gap_ns();
        }
    }

    fn batch(&mut self, iterations: u64) -> u64 {
        let mut now_ns = os::monotonic_ns();
        for _ in 0..iterations {
            let (arrived_ns, late) = match &mut self.arrivals {
                Some(arrivals) if arrivals.open => arrivals.wait(now_ns),
                _ => (now_ns, false),
            };
            let begin_ns = if late { now_ns } else { os::monotonic_ns() };
            self.serve();
            now_ns = os::monotonic_ns();
            self.latency.add(now_ns - arrived_ns);
            // The server counts as busy from the arrival of the request, however it was woken.
            self.busy_ns += now_ns - if late { begin_ns } else { arrived_ns };
            self.work_ns += now_ns - begin_ns;
            self.late += u64::from(late);
            self.arrived_ns = arrived_ns;
            self.counted += 1;
        }
        self.ended_ns = now_ns;
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        vec![
            Proof::new(format!("wrong answers of {}", self.served), 0, self.wrong),
            Proof::new("requests in the histogram", self.counted, self.latency.total()),
        ]
    }

    fn bytes_per_iteration(&self) -> u64 {
        0
    }

    fn latency(&self) -> Option<&Histogram> {
        Some(&self.latency)
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let whole = |ns: i64| u64::try_from(ns).unwrap_or(0);
        let mut counts = vec![
            ("requests", self.counted),
            ("late_starts", self.late),
            ("busy_ns", whole(self.busy_ns)),
            ("work_ns", whole(self.work_ns)),
            ("interval_ns", whole(self.ended_ns - self.began_ns)),
        ];
        if self.arrivals.is_some() && self.counted > 0 {
            counts.push(("last_arrival_ns", whole(self.arrived_ns - self.began_ns)));
        }
        counts
    }

    fn sizes(&self) -> Vec<(&'static str, u64)> {
        vec![("asset_bytes", ASSET_BYTES as u64), ("assets", ASSETS as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_and_a_wrong_answer_is_found() {
        let mut server = Server::new(None);
        server.batch(5);
        server.begin();
        assert_eq!(server.batch(70), 70);
        assert_eq!((server.served, server.counted, server.latency.total()), (75, 70, 70));
        assert!(server.prove().iter().all(Proof::holds));
        server.assets[11][7] ^= 1;
        server.batch(64);
        let holds: Vec<bool> = server.prove().iter().map(Proof::holds).collect();
        assert_eq!(holds, [false, true]);
    }

    #[test]
    fn gaps_have_the_requested_mean_and_differ_between_workers() {
        let options = Options { rate: 1e6, ..Options::default() };
        let mut first = Arrivals::new(options, 0);
        let mut second = Arrivals::new(options, 1);
        let gaps: Vec<f64> = (0..100_000).map(|_| first.gap_ns()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let squares = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        // The standard error is 0.32 % of the mean; an exponential's square has a mean of 2.
        assert!((mean / 1000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((squares / 1e6 - 2.0).abs() < 0.1, "{squares}");
        assert!(gaps.iter().all(|gap| *gap >= 0.0));
        // No worker repeats the gaps of another, not even shifted.
        let others: Vec<f64> = (0..100).map(|_| second.gap_ns()).collect();
        assert!(gaps[..200].iter().all(|gap| !others.contains(gap)));
    }

    #[test]
    fn arrivals_follow_the_seed_and_their_counts_vary_as_poisson() {
        // 400 seeds of 1 s at 1000 a second.
        let count = |seed: u64| {
            let mut arrivals = Arrivals::new(Options { rate: 1e3, seed, ..Options::default() }, 0);
            let (mut now_ns, mut count) = (arrivals.gap_ns(), 0_u64);
            while now_ns < 1e9 {
                now_ns += arrivals.gap_ns();
                count += 1;
            }
            count
        };
        assert_eq!(count(7), count(7));
        let counts: Vec<f64> = (0..400).map(|seed| count(seed) as f64).collect();
        let mean = counts.iter().sum::<f64>() / 400.0;
        let squares = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>();
        // Four standard errors: 31.6 / 20 of the mean, and sqrt(2 / 399) of the variance.
        assert!((mean - 1000.0).abs() < 6.4, "{mean}");
        assert!((squares / 399.0 / 1000.0 - 1.0).abs() < 0.29, "{squares}");
    }

    #[test]
    fn gaps_are_exponential() {
        let mut arrivals = Arrivals::new(Options { rate: 1e6, seed: 3, ..Options::default() }, 1);
        let mut gaps: Vec<f64> = (0..20_000).map(|_| arrivals.gap_ns()).collect();
        gaps.sort_by(f64::total_cmp);
        // Kolmogorov-Smirnov: 1.95 / sqrt(n) is exceeded once in 1000 by chance; the seed is fixed.
        let far = gaps.iter().enumerate().fold(0.0_f64, |far, (rank, gap)| {
            let due = 1.0 - (-gap / 1000.0).exp();
            far.max((due - rank as f64 / 2e4).abs()).max((due - (rank as f64 + 1.0) / 2e4).abs())
        });
        assert!(far < 1.95 / 2e4_f64.sqrt(), "{far}");
    }

    #[test]
    fn spinning_for_a_request_is_not_work() {
        // 200 requests a second leave the worker idle almost always, although it spins.
        let options = Options { rate: 200.0, how: How::Spin, ..Options::default() };
        let mut server = Server::new(Some(Arrivals::new(options, 0)));
        server.begin();
        server.batch(10);
        assert!(server.work_ns > 0 && server.work_ns <= server.busy_ns, "{}", server.work_ns);
        assert!(server.work_ns < (server.ended_ns - server.began_ns) / 2);
    }

    #[test]
    fn a_request_that_came_while_busy_is_late_and_timed_from_its_arrival() {
        let options = Options { rate: 1e6, ..Options::default() };
        let mut arrivals = Arrivals::new(options, 0);
        let now_ns = os::monotonic_ns();
        arrivals.next_ns = (now_ns - 5_000) as f64;
        assert_eq!(arrivals.wait(now_ns), (now_ns - 5_000, true));
        for how in [How::Spin, How::Yield, How::Park] {
            arrivals.how = how;
            let due_ns = os::monotonic_ns() + 200_000;
            arrivals.next_ns = due_ns as f64;
            let (arrived_ns, late) = arrivals.wait(due_ns - 200_000);
            assert!(!late && (arrived_ns - due_ns).abs() <= 256, "{arrived_ns} {due_ns}");
            assert!(os::monotonic_ns() >= arrived_ns);
        }
    }
}

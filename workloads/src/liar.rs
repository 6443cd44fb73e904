//! A kernel with wrong results, for the tests of failures.

use std::thread;
use std::time::Duration;

use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

struct Liar;

impl Work for Liar {
    fn batch(&mut self, iterations: u64) -> u64 {
        thread::sleep(Duration::from_micros(200));
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        vec![Proof::new("one is one", 1, 1), Proof::new("two is two", 2, 3)]
    }
}

/// Wrong, unsupported or impossible to build, by variant.
pub static LIAR: Kernel = Kernel {
    name: "liar",
    summary: "",
    note: "",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[
        Variant {
            name: "wrong",
            refusal: anywhere,
            crew: |threads, _| Crew::alone(threads, |_| Ok(Liar)),
        },
        Variant {
            name: "absent",
            refusal: |_| Some("the CPU cannot lie".to_owned()),
            crew: |threads, _| Crew::alone(threads, |_| Ok(Liar)),
        },
        Variant {
            name: "unbuilt",
            refusal: anywhere,
            crew: |threads, _| Crew::alone(threads, |_| Err::<Liar, _>("no room".to_owned())),
        },
    ],
    usual_cycles: Some(1.0),
    instructions: None,
};

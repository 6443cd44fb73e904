//! imul_add: a chain of multiplications and a chain of additions in one loop.

use super::register_loop::{Register, SEED, register_loop};

register_loop! {
    KERNEL: {
        name: "imul_add",
        summary: "one multiplication and one independent addition a loop",
        note: "latency 3 of the multiplication, which hides the addition",
        usual_cycles: Some(3.0),
        instructions: Some(4),
    },
    both: { product: Register::product("product", SEED), sum: Register::sum("sum", 1) },
    x86_64: ["imul {product}, {m}", "add {sum}, {m}"],
    aarch64: ["mul {product}, {product}, {m}", "add {sum}, {sum}, {m}"],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::register_loop::{ODD, checks};

    #[test]
    fn both_chains_are_counted() {
        checks::every_iteration_counts(both(), |[product, sum]| {
            *product = product.wrapping_mul(ODD);
            *sum = sum.wrapping_add(ODD);
        });
    }

    #[test]
    fn a_wrong_value_of_either_chain_is_found() {
        checks::what_is_wrong_is_found(both());
    }
}

//! matmul: the product of two 32 x 32 matrices, over and over, all of it in L1d.
//!
//! The elements are small whole numbers, so every sum is exact and the sum of each row of the
//! product is known.

use std::hint::black_box;

use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

const SIZE: usize = 32;
type Matrix = [[f32; SIZE]; SIZE];

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "matmul",
    summary: "product of two 32 x 32 matrices of floats, 12 KiB in L1d",
    note: "bound by the vector multipliers and the loads of L1d, which siblings share",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[
        #[cfg(target_arch = "x86_64")]
        Variant {
            name: "fma",
            refusal: |_| x86::refusal(),
            crew: |threads, _| Crew::alone(threads, |_| Ok(Product::new(x86::multiply))),
        },
        Variant {
            name: "plain",
            refusal: anywhere,
            crew: |threads, _| Crew::alone(threads, |_| Ok(Product::new(multiply))),
        },
    ],
    usual_cycles: None,
    instructions: None,
};

type Multiply = fn(left: &Matrix, right: &Matrix, product: &mut Matrix);

#[inline(always)]
fn rows(left: &Matrix, right: &Matrix, product: &mut Matrix) {
    for (row, result) in left.iter().zip(product.iter_mut()) {
        let mut sums = [0.0_f32; SIZE];
        for (factor, other) in row.iter().zip(right) {
            for (sum, element) in sums.iter_mut().zip(other) {
                *sum += factor * element;
            }
        }
        *result = sums;
    }
}

fn multiply(left: &Matrix, right: &Matrix, product: &mut Matrix) {
    rows(left, right, product);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Matrix, SIZE};
    use std::arch::x86_64::{
        _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };

    /// Floats per register.
    const LANES: usize = 8;

    /// Why this CPU cannot run it.
    pub fn refusal() -> Option<String> {
        let there = std::arch::is_x86_feature_detected!("avx")
            && std::arch::is_x86_feature_detected!("fma");
        (!there).then(|| "the CPU has no AVX with fused multiply-add".to_owned())
    }

    /// Call only if `refusal` returns none.
    pub fn multiply(left: &Matrix, right: &Matrix, product: &mut Matrix) {
        // SAFETY: this variant is offered only if the CPU has both.
        unsafe { fused(left, right, product) }
    }

    #[target_feature(enable = "avx,fma")]
    fn fused(left: &Matrix, right: &Matrix, product: &mut Matrix) {
        // Two rows at once: eight sums, as many as the multipliers' latency can hide.
        for (rows, results) in left.chunks_exact(2).zip(product.chunks_exact_mut(2)) {
            let mut upper = [_mm256_setzero_ps(); SIZE / LANES];
            let mut lower = upper;
            for (index, other) in right.iter().enumerate() {
                let above = _mm256_set1_ps(rows[0][index]);
                let below = _mm256_set1_ps(rows[1][index]);
                let parts = other.chunks_exact(LANES);
                for ((part, up), low) in parts.zip(&mut upper).zip(&mut lower) {
                    // SAFETY: the part has LANES floats.
                    let elements = unsafe { _mm256_loadu_ps(part.as_ptr()) };
                    *up = _mm256_fmadd_ps(above, elements, *up);
                    *low = _mm256_fmadd_ps(below, elements, *low);
                }
            }
            for (result, sums) in results.iter_mut().zip([upper, lower]) {
                for (part, sum) in result.chunks_exact_mut(LANES).zip(sums) {
                    // SAFETY: the part has LANES floats.
                    unsafe { _mm256_storeu_ps(part.as_mut_ptr(), sum) };
                }
            }
        }
    }
}

/// A small nonzero whole number for each element.
fn element(row: usize, column: usize, salt: usize) -> u32 {
    ((row * 7 + column * 13 + salt) % 9 + 1) as u32
}

fn matrix(salt: usize) -> Matrix {
    std::array::from_fn(|row| std::array::from_fn(|column| element(row, column, salt) as f32))
}

struct Product {
    multiply: Multiply,
    left: Matrix,
    right: Matrix,
    product: Matrix,
    iterations: u64,
    /// Sum of the checked rows: one row per product, in turn.
    sum: u64,
}

impl Product {
    fn new(multiply: Multiply) -> Product {
        let product = [[0.0; SIZE]; SIZE];
        Product { multiply, left: matrix(1), right: matrix(2), product, iterations: 0, sum: 0 }
    }
}

/// The sum of a row of the product, in whole numbers.
fn row_sum(row: usize) -> u64 {
    let sum = |inner: usize| -> u32 { (0..SIZE).map(|column| element(inner, column, 2)).sum() };
    (0..SIZE).map(|inner| u64::from(element(row, inner, 1) * sum(inner))).sum()
}

impl Work for Product {
    fn batch(&mut self, iterations: u64) -> u64 {
        for _ in 0..iterations {
            (self.multiply)(black_box(&self.left), black_box(&self.right), &mut self.product);
            let row = (self.iterations % SIZE as u64) as usize;
            let found: f32 = black_box(&self.product)[row].iter().sum();
            self.sum += found as u64;
            self.iterations += 1;
        }
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let rows: Vec<u64> = (0..SIZE).map(row_sum).collect();
        let (rounds, rest) = (self.iterations / SIZE as u64, self.iterations % SIZE as u64);
        let expected =
            rows.iter().sum::<u64>() * rounds + rows.iter().take(rest as usize).sum::<u64>();
        let of = self.iterations;
        vec![Proof::new(format!("rows of {of} products, one of each"), expected, self.sum)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways() -> Vec<Multiply> {
        #[allow(unused_mut)]
        let mut ways: Vec<Multiply> = vec![multiply];
        #[cfg(target_arch = "x86_64")]
        if x86::refusal().is_none() {
            ways.push(x86::multiply);
        }
        ways
    }

    #[test]
    fn every_element_is_the_sum_it_must_be() {
        for multiply in ways() {
            let (left, right) = (matrix(1), matrix(2));
            let mut product = [[0.0; SIZE]; SIZE];
            multiply(&left, &right, &mut product);
            for (row, found) in product.iter().enumerate() {
                for (column, found) in found.iter().enumerate() {
                    let expected: u32 = (0..SIZE)
                        .map(|inner| element(row, inner, 1) * element(inner, column, 2))
                        .sum();
                    assert_eq!(*found, expected as f32);
                }
            }
        }
    }

    #[test]
    fn every_product_counts_and_a_wrong_one_is_found() {
        for multiply in ways() {
            let mut work = Product::new(multiply);
            work.batch(0);
            work.batch(70);
            assert!(work.prove().iter().all(Proof::holds));
            work.iterations += 1;
            assert!(!work.prove().iter().any(Proof::holds));
            work.iterations -= 1;
            work.left[6][3] += 1.0;
            work.batch(1);
            assert!(!work.prove().iter().any(Proof::holds));
        }
    }
}

//! AES-128 by the steps of FIPS 197, for comparison.

use super::{BLOCK_BYTES, Keys, ROUNDS};

/// The product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1 (4.2).
fn product(mut left: u8, mut right: u8) -> u8 {
    let mut result = 0;
    while right != 0 {
        if right & 1 == 1 {
            result ^= left;
        }
        let carry = left & 0x80 != 0;
        left <<= 1;
        if carry {
            left ^= 0x1b;
        }
        right >>= 1;
    }
    result
}

/// SubBytes (5.1.1): the inverse in the field, then the affine map.
fn substitute(byte: u8) -> u8 {
    // The inverse is the 254th power; that of 0 is 0.
    let inverse = (0..253).fold(byte, |power, _| product(power, byte));
    let turned = (0..5).fold(0, |sum, turn| sum ^ inverse.rotate_left(turn));
    turned ^ 0x63
}

fn table() -> [u8; 256] {
    std::array::from_fn(|byte| substitute(byte as u8))
}

/// The key schedule (5.2).
pub fn expand(key: [u8; BLOCK_BYTES]) -> Keys {
    let table = table();
    let mut keys = [key; ROUNDS + 1];
    let mut constant = 1;
    for round in 1..=ROUNDS {
        let before = keys[round - 1];
        let mut word =
            [before[13], before[14], before[15], before[12]].map(|byte| table[usize::from(byte)]);
        word[0] ^= constant;
        constant = product(constant, 2);
        for (index, byte) in before.iter().enumerate() {
            let last = if index < 4 { word[index] } else { keys[round][index - 4] };
            keys[round][index] = byte ^ last;
        }
    }
    keys
}

/// The cipher (5.1).
pub fn encrypt(keys: &Keys, text: [u8; BLOCK_BYTES]) -> [u8; BLOCK_BYTES] {
    let table = table();
    let plus = |state: [u8; BLOCK_BYTES], key: &[u8; BLOCK_BYTES]| -> [u8; BLOCK_BYTES] {
        std::array::from_fn(|index| state[index] ^ key[index])
    };
    let mut state = plus(text, &keys[0]);
    for (round, key) in keys.iter().enumerate().skip(1) {
        // SubBytes and ShiftRows: row r of column c comes from column c + r.
        let shifted: [u8; BLOCK_BYTES] = std::array::from_fn(|index| {
            let from = (index + 4 * (index % 4)) % BLOCK_BYTES;
            table[usize::from(state[from])]
        });
        let mixed = if round == ROUNDS { shifted } else { mix(shifted) };
        state = plus(mixed, key);
    }
    state
}

/// MixColumns (5.1.3).
fn mix(state: [u8; BLOCK_BYTES]) -> [u8; BLOCK_BYTES] {
    std::array::from_fn(|index| {
        let (column, row) = (index - index % 4, index % 4);
        let byte = |offset: usize| state[column + (row + offset) % 4];
        product(byte(0), 2) ^ product(byte(1), 3) ^ byte(2) ^ byte(3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_and_the_table_are_those_of_the_standard() {
        assert_eq!(product(0x57, 0x13), 0xfe);
        assert_eq!([0x00, 0x01, 0x53, 0xff].map(substitute), [0x63, 0x7c, 0xed, 0x16]);
    }
}

//! Numbers in texts.

/// Without spaces around it.
pub(crate) fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

/// A decimal number with an optional sign.
pub(crate) fn signed(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(trimmed(bytes)).ok()?.parse().ok()
}

/// The same within 32 bits.
pub(crate) fn short(bytes: &[u8]) -> Option<i32> {
    i32::try_from(signed(bytes)?).ok()
}

/// A hexadecimal number, with or without `0x`.
pub(crate) fn hexadecimal(bytes: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(trimmed(bytes)).ok()?;
    i64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Seconds with 3 to 9 decimals as ns, and the ns of a step of the last decimal.
pub(crate) fn seconds(bytes: &[u8]) -> Option<(u64, u64)> {
    let point = bytes.iter().position(|byte| *byte == b'.')?;
    let (whole, decimals) = (bytes.get(..point)?, bytes.get(point + 1..)?);
    let all_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    if !all_digits(whole) || !all_digits(decimals) || !(3..=9).contains(&decimals.len()) {
        return None;
    }
    let number = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<u64>().ok();
    let step = 10_u64.pow(9 - decimals.len() as u32);
    let ns = number(whole)?.checked_mul(1_000_000_000)?.checked_add(number(decimals)? * step)?;
    // The reader's clock is signed.
    i64::try_from(ns).ok()?;
    Some((ns, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_ns_with_their_resolution() {
        assert_eq!(seconds(b"17.841763774"), Some((17_841_763_774, 1)));
        assert_eq!(seconds(b"17.841763"), Some((17_841_763_000, 1000)));
        for wrong in [&b"17"[..], b"17.", b".5", b"1.23x", b"99999999999.000000", b"1.0000000000"] {
            assert_eq!(seconds(wrong), None);
        }
    }

    #[test]
    fn numbers_have_signs_and_prefixes() {
        assert_eq!((signed(b" -1 "), signed(b"+2"), signed(b"x")), (Some(-1), Some(2), None));
        assert_eq!((hexadecimal(b"0x10f"), hexadecimal(b"10f")), (Some(0x10f), Some(0x10f)));
        assert_eq!(short(b"4294967295"), None);
    }
}

//! Decimal numbers of any locale.

/// Which character separates decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Decimal {
    #[default]
    Point,
    Comma,
}

/// A digit, a sign or a separator; other characters group digits.
fn is_kept(character: char, decimal: char) -> bool {
    character.is_ascii_digit() || character == decimal || matches!(character, '-' | '+')
}

impl Decimal {
    /// What a number shows: `None` if it fits both.
    pub(super) fn shown_by(cell: &str) -> Option<Self> {
        let (point, comma) = (cell.rfind('.'), cell.rfind(','));
        match (point, comma) {
            (Some(point), Some(comma)) => {
                Some(if point > comma { Self::Point } else { Self::Comma })
            }
            (Some(at), None) => one_kind(cell, at, '.').then_some(Self::Point),
            (None, Some(at)) => one_kind(cell, at, ',').then_some(Self::Comma),
            (None, None) => None,
        }
    }

    /// The number times 10 to the power of `decimals`, rounded to the nearest; `None` if it is none
    /// or does not fit.
    pub(super) fn scaled(self, cell: &str, decimals: u32) -> Option<i64> {
        let separator = if self == Self::Point { '.' } else { ',' };
        let plain: String = cell.chars().filter(|c| is_kept(*c, separator)).collect();
        if cell.chars().any(char::is_alphabetic) {
            return None;
        }
        let (sign, plain) = match plain.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, plain.as_str()),
        };
        let (whole, part) = plain.split_once(separator).unwrap_or((plain, ""));
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) {
            return None;
        }
        let mut value: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        for place in 0..decimals as usize {
            let digit = part.as_bytes().get(place).map_or(0, |byte| byte - b'0');
            value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
        }
        let next = part.as_bytes().get(decimals as usize);
        value += i128::from(next.is_some_and(|byte| *byte >= b'5'));
        i64::try_from(sign * value).ok()
    }
}

/// Whether a separator that is the only kind in a number separates decimals.
fn one_kind(cell: &str, last: usize, separator: char) -> bool {
    let is_only = cell.find(separator) == Some(last);
    let before = cell.get(..last).unwrap_or_default().trim().trim_start_matches('-');
    let behind = cell.get(last + 1..).unwrap_or_default().trim();
    // Digits are grouped by three, and no group follows a leading zero.
    is_only && (behind.len() != 3 || before.len() > 3 || before.is_empty() || before == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_differ_where_a_number_allows_it() {
        for (cell, wanted) in [
            ("0.123456789", Some(Decimal::Point)),
            ("0,123456789", Some(Decimal::Comma)),
            ("1,234.5", Some(Decimal::Point)),
            ("1.234,5", Some(Decimal::Comma)),
            ("1.234", None),
            ("1,234,567", None),
            ("17", None),
            ("0,125", Some(Decimal::Comma)),
        ] {
            assert_eq!(Decimal::shown_by(cell), wanted, "{cell}");
        }
    }

    #[test]
    fn numbers_of_every_locale_are_exact() {
        let ns = |decimal: Decimal, cell| decimal.scaled(cell, 9);
        assert_eq!(ns(Decimal::Point, "1,234.000000001"), Some(1_234_000_000_001));
        assert_eq!(ns(Decimal::Comma, "1.234,000000001"), Some(1_234_000_000_001));
        assert_eq!(ns(Decimal::Comma, "1\u{a0}234,5"), Some(1_234_500_000_000));
        assert_eq!(ns(Decimal::Point, "1'234.5"), Some(1_234_500_000_000));
        assert_eq!(ns(Decimal::Point, "-0.0000000016"), Some(-2));
        for wrong in ["", " ", "n/a", "1.2.3", "99999999999999999999", "-", "1e9"] {
            assert_eq!(ns(Decimal::Point, wrong), None, "{wrong}");
        }
    }
}

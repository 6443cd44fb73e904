//! The cells of a line of xperf: separated by commas, some in quotes.

/// Cells of a line without the spaces and the quotes around them.
pub(super) fn cells(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut in_quotes = false;
        let end = text.iter().position(|byte| {
            in_quotes ^= *byte == b'"';
            *byte == b',' && !in_quotes
        });
        rest = end.and_then(|end| text.get(end + 1..));
        let cell = text.get(..end.unwrap_or(text.len())).unwrap_or_default().trim_ascii();
        let inside = cell.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        Some(inside.unwrap_or(cell))
    })
}

#[cfg(test)]
mod tests {
    use super::cells;

    #[test]
    fn commas_in_quotes_do_not_separate() {
        let found: Vec<&[u8]> = cells(b"  T-Start,  12, \"a, b (1)\", x").collect();
        assert_eq!(found, [&b"T-Start"[..], b"12", b"a, b (1)", b"x"]);
    }
}

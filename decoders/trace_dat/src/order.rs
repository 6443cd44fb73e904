//! Pages whose times do not fit those around them: damage, or a clock that stepped.

/// The earliest and the latest time of a page.
pub(crate) type Span = (u64, u64);

/// Discarded records take a nanosecond each that they did not take.
const TOLERANCE_NS: u64 = 1_000_000;
/// Times further than this from the others count as damage (30 days in ns).
pub(crate) const FAR_NS: u64 = 30 * 86_400 * 1_000_000_000;

/// Indexes of the pages that must be left out so that the times of the others do not decrease; as
/// few pages as possible. Pages without a span have no records.
pub(crate) fn misfits(pages: &[Option<Span>], is_near: impl Fn(Span) -> bool) -> Vec<u32> {
    let mut reached = 0;
    let fits = pages.iter().flatten().all(|&(first, last)| {
        let fits = first.saturating_add(TOLERANCE_NS) >= reached
            && last >= first
            && is_near((first, last));
        reached = last;
        fits
    });
    if fits {
        return Vec::new();
    }
    // The longest sequence of pages: `ends` has, for each length, the page with the earliest end
    // that a sequence of this length may have, and `before` its page before that.
    let mut ends: Vec<(u64, u32)> = Vec::new();
    let mut before: Vec<Option<u32>> = vec![None; pages.len()];
    for (number, page) in pages.iter().enumerate() {
        let Some((first, last)) = *page else { continue };
        if last < first || !is_near((first, last)) {
            continue;
        }
        let length = ends.partition_point(|(end, _)| *end <= first.saturating_add(TOLERANCE_NS));
        before[number] = length.checked_sub(1).and_then(|at| ends.get(at)).map(|(_, page)| *page);
        match ends.get_mut(length) {
            Some(end) if end.0 <= last => {}
            Some(end) => *end = (last, number as u32),
            None => ends.push((last, number as u32)),
        }
    }
    let mut kept = vec![false; pages.len()];
    let mut at = ends.last().map(|(_, page)| *page);
    while let Some(page) = at {
        kept[page as usize] = true;
        at = before[page as usize];
    }
    let numbers = pages.iter().zip(kept).zip(0_u32..);
    numbers.filter(|((page, kept), _)| page.is_some() && !kept).map(|(_, number)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn found(pages: &[(u64, u64)]) -> Vec<u32> {
        let pages: Vec<_> =
            pages.iter().map(|(first, last)| Some((first * MS, last * MS))).collect();
        misfits(&pages, |(first, last)| last.max(first) < 1 << 50)
    }

    #[test]
    fn as_few_pages_as_possible_are_left_out() {
        assert_eq!(found(&[(0, 5), (5, 9), (9, 20)]), [0_u32; 0]);
        // One page too early, one too late, and one whose end is too late.
        assert_eq!(found(&[(5, 8), (10, 15), (2, 3), (20, 25)]), [2]);
        assert_eq!(found(&[(10, 15), (900, 905), (20, 25), (30, 35)]), [1]);
        assert_eq!(found(&[(10, 15), (16, 1 << 40), (20, 25), (30, 35)]), [1]);
        assert_eq!(found(&[(10, 15), (17, 16), (20, 25)]), [1]);
        // A clock that stepped back: its longer part is kept.
        assert_eq!(found(&[(50, 60), (70, 80), (10, 15), (16, 20), (21, 30)]), [0, 1]);
    }

    #[test]
    fn small_overlaps_and_pages_without_records_are_no_damage() {
        let pages = [Some((0, 10)), None, Some((5, 20))];
        assert_eq!(misfits(&pages, |_| true), [0_u32; 0]);
        assert_eq!(misfits(&pages, |_| false), [0, 2]);
    }
}

//! Which buffer the records of an event are taken from, if several have them.

use std::sync::Arc;

use schedlens_input::problem::Problems;

use crate::lane::{Lane, Wanted};
use crate::loss::{LostRecords, OTHER_BUFFER};
use crate::scan::Scanned;
use crate::window::Window;

/// Sets what each lane contributes, and adds the periods that no buffer covers. A tracepoint that
/// several buffers recorded on a CPU is read from the one that has most of it, since each has a
/// time of its own for the same event; from the others, it is read outside the time of that one.
///
/// `lanes`, `scans` and `windows` are by CPU.
pub(crate) fn select(
    lanes: &mut [Lane],
    (scans, windows): (&[Scanned], &[Option<Window>]),
    names: &[&str],
    gaps: &mut Vec<LostRecords>,
    problems: &mut Problems,
) {
    let mut start = 0;
    while let Some(cpu) = lanes.get(start).map(|lane| lane.cpu) {
        let end = start + lanes[start..].iter().take_while(|lane| lane.cpu == cpu).count();
        let range = start..end;
        of_cpu(
            &mut lanes[range.clone()],
            (&scans[range.clone()], &windows[range]),
            names,
            gaps,
            problems,
        );
        start = end;
    }
}

fn of_cpu(
    lanes: &mut [Lane],
    (scans, windows): (&[Scanned], &[Option<Window>]),
    names: &[&str],
    gaps: &mut Vec<LostRecords>,
    problems: &mut Problems,
) {
    // A file may list many lanes without records.
    for (lane, _) in lanes.iter_mut().zip(windows).filter(|(_, window)| window.is_some()) {
        lane.wanted = vec![Wanted::Never; names.len()];
    }
    let mut sharing: Vec<usize> = Vec::new();
    for (slot, name) in names.iter().enumerate() {
        let count = |at: usize| scans[at].counts.get(slot).copied().unwrap_or_default();
        let mut having: Vec<usize> = (0..lanes.len())
            .filter(|at| count(*at) > 0 && lanes[*at].is_usable && windows[*at].is_some())
            .collect();
        having.sort_by_key(|at| std::cmp::Reverse(count(*at)));
        let ranked: Arc<[Window]> = having.iter().filter_map(|at| windows[*at]).collect();
        for (rank, at) in having.iter().enumerate() {
            lanes[*at].wanted[slot] = match rank {
                0 => Wanted::Always,
                _ => Wanted::Outside(Arc::clone(&ranked), rank),
            };
        }
        if having.len() > 1 {
            problems.add(*name, "several buffers recorded it: each time is read from one of them");
            sharing.extend(having);
        }
    }
    sharing.sort_by_key(|at| windows[*at].map(|window| window.first));
    sharing.dedup();
    let mut reached: Option<u64> = None;
    for at in sharing {
        let Some(window) = windows[at] else { continue };
        if let Some(before) = reached.filter(|reached| *reached < window.first) {
            let (cpu, before, until) = (lanes[at].cpu, Some(before), Some(window.first));
            gaps.push(LostRecords { cpu, before, until, events: None, signalled_by: OTHER_BUFFER });
            lanes[at].after_gap.insert(0, 0);
        }
        reached = reached.max(Some(window.last));
    }
}

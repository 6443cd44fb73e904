/* What is selected: a slice, or a range of time. */

function clearSelection(tl) {
  tl.selection = null;
  tl.chain = null;
  tl.range = null;
  tl.touched = true;
  tl.details.replaceChildren();
  paintSoon(tl);
  noteView(tl);
}

/** Selects the slice of a row at a moment, or the next one where only shares are known. */
async function selectNear(tl, row, time) {
  const parts = tl.parts.get(row.kind) || [];
  const slice = sliceAt(parts, row.lane, time);
  if (slice && row.kind === 'cpu' && slice.key >= 0) { await selectSlice(tl, { utid: slice.key, cpu: row.lane, ...slice }); return; }
  if (slice && row.kind === 'thread') { await selectSlice(tl, { utid: row.lane, cpu: null, ...slice }); return; }
  if (slice && ['frame', 'mark', 'guest'].includes(row.kind)) { setRange(tl, slice.start_ns, slice.start_ns + slice.dur_ns); return; }
  if (parts.some((part) => part.shape === 'slices' && part.from <= time && part.to >= time)) {
    tl.selection = null;
    tl.chain = null;
    tl.details.replaceChildren(make('p', {}, `${row.label} at ${momentText(time)}: ${sharesAt(tl, row, placeOf(tl, time))}`));
    paintSoon(tl);
    return;
  }
  const where = row.kind === 'cpu' ? { cpu: row.lane } : row.kind === 'thread' ? { utid: row.lane } : null;
  const next = where ? await tl.source.neighbor(tl.trace, where, Math.round(time), 'next') : null;
  if (next) await selectSlice(tl, next);
  else notice(tl, tl.source.everySlice ? 'Nothing to select here.' : 'Only shares are in the report here. Open the recording with schedlens serve for every slice.');
}

/** Selects a slice and shows its details. */
async function selectSlice(tl, slice, quiet) {
  tl.range = null;
  tl.selection = { utid: slice.utid, cpu: slice.cpu ?? null, start_ns: slice.start_ns, dur_ns: slice.dur_ns };
  tl.chain = null;
  if (!quiet) tl.touched = true;
  paintSoon(tl);
  noteView(tl);
  const asked = tl.selection;
  const details = await tl.source.slice(tl.trace, slice.utid, slice.start_ns);
  if (tl.selection !== asked) return;
  if (details) {
    if (knownCpu(details)) tl.selection.cpu = details.cpu;
    else if (!/^running/.test(details.state ?? '')) tl.selection.cpu = null;
    // In order of time, with the slice itself at the end.
    const hops = (details.chain || []).filter((hop) => hop.time_ns < slice.start_ns).sort((x, y) => x.time_ns - y.time_ns);
    details.chain = [...hops, { utid: slice.utid, cpu: tl.selection.cpu, time_ns: slice.start_ns }];
    if (!knownCpu(details)) await addNextRun(tl, details);
    if (tl.selection !== asked) return;
    tl.chain = details.chain;
  }
  showDetails(tl, details || slice);
  const thread = tl.threads.get(slice.utid);
  say(`${thread?.name ?? 'thread'}: ${duration(slice.dur_ns)} from ${momentText(slice.start_ns)}${tl.selection.cpu === null ? '' : ` on CPU ${tl.selection.cpu}`}`);
  paintSoon(tl);
}

/** A thread that waits: what woke it and what it waited for belong to the slice that ends its wait. */
async function addNextRun(tl, details) {
  const next = await tl.source.neighbor(tl.trace, { utid: details.utid }, details.start_ns, 'next');
  const found = next && await tl.source.slice(tl.trace, details.utid, next.start_ns);
  if (!found || !knownCpu(found)) return;
  details.nextRun = found;
  const hops = (found.chain || []).filter((hop) => hop.time_ns < found.start_ns).sort((x, y) => x.time_ns - y.time_ns);
  details.chain = [...hops, { utid: details.utid, cpu: found.cpu, time_ns: found.start_ns }];
}

/** Goes to another slice: of the same thread or CPU, the waker, or what it woke. */
async function goTo(tl, what, along) {
  const from = tl.selection;
  if (!from || from.start_ns === undefined) { notice(tl, 'Select a slice first: click one, or press / to search.'); return; }
  const where = along === 'cpu' && from.cpu !== null ? { cpu: from.cpu } : { utid: from.utid };
  let at = from.start_ns;
  if (from.cpu === null && (what === 'waker' || what === 'woken')) {
    // A thread that waits was woken for its next slice.
    const run = await tl.source.neighbor(tl.trace, { utid: from.utid }, at, 'next');
    if (run) at = run.start_ns;
  }
  const next = await tl.source.neighbor(tl.trace, where, at, what);
  if (!next) { notice(tl, { waker: 'No wakeup is known for this slice.', woken: 'It woke no thread that is known.' }[what] || `There is no ${what} slice${tl.source.everySlice ? '' : ' in this report; schedlens serve has all'}.`); return; }
  await selectSlice(tl, next);
  bringIntoView(tl, next);
}

/** Moves the range so that a slice is visible, at the same scale. */
function bringIntoView(tl, slice) {
  const { from, to } = tl.view;
  const inside = slice.start_ns >= from && slice.start_ns + slice.dur_ns <= to;
  if (!inside) {
    const half = Math.max((to - from) / 2, slice.dur_ns);
    showRange(tl, slice.start_ns + slice.dur_ns / 2 - half, slice.start_ns + slice.dur_ns / 2 + half);
  }
  const row = tl.rows.find((one) => (one.kind === 'cpu' && one.lane === slice.cpu)) || tl.rows.find((one) => one.kind === 'thread' && one.lane === slice.utid);
  if (row) scrollToRow(tl, row);
}

/** `f`: the selected range or slice fills the width. */
function fitSelection(tl) {
  const chosen = tl.range || (tl.selection?.start_ns !== undefined ? { from: tl.selection.start_ns, to: tl.selection.start_ns + tl.selection.dur_ns } : null);
  if (!chosen) { showRange(tl, tl.overview.start_ns, tl.overview.end_ns); return; }
  const edge = tl.range ? 0.02 : 0.3;
  const length = Math.max(1, chosen.to - chosen.from);
  showRange(tl, chosen.from - length * edge, chosen.to + length * edge);
}

/** Selects a range; while it is dragged only its marks move. */
function setRange(tl, one, other, moving) {
  const inside = (ns) => Math.round(Math.min(Math.max(ns, tl.overview.start_ns), tl.overview.end_ns));
  const [from, to] = [inside(Math.min(one, other)), inside(Math.max(one, other))];
  if (to <= from) return;
  tl.selection = null;
  tl.chain = null;
  tl.range = { from, to };
  paintSoon(tl);
  if (moving) { tl.hint.textContent = `${duration(to - from)} selected`; return; }
  tl.touched = true;
  noteView(tl);
  working(tl, showRangeTotals(tl));
}

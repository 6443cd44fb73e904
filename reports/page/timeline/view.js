/* The visible range: zoom and pan, and the loading of what it shows. */

const SHORTEST_VIEW_NS = 20;
const LOAD_WAIT_MS = 60;

/** Shows a range; the length remains between 20 ns and the whole recording. */
function showRange(tl, from, to, quiet) {
  const { start_ns: first, end_ns: last } = tl.overview;
  const length = Math.min(last - first, Math.max(SHORTEST_VIEW_NS, to - from));
  const begin = Math.min(Math.max(from, first), last - length);
  tl.view = { from: begin, to: begin + length };
  if (!quiet) tl.touched = true;
  paintSoon(tl);
  loadSoon(tl);
  noteView(tl);
}

/** Zooms around a place on the screen. */
function zoomAround(tl, x, factor) {
  const fixed = momentAt(tl, x);
  showRange(tl, fixed - (fixed - tl.view.from) * factor, fixed + (tl.view.to - fixed) * factor);
}

function panBy(tl, share) {
  const step = (tl.view.to - tl.view.from) * share;
  showRange(tl, tl.view.from + step, tl.view.to + step);
}

/** Scrolls the lanes. */
function scrollLanes(tl, top) {
  tl.scroll = Math.max(0, Math.min(top, Math.max(0, tl.contentHeight + RULER_HEIGHT - tl.height)));
  paintSoon(tl);
  loadSoon(tl);
}

function paintSoon(tl) {
  if (tl.painting) return;
  tl.painting = true;
  requestAnimationFrame(() => {
    tl.painting = false;
    if (!tl.width || !tl.overview) return;
    placeLabels(tl);
    repaint(tl);
  });
}

/** Builds the rows again after a change of the lanes, the filter, or the order. */
function relayout(tl) {
  const { rows, height, pinnedHeight } = laneRows(tl);
  tl.rows = rows;
  tl.pinnedHeight = pinnedHeight;
  tl.contentHeight = height;
  tl.stale = true;
  fitHeight(tl);
  scrollLanes(tl, tl.scroll);
  noteView(tl);
}

/** As high as the lanes need, but never higher than most of the window. */
function fitHeight(tl) {
  tl.height = Math.round(Math.max(160, Math.min(tl.contentHeight + RULER_HEIGHT + 2, window.innerHeight * 0.56)));
  sizeLanes(tl);
}

function sizeLanes(tl) {
  tl.canvas.style.height = `${tl.height}px`;
  tl.labels.style.height = `${tl.height}px`;
}

function loadSoon(tl) {
  tl.element.dataset.state = 'loading';
  clearTimeout(tl.loading);
  tl.loading = setTimeout(() => loadVisible(tl), tl.source.everySlice ? LOAD_WAIT_MS : 0);
}

/** The kinds of lanes on the screen, with the ids of their lanes. */
function visibleKinds(tl) {
  const found = new Map();
  const add = (kind, id) => { if (!found.has(kind)) found.set(kind, new Set()); found.get(kind).add(id); };
  for (const row of tl.rows) {
    if (row.kind === 'head' || !isVisible(tl, row, 200)) continue;
    if (row.kind === 'counter') add(row.source, row.lane);
    else add(row.kind, row.lane);
    if (row.kind === 'cpu') {
      add('sibling', row.lane);
      if (tl.overview.has_parking) add('parked', row.lane);
    }
  }
  return found;
}

/** Asks for what is visible; an answer that a later question overtook is dropped. */
async function loadVisible(tl) {
  tl.asked += 1;
  const mine = tl.asked;
  const { from, to } = tl.view;
  const pad = tl.source.everySlice ? (to - from) / 2 : 0;
  const begin = Math.max(tl.overview.start_ns, Math.floor(from - pad));
  const end = Math.min(tl.overview.end_ns, Math.ceil(to + pad));
  const width = Math.round((tl.width * tl.ratio * (end - begin)) / Math.max(1, to - from));
  try {
    const kinds = [...visibleKinds(tl)];
    const answers = await Promise.all(kinds.map(([kind, ids]) => tl.source.lanes(tl.trace, kind, [...ids], begin, end, Math.max(1, width))));
    if (mine !== tl.asked) return;
    kinds.forEach(([kind], i) => { tl.parts.set(kind, answers[i]); });
    paintSoon(tl);
    await showLegend(tl);
    if (mine === tl.asked) tl.element.dataset.state = 'loaded';
  } catch (error) {
    if (mine !== tl.asked) return;
    tl.element.dataset.state = 'failed';
    notice(tl, `The timeline could not be read: ${error.message}`);
  }
}

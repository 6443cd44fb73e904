/* Mouse, wheel, pen, and fingers. */

const WHEEL_ZOOM = 1.0018;
const DRAG_LEAST = 4;

/** The row under a place, or undefined. */
function rowAt(tl, y) {
  if (y < RULER_HEIGHT) return undefined;
  const fixed = y < RULER_HEIGHT + pinnedBottom(tl);
  return tl.rows.find((row) => (!fixed || row.pinned) && y >= topOf(tl, row) && y < topOf(tl, row) + row.height);
}

function pointIn(tl, event) {
  const box = tl.canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function onWheel(tl, event) {
  event.preventDefault();
  const { x } = pointIn(tl, event);
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  if (event.shiftKey && !event.ctrlKey) { panBy(tl, ((event.deltaY || event.deltaX) * unit) / tl.width); return; }
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { panBy(tl, (event.deltaX * unit) / tl.width); return; }
  // A pinch on a touchpad arrives as a wheel with Ctrl.
  zoomAround(tl, x, WHEEL_ZOOM ** (event.deltaY * unit * (event.ctrlKey ? 4 : 1)));
}

/** The parts of a row that its picture shows in a range: every slice where a part has them. */
function shownParts(tl, kind, from, to) {
  const parts = tl.parts.get(kind) || [];
  const exact = parts.find((part) => part.shape === 'slices' && part.from <= from && part.to >= to);
  return exact ? [exact] : parts;
}

/** What a lane shows at a place, in words: its slice, or the share of each name. */
function sharesAt(tl, row, x) {
  if (row.kind === 'head') return '';
  const perPixel = (tl.view.to - tl.view.from) / tl.width;
  const from = momentAt(tl, Math.floor(x));
  if (row.kind === 'counter') return valueAt(tl, row, from, perPixel);
  const { palette, colorOf } = tl.palettes[row.kind];
  const sums = new Map();
  let whole = null;
  for (const part of shownParts(tl, row.kind, from, from + perPixel)) {
    eachRow(part, row.lane, from, from + perPixel, (start, stop, key, ns, i) => {
      const inside = (ns / (stop - start)) * (Math.min(stop, from + perPixel) - Math.max(start, from));
      const name = sliceName(tl, row, key, part, i) || palette[colorOf(key)]?.name || '';
      sums.set(name, (sums.get(name) || 0) + inside);
      if (part.shape === 'slices' && start <= from && stop >= from + perPixel) whole = `${name}, ${exactDuration(stop - start)} from ${momentText(start)}`;
    });
  }
  if (whole && row.kind !== 'process') return whole;
  const most = row.kind === 'process' ? perPixel * Math.max(1, tl.members.get(row.lane) || 1) : perPixel;
  const rest = most - [...sums.values()].reduce((sum, ns) => sum + ns, 0);
  if (row.kind === 'cpu' && rest > most / 200) sums.set(isParkedAt(tl, row, from) ? 'parked' : 'idle', rest);
  const sorted = [...sums].sort((one, other) => other[1] - one[1]).slice(0, 4);
  return sorted.map(([name, ns]) => `${name} ${grouped((100 * ns) / most, 0)} %`).join(', ') || 'nothing recorded';
}

function isParkedAt(tl, row, time) {
  let parked = false;
  for (const part of tl.parts.get('parked') || []) eachRow(part, row.lane, time, time + 1, () => { parked = true; });
  return parked;
}

function valueAt(tl, row, from, perPixel) {
  let text = 'unknown';
  for (const part of tl.parts.get(row.source) || []) {
    eachRow(part, row.lane, from, from + perPixel, (_start, _stop, _key, _ns, i) => { text = `${brief(part.columns.value[i])}${row.unit === 'per s' ? '/s' : ` ${row.unit || ''}`}`; });
  }
  return text;
}

function hover(tl, event) {
  const { x, y } = pointIn(tl, event);
  const row = rowAt(tl, y);
  const shown = row && row.kind !== 'head' ? `${row.label}, ${momentText(momentAt(tl, x))}: ${sharesAt(tl, row, x)}` : momentText(momentAt(tl, x));
  tl.hint.textContent = shown;
}

function momentText(ns) {
  return `${grouped(ns / 1e6, 6)} ms`;
}

async function clickAt(tl, x, y) {
  const row = rowAt(tl, y);
  if (!row || row.kind === 'head') { clearSelection(tl); return; }
  await selectNear(tl, row, momentAt(tl, x));
}

function listenToPointer(tl) {
  const { canvas } = tl;
  const fingers = new Map();
  let drag = null;
  const gap = () => { const [one, other] = [...fingers.values()]; return Math.max(10, Math.abs(one.x - other.x)); };
  const middle = () => { const places = [...fingers.values()]; return places.reduce((sum, one) => sum + one.x, 0) / places.length; };
  canvas.addEventListener('wheel', (event) => onWheel(tl, event), { passive: false });
  canvas.addEventListener('pointerdown', (event) => {
    const place = pointIn(tl, event);
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, place);
    const ranging = event.shiftKey || event.button === 2 || tl.measuring || place.y < RULER_HEIGHT;
    drag = { ...place, moved: false, ranging, view: { ...tl.view }, scroll: tl.scroll, gap: fingers.size === 2 ? gap() : null, begin: momentAt(tl, middle()) };
  });
  canvas.addEventListener('pointermove', (event) => {
    const place = pointIn(tl, event);
    if (!fingers.has(event.pointerId) || !drag) { hover(tl, event); return; }
    fingers.set(event.pointerId, place);
    if (fingers.size === 2) {
      // What was between the fingers remains there, also when both move to a side.
      drag.moved = true;
      const length = ((drag.view.to - drag.view.from) * drag.gap) / gap();
      const from = drag.begin - (middle() / tl.width) * length;
      showRange(tl, from, from + length);
      return;
    }
    if (Math.hypot(place.x - drag.x, place.y - drag.y) > DRAG_LEAST) drag.moved = true;
    if (!drag.moved) return;
    if (drag.ranging) { setRange(tl, drag.begin, momentAt(tl, place.x), true); return; }
    const moved = ((place.x - drag.x) / tl.width) * (drag.view.to - drag.view.from);
    showRange(tl, drag.view.from - moved, drag.view.to - moved);
    scrollLanes(tl, drag.scroll - (place.y - drag.y));
  });
  const up = (event) => {
    const place = pointIn(tl, event);
    fingers.delete(event.pointerId);
    if (!drag || fingers.size) return;
    const ended = drag;
    drag = null;
    if (event.type === 'pointercancel') return;
    if (!ended.moved) { canvas.focus({ preventScroll: true }); working(tl, clickAt(tl, place.x, place.y)); } else if (ended.ranging) { tl.measuring = false; setRange(tl, ended.begin, momentAt(tl, place.x)); }
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
  canvas.addEventListener('contextmenu', (event) => event.preventDefault());
  canvas.addEventListener('dblclick', (event) => zoomAround(tl, pointIn(tl, event).x, 0.25));
  tl.labels.addEventListener('wheel', (event) => { event.preventDefault(); scrollLanes(tl, tl.scroll + event.deltaY); }, { passive: false });
}

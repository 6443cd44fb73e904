/* Draws the visible lanes, the gaps, the selection, and the wakeup chain. */

const RULER_HEIGHT = 26;
const LABEL_WIDTH = 44;

/** A round step of the ruler for about one label per 120 pixels. */
function rulerStep(span, width) {
  const least = (span * 120) / width;
  const power = 10 ** Math.floor(Math.log10(least));
  return Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least));
}

function placeOf(tl, ns) {
  return ((ns - tl.view.from) / (tl.view.to - tl.view.from)) * tl.width;
}

function momentAt(tl, x) {
  return tl.view.from + (x / tl.width) * (tl.view.to - tl.view.from);
}

function drawRuler(tl, ctx) {
  const { from, to } = tl.view;
  const step = rulerStep(to - from, tl.width);
  ctx.fillStyle = colour('card');
  ctx.fillRect(0, 0, tl.width, RULER_HEIGHT);
  ctx.font = '11px system-ui, sans-serif';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = colour('teal');
  for (const [begin, end] of tl.source.detailed(tl.trace) || []) {
    const [x0, x1] = [Math.max(0, placeOf(tl, begin)), Math.min(tl.width, placeOf(tl, end))];
    if (x1 > x0) ctx.fillRect(x0, RULER_HEIGHT - 3, Math.max(1, x1 - x0), 3);
  }
  const [unit, size] = TIME_UNITS.find(([, ns]) => step >= ns) || TIME_UNITS[3];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size)));
  for (let at = Math.ceil(from / step) * step; at < to; at += step) {
    const x = placeOf(tl, at);
    ctx.fillStyle = colour('mid');
    ctx.fillRect(Math.round(x), RULER_HEIGHT - 6, 1, 6);
    ctx.fillStyle = colour('soft');
    const text = `${grouped(at / size, digits)} ${unit}`;
    ctx.fillText(text, Math.min(x + 3, tl.width - ctx.measureText(text).width - 2), RULER_HEIGHT / 2 - 2);
  }
}

/** The sums of a row by pixel and color; parts that hold every slice replace the shares below. */
function rowSums(tl, row, colors, colorOf, pixels) {
  const sums = new Float64Array(pixels * colors);
  const parts = tl.parts.get(row.kind) || [];
  const perPixel = (tl.view.to - tl.view.from) / pixels;
  for (const part of parts) {
    if (part.shape === 'slices' && parts.length > 1) {
      const first = Math.max(0, Math.ceil((part.from - tl.view.from) / perPixel));
      const last = Math.min(pixels, Math.floor((part.to - tl.view.from) / perPixel));
      if (last <= first) continue;
      sums.fill(0, first * colors, last * colors);
      const inner = { from: tl.view.from + first * perPixel, to: tl.view.from + last * perPixel };
      const cut = { ...part, from: Math.max(part.from, inner.from), to: Math.min(part.to, inner.to) };
      addShares(sums, colors, cut, row.lane, tl.view, pixels, colorOf);
    } else addShares(sums, colors, part, row.lane, tl.view, pixels, colorOf);
  }
  return sums;
}

/** What is behind a CPU: idle, with the time in which it is parked hatched. */
function drawParked(tl, ctx, row, top) {
  ctx.fillStyle = tl.patterns.parked;
  for (const part of tl.parts.get('parked') || []) {
    eachRow(part, row.lane, tl.view.from, tl.view.to, (start, stop, _key, ns) => {
      const x = placeOf(tl, Math.max(start, tl.view.from));
      const width = Math.max(0.5, placeOf(tl, Math.min(stop, tl.view.to)) - x);
      const height = row.height * Math.min(1, ns / (stop - start));
      ctx.globalCompositeOperation = 'source-over';
      ctx.fillRect(x, top, width, Math.min(5, height));
    });
  }
}

/** Time in which a CPU and its sibling are both busy: a striped edge along the lane. */
function drawSiblings(tl, ctx, row, top) {
  const edge = 4;
  for (const part of tl.parts.get('sibling') || []) {
    ctx.fillStyle = tl.patterns.sibling;
    eachRow(part, row.lane, tl.view.from, tl.view.to, (start, stop, key, ns) => {
      if (key !== 1) return;
      const x = placeOf(tl, Math.max(start, tl.view.from));
      const width = placeOf(tl, Math.min(stop, tl.view.to)) - x;
      const share = Math.min(1, ns / (stop - start));
      ctx.globalAlpha = Math.max(0.15, share) * Math.min(1, Math.max(0.3, width));
      ctx.fillRect(x, top + row.height - edge, Math.max(1, width), edge);
    });
    ctx.globalAlpha = 1;
  }
}

/** Names in slices with space for them, and a line where one slice follows another. */
function drawNames(tl, ctx, row, top) {
  const perPixel = (tl.view.to - tl.view.from) / tl.width;
  for (const part of tl.parts.get(row.kind) || []) {
    // With more slices than pixels, hardly one is wide enough for a name.
    if (part.shape !== 'slices' || rowsIn(part, row.lane, tl.view.from, tl.view.to) > 4 * tl.width) continue;
    let drawn = 0;
    let before = Number.NaN;
    eachRow(part, row.lane, Math.max(part.from, tl.view.from), Math.min(part.to, tl.view.to), (start, stop, key, _ns, i) => {
      const follows = start === before;
      before = stop;
      if (stop - start < 4 * perPixel || drawn > 600) return;
      drawn += 1;
      const begin = Math.max(0, placeOf(tl, start));
      const end = Math.min(tl.width, placeOf(tl, stop));
      if (follows && start > tl.view.from) { ctx.fillStyle = colour('ink'); ctx.globalAlpha = 0.35; ctx.fillRect(Math.floor(begin), top, 1, row.height); ctx.globalAlpha = 1; }
      if (end - begin < LABEL_WIDTH || row.height < 15) return;
      const name = sliceName(tl, row, key, part, i);
      if (!name) return;
      const letters = Math.floor((end - begin - 8) / 6.2);
      // The color says that a thread runs, is ready, or waits: what a short name keeps is the rest.
      const short = name.length > letters ? name.replace(/^(running on an?|ready:|waiting:) /, '') : name;
      const text = short.length > letters ? `${short.slice(0, Math.max(1, letters - 1))}…` : short;
      const entry = tl.palettes[row.kind].palette[tl.palettes[row.kind].colorOf(key)];
      ctx.fillStyle = entry && 0.3 * entry.rgb[0] + 0.59 * entry.rgb[1] + 0.11 * entry.rgb[2] > 140 ? '#10151b' : '#ffffff';
      ctx.fillText(text, begin + 4, top + row.height / 2);
    });
  }
}

function sliceName(tl, row, key, part, i) {
  if (row.kind === 'cpu') return key >= 0 ? tl.threads.get(key)?.name ?? `thread ${key}` : (CPU_CODES.find((code) => code.key === key) || CPU_CODES[1]).name;
  if (row.kind === 'thread' || row.kind === 'process') return tl.overview.states.find((state) => state.key === key)?.name;
  if (row.kind === 'guest' && key) return `${part.columns.label[i]}: ${tl.palettes.guest.palette[key].name}`;
  if (part.columns.label) return part.columns.label[i];
  return part.columns.row ? String(part.columns.row[i]) : '';
}

/** Lost events: nothing is known there, so nothing but the hatching is drawn. */
function drawGaps(tl, ctx, row, top) {
  for (const gap of tl.overview.gaps) {
    if (row.kind === 'head' || (row.kind === 'cpu' && gap.cpu !== null && gap.cpu !== row.lane) || (row.kind !== 'cpu' && gap.cpu !== null)) continue;
    const start = gap.start_ns ?? tl.overview.start_ns;
    const stop = gap.end_ns ?? tl.overview.end_ns;
    if (stop < tl.view.from || start > tl.view.to) continue;
    const x = Math.max(0, placeOf(tl, start));
    ctx.fillStyle = tl.patterns.gap;
    ctx.fillRect(x, top, Math.max(2, Math.min(tl.width, placeOf(tl, stop)) - x), row.height);
  }
}

function drawCounter(tl, ctx, row, top) {
  const parts = tl.parts.get(row.source) || [];
  let most = 0;
  for (const part of parts) eachRow(part, row.lane, tl.view.from, tl.view.to, (_s, _e, _k, _n, i) => { most = Math.max(most, part.columns.maximum ? part.columns.maximum[i] : part.columns.value[i]); });
  if (!most) return;
  ctx.fillStyle = colour('purple');
  for (const part of parts) {
    eachRow(part, row.lane, tl.view.from, tl.view.to, (start, stop, _key, _ns, i) => {
      const x = Math.max(0, placeOf(tl, start));
      const width = Math.max(0.5, Math.min(tl.width, placeOf(tl, stop)) - x);
      const height = (part.columns.value[i] / most) * (row.height - 2);
      ctx.globalAlpha = 0.45;
      ctx.fillRect(x, top + row.height - height, width, height);
      ctx.globalAlpha = 1;
      ctx.fillRect(x, top + row.height - height, width, 1.5);
    });
  }
  const text = `at most ${brief(most)}${row.unit === 'per s' ? '/s' : ` ${row.unit || ''}`}`;
  ctx.globalAlpha = 0.8;
  ctx.fillStyle = colour('card');
  ctx.fillRect(2, top + 2, ctx.measureText(text).width + 6, 13);
  ctx.globalAlpha = 1;
  ctx.fillStyle = colour('ink');
  ctx.fillText(text, 5, top + 9);
}

function drawRow(tl, ctx, row, top) {
  if (row.kind === 'head') { ctx.fillStyle = colour('code'); ctx.fillRect(0, top, tl.width, row.height); return; }
  if (row.kind === 'counter') { drawCounter(tl, ctx, row, top); return; }
  const { palette, colorOf } = tl.palettes[row.kind];
  const pixels = Math.round(tl.width * tl.ratio);
  const height = Math.round(row.height * tl.ratio);
  const background = paletteEntry(row.kind === 'cpu' ? 'pale' : 'card', null, false);
  const sums = rowSums(tl, row, palette.length, colorOf, pixels);
  const image = ctx.createImageData(pixels, height);
  let perPixel = (tl.view.to - tl.view.from) / pixels;
  if (row.kind === 'process') perPixel *= Math.max(1, tl.members.get(row.lane) || 1);
  paintShares(image, sums, palette, pixels, height, perPixel, background);
  ctx.putImageData(image, 0, Math.round(top * tl.ratio));
  if (row.kind === 'cpu') { drawParked(tl, ctx, row, top); drawSiblings(tl, ctx, row, top); }
  // The lane of a process is the sum of its threads: no single name applies.
  if (row.kind !== 'process') drawNames(tl, ctx, row, top);
  drawGaps(tl, ctx, row, top);
}

function hatchPattern(ctx, token, back, gap) {
  const tile = document.createElement('canvas');
  tile.width = gap;
  tile.height = gap;
  const pen = tile.getContext('2d');
  if (back) { pen.fillStyle = colour(back); pen.fillRect(0, 0, gap, gap); }
  pen.strokeStyle = colour(token);
  pen.lineWidth = 1.5;
  for (const shift of [-gap, 0, gap]) { pen.beginPath(); pen.moveTo(shift, gap); pen.lineTo(shift + gap, 0); pen.stroke(); }
  return ctx.createPattern(tile, 'repeat');
}

function repaint(tl) {
  const begun = performance.now();
  const { canvas } = tl;
  const ctx = canvas.getContext('2d', { willReadFrequently: false });
  const height = tl.height;
  if (canvas.width !== Math.round(tl.width * tl.ratio) || canvas.height !== Math.round(height * tl.ratio)) {
    canvas.width = Math.round(tl.width * tl.ratio);
    canvas.height = Math.round(height * tl.ratio);
  }
  ctx.setTransform(tl.ratio, 0, 0, tl.ratio, 0, 0);
  ctx.fillStyle = colour('card');
  ctx.fillRect(0, 0, tl.width, height);
  if (tl.theme !== document.documentElement.dataset.theme || tl.stale) {
    tl.theme = document.documentElement.dataset.theme;
    tl.stale = false;
    tl.palettes = lanePalettes(tl);
    tl.patterns = { gap: hatchPattern(ctx, 'red', 'card', 6), sibling: hatchPattern(ctx, 'ink', 'orange', 5), parked: hatchPattern(ctx, 'purple', 'card', 5) };
  }
  ctx.font = '11px system-ui, sans-serif';
  ctx.textBaseline = 'middle';
  const fixed = pinnedBottom(tl);
  for (const row of tl.rows) if (!(fixed && row.pinned) && isVisible(tl, row)) drawRow(tl, ctx, row, topOf(tl, row));
  if (fixed) {
    ctx.fillStyle = colour('card');
    ctx.fillRect(0, RULER_HEIGHT, tl.width, fixed);
    for (const row of tl.rows) if (row.pinned) drawRow(tl, ctx, row, topOf(tl, row));
    ctx.fillStyle = colour('mid');
    ctx.fillRect(0, RULER_HEIGHT + fixed - 1, tl.width, 1);
  }
  drawMarkers(tl, ctx, height);
  drawRuler(tl, ctx);
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn || 0) + 1);
  // The time of one repaint, for the test that no interaction takes longer than a reader notices.
  canvas.dataset.took = (performance.now() - begun).toFixed(1);
}

/** Findings, the selected range and slice, and the wakeup chain, over all lanes. */
function drawMarkers(tl, ctx, height) {
  const band = (from, to, token, opacity) => {
    const x = placeOf(tl, from);
    ctx.globalAlpha = opacity;
    ctx.fillStyle = colour(token);
    ctx.fillRect(x, RULER_HEIGHT, Math.max(1, placeOf(tl, to) - x), height);
    ctx.globalAlpha = 1;
  };
  if (tl.range) {
    band(tl.range.from, tl.range.to, 'accent', 0.14);
    for (const edge of [tl.range.from, tl.range.to]) { ctx.fillStyle = colour('accent'); ctx.fillRect(placeOf(tl, edge), RULER_HEIGHT, 1, height); }
  }
  const chosen = tl.selection;
  if (chosen && chosen.start_ns !== undefined) {
    const begin = placeOf(tl, chosen.start_ns);
    const end = placeOf(tl, chosen.start_ns + chosen.dur_ns);
    for (const row of tl.rows) {
      if (!((row.kind === 'cpu' && row.lane === chosen.cpu) || (row.kind === 'thread' && row.lane === chosen.utid))) continue;
      ctx.strokeStyle = colour('ink');
      ctx.lineWidth = 2;
      if (isVisible(tl, row)) ctx.strokeRect(begin, topOf(tl, row) + 1, Math.max(3, end - begin), row.height - 2);
    }
  }
  drawChain(tl, ctx);
}

/** Arrows from each waker to the thread it woke. */
function drawChain(tl, ctx) {
  const chain = tl.chain || [];
  const places = new Map();
  const middle = (id) => {
    if (!places.size) for (const row of tl.rows) places.set(row.id, topOf(tl, row) + row.height / 2);
    return places.get(id) ?? null;
  };
  // Between CPUs; threads that followed each other on one CPU are joined in their own lanes.
  const ends = (from, to) => {
    const threads = [middle(`thread-${from.utid}`), middle(`thread-${to.utid}`)];
    const cpus = [middle(`cpu-${from.cpu}`), middle(`cpu-${to.cpu}`)];
    const known = (pair) => !pair.includes(null);
    if (known(cpus) && (cpus[0] !== cpus[1] || !known(threads))) return cpus;
    return known(threads) ? threads : [cpus[0] ?? threads[0], cpus[1] ?? threads[1]];
  };
  ctx.strokeStyle = colour('ink');
  ctx.fillStyle = colour('ink');
  ctx.lineWidth = 1.5;
  for (let i = 1; i < chain.length; i += 1) {
    const [from, to] = chain[i - 1].time_ns <= chain[i].time_ns ? [chain[i - 1], chain[i]] : [chain[i], chain[i - 1]];
    const [y0, y1] = ends(from, to);
    if (y0 === null || y1 === null) continue;
    const [x0, x1] = [placeOf(tl, from.time_ns), placeOf(tl, to.time_ns)];
    const angle = Math.atan2(y1 - y0, x1 - x0);
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.lineTo(x1, y1);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    for (const turn of [-0.4, 0.4]) ctx.lineTo(x1 - 9 * Math.cos(angle + turn), y1 - 9 * Math.sin(angle + turn));
    ctx.fill();
  }
}

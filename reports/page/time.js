/* One time axis for all figures over the time of a recording: zooming one zooms all. */

const SHORTEST_NS = 2000;
const MOST_MARKS = 200;
// Fixed margins, so that a moment is at the same place in every figure.
const TIME_MARGIN = { l: 92, r: 14, t: 28, b: 40 };
const PRINT_NAMES = 121;
const PRINT_BELOW = 50;
const time = { from: 0, to: 1, range: [0, 1], marks: [], members: [], busy: false };

/** Adds a figure to the axis; `spec.plot` has from_ns and to_ns, `draw(range)` draws it. */
function joinTime(plot, spec, draw) {
  if (!time.members.length) Object.assign(time, { from: spec.plot.from_ns, to: spec.plot.to_ns, range: [spec.plot.from_ns, spec.plot.to_ns] });
  // All frame figures have the same marks.
  if (!time.marks.length) time.marks = spec.plot.marks || [];
  const member = { plot, draw: () => {
    time.busy = true;
    const done = draw(time.range);
    done.then(() => { time.busy = false; listenTo(plot); });
    return done;
  } };
  time.members.push(member);
  return member.draw;
}

function listenTo(plot) {
  if (plot.dataset.listening) return;
  plot.dataset.listening = 'yes';
  plot.on('plotly_relayout', (change) => {
    if (time.busy) return;
    if (change['xaxis.autorange']) zoomTo([time.from, time.to]);
    else if (change['xaxis.range[0]'] !== undefined) zoomTo([change['xaxis.range[0]'] * 1e6, change['xaxis.range[1]'] * 1e6]);
    else if (change['xaxis.range']) zoomTo(change['xaxis.range'].map((v) => v * 1e6));
  });
}

/** The range within the window of the figures, and at least as long as they can show. */
function insideTime([a, b]) {
  const length = Math.min(time.to - time.from, Math.max(SHORTEST_NS, b - a));
  const begin = Math.min(Math.max(a, time.from), time.to - length);
  return [begin, begin + length];
}

/** The figures follow the lanes, one after the other, so that the page remains responsive. */
function followLanes(range) {
  if (!time.members.length || !library) return;
  const wanted = insideTime(range);
  if (wanted.every((ns, i) => Math.abs(ns - time.range[i]) < 1)) return;
  time.range = wanted;
  const waiting = time.members.filter((member) => member.plot.dataset.state === 'drawn');
  const next = () => {
    if (time.range !== wanted || !waiting.length) return;
    waiting.shift().draw();
    setTimeout(next);
  };
  next();
}

/** Shows this range in the lanes and in every figure drawn so far; the others use it once they are drawn. */
function zoomTo(range) {
  time.range = insideTime(range);
  const [begin, end] = time.range;
  const length = end - begin;
  lanesFollow(begin, end);
  for (const member of time.members) if (member.plot.dataset.state === 'drawn') member.draw();
  say(`Time axis: ${duration(length)} starting at ${grouped(begin / 1e6, 3)} ms`);
}

/** The axis of a figure; if it is `above` another figure over time, only that one has a title. */
function timeAxis([a, b], above) {
  return { title: { text: above ? '' : 'time in the recording (ms)' }, range: [a / 1e6, b / 1e6], showgrid: false, zeroline: false, automargin: false };
}

function timeMargin(above) {
  const names = printing ? PRINT_NAMES : namesWidth();
  const below = printing ? PRINT_BELOW : TIME_MARGIN.b;
  return { ...TIME_MARGIN, l: Math.max(TIME_MARGIN.l, names), b: above ? 20 : below };
}

/** The stutters of the range as shaded bands, longest first. */
function stutterBands([a, b], opacity = 0.13) {
  const inside = time.marks.filter(([x, y]) => y > a && x < b);
  const chosen = inside.sort((x, y) => (y[1] - y[0]) - (x[1] - x[0])).slice(0, MOST_MARKS);
  return chosen.map(([x, y]) => ({
    type: 'rect', xref: 'x', yref: 'paper', x0: x / 1e6, x1: y / 1e6, y0: 0, y1: 1, layer: 'above',
    fillcolor: '@red', opacity, line: { width: 0 },
  }));
}

/** Buttons that move along the axis. */
function steering(hasStutters) {
  const middle = () => (time.range[0] + time.range[1]) / 2;
  const half = () => (time.range[1] - time.range[0]) / 2;
  const steer = (label, text, move) => make('button', { type: 'button', 'aria-label': text, title: text, onclick: () => { if (library) zoomTo(move()); } }, label);
  return make('div', { class: 'steer', role: 'group', 'aria-label': 'Move along the time axis of all figures' },
    steer('+', 'Zoom in', () => [middle() - half() / 2, middle() + half() / 2]),
    steer('−', 'Zoom out', () => [middle() - half() * 2, middle() + half() * 2]),
    steer('◀', 'Earlier', () => [time.range[0] - half(), time.range[1] - half()]),
    steer('▶', 'Later', () => [time.range[0] + half(), time.range[1] + half()]),
    steer('All', 'The whole window', () => [time.from, time.to]),
    hasStutters ? steer('Next stutter', 'Go to the next stutter', nextStutter) : null);
}

/** The range around the first stutter after the middle of the visible range, else the first one. */
function nextStutter() {
  const sorted = [...time.marks].sort((x, y) => x[0] - y[0]);
  const whole = time.range[1] - time.range[0] >= time.to - time.from;
  const middle = (time.range[0] + time.range[1]) / 2;
  const [a, b] = (whole ? null : sorted.find(([x, y]) => (x + y) / 2 > middle + 1)) || sorted[0];
  return [a - (b - a) * 1.5, b + (b - a) * 1.5];
}

/** Frames as steps over time, with stutters marked. */
function frameFigure(plot, spec, above) {
  const draw = joinTime(plot, spec, ([a, b]) => show(plot, spec.plot.data, {
    xaxis: timeAxis([a, b], above),
    yaxis: { title: { text: spec.plot.title }, rangemode: 'tozero', automargin: false, fixedrange: true, nticks: 4 },
    margin: timeMargin(above), shapes: stutterBands([a, b]), dragmode: 'zoom',
  }, spec.height));
  return { draw };
}

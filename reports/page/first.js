/* The first screen's pictures, as SVG elements: the verdict's plot and the moment of a finding. */

const MOMENT_WORDS = {
  own: 'this thread', same: 'same process', other: 'other programs', run: 'running', 'run-e': 'running on an E core',
  ready: 'ready', wait: 'waiting', interrupt: 'interrupt', unknown: 'unknown', frame: 'frame', late: 'stutter',
};
const MOMENT_WIDTH = 320;
const MOMENT_NAMES = 62;

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(document.getElementById('drawing').namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  element.append(...children.flat(Infinity).filter((child) => child !== null));
  return element;
}

/** A small picture of the moment of a finding; it is a link that opens the moment in the timeline. */
function momentPicture(moment) {
  const length = moment.to_ns - moment.from_ns;
  const lane = 15;
  const wide = MOMENT_WIDTH - MOMENT_NAMES;
  const height = moment.lanes.length * lane + 2;
  const used = new Set();
  const parts = moment.lanes.map((one, row) => [
    svg('text', { x: MOMENT_NAMES - 6, y: row * lane + 11, 'text-anchor': 'end' }, one.name),
    svg('rect', { class: 'm-lane', x: MOMENT_NAMES, y: row * lane + 1, width: wide, height: lane - 3 }),
    one.spans.map(([at, dur, key, bottom, share]) => {
      used.add(key);
      const tall = (lane - 3) * share;
      return svg('rect', {
        class: `m-${key}`, x: (MOMENT_NAMES + (wide * at) / length).toFixed(2), width: Math.max(0.3, (wide * dur) / length).toFixed(2),
        y: (row * lane + 1 + (lane - 3) * (1 - bottom) - tall).toFixed(2), height: tall.toFixed(2),
      });
    }),
  ]);
  const where = `${moment.said}${moment.recording ? ` of ${moment.recording}` : ''}`;
  return make('a', { class: 'moment', href: moment.href, 'aria-label': `Show this moment in the timeline: ${where}` },
    svg('svg', { viewBox: `0 0 ${MOMENT_WIDTH} ${height}`, 'aria-hidden': 'true' }, parts),
    make('span', { class: 'm-key' }, Object.keys(MOMENT_WORDS).filter((key) => used.has(key)).map((key) => make('span', {}, make('i', { class: `m-${key}` }), MOMENT_WORDS[key]))),
    make('span', { class: 'm-said' }, where));
}

const VERDICT_WIDTH = 460;
const VERDICT_HEIGHT = 170;

function curvePlot(plot) {
  const points = plot.lines.flatMap((line) => line.points);
  const most = Math.max(...points.map(([, y]) => y));
  const right = Math.max(...points.map(([x]) => x));
  const place = ([x, y]) => [40 + ((VERDICT_WIDTH - 50) * x) / right, VERDICT_HEIGHT - 22 - ((VERDICT_HEIGHT - 34) * y) / most];
  const counts = [...new Set(points.map(([x]) => x))].sort((a, b) => a - b);
  const each = Math.ceil(counts.length / 12);
  return [
    [0, most / 2, most].map((y) => [
      svg('line', { class: 'v-grid', x1: 40, x2: VERDICT_WIDTH - 8, y1: place([0, y])[1], y2: place([0, y])[1] }),
      svg('text', { x: 36, y: place([0, y])[1] + 4, 'text-anchor': 'end' }, grouped(y, y && most < 10 ? 1 : 0))]),
    counts.filter((_, i) => i % each === 0 || i === counts.length - 1).map((x) => svg('text', { x: place([x, 0])[0], y: VERDICT_HEIGHT - 6, 'text-anchor': 'middle' }, String(x))),
    plot.lines.map((line, i) => {
      const dots = line.points.map(place);
      return [svg('polyline', { class: `v-line v-${i % 4}`, points: dots.map((dot) => dot.map((v) => v.toFixed(1)).join(',')).join(' ') }),
        dots.map(([x, y]) => svg('circle', { class: `v-dot v-${i % 4}`, cx: x.toFixed(1), cy: y.toFixed(1), r: 2.5 }))];
    }),
  ];
}

function framesPlot(plot) {
  const start = plot.frames[0][0];
  const last = plot.frames[plot.frames.length - 1];
  const length = last[0] + last[1] - start;
  const most = Math.max(...plot.frames.map(([, dur]) => dur));
  const scale = (VERDICT_HEIGHT - 30) / most;
  return [
    [0, 0.5, 1].map((share) => [
      svg('line', { class: 'v-grid', x1: 40, x2: VERDICT_WIDTH - 8, y1: VERDICT_HEIGHT - 20 - most * share * scale, y2: VERDICT_HEIGHT - 20 - most * share * scale }),
      svg('text', { x: 36, y: VERDICT_HEIGHT - 16 - most * share * scale, 'text-anchor': 'end' }, grouped((most * share) / 1e6, 0))]),
    plot.frames.map(([at, dur, late]) => svg('rect', {
      class: late ? 'm-late' : 'm-frame', x: (40 + ((VERDICT_WIDTH - 50) * (at - start)) / length).toFixed(2), width: Math.max(0.8, ((VERDICT_WIDTH - 50) * dur) / length - 0.4).toFixed(2),
      y: (VERDICT_HEIGHT - 20 - dur * scale).toFixed(2), height: (dur * scale).toFixed(2) })),
    svg('text', { x: 40, y: VERDICT_HEIGHT - 4 }, `${grouped(start / 1e6, 0)} ms`),
    svg('text', { x: VERDICT_WIDTH - 8, y: VERDICT_HEIGHT - 4, 'text-anchor': 'end' }, `${grouped((start + length) / 1e6, 0)} ms`),
  ];
}

function sharesPlot(plot) {
  const every = plot.shares.reduce((sum, [, ns]) => sum + ns, 0);
  return make('ul', { class: 'v-shares' }, plot.shares.map(([name, ns]) => {
    const bar = make('i', { class: name === 'idle' ? 'm-wait' : 'm-own' });
    bar.style.width = `${(100 * ns) / every}%`;
    return make('li', {}, make('span', { class: 'name', title: name }, name), make('span', { class: 'track' }, bar), make('span', { class: 'said' }, `${grouped((100 * ns) / every, 1)} %`));
  }));
}

function verdictPlot(plot) {
  if (!plot || (plot.kind === 'frames' && !plot.frames.length)) return null;
  const drawn = plot.kind === 'shares' ? sharesPlot(plot)
    : svg('svg', { viewBox: `0 0 ${VERDICT_WIDTH} ${VERDICT_HEIGHT}`, role: 'img', 'aria-label': plot.title }, plot.kind === 'curve' ? curvePlot(plot) : framesPlot(plot));
  const key = plot.kind === 'curve' ? make('p', { class: 'm-key' }, plot.lines.map((line, i) => make('span', {}, make('i', { class: `v-swatch v-${i % 4}` }), line.name))) : null;
  return make('figure', { class: 'verdict-plot' }, make('figcaption', {}, plot.title), drawn, key);
}

/** The answer to the question of the session, with its plot, and what changed between recordings. */
function answerOf(found) {
  const said = found.verdict;
  if (!said?.lines.length) return null;
  const words = { sweep: 'How it scales', frames: 'Frames', experiment: 'What the experiment shows', time: 'Where the time went' };
  return make('div', { class: 'answer-first', 'data-kind': said.kind },
    make('div', {}, make('h3', {}, words[said.kind]), said.lines.map((line, i) => make('p', { class: i ? 'then-said' : 'lead-said' }, line))),
    verdictPlot(said.plot));
}

function pairsOf(found) {
  if (!found.pairs?.length) return null;
  const words = { better: 'better', worse: 'worse', same: 'no clear change' };
  return make('div', { class: 'pairs' }, make('h3', {}, 'Before and after'),
    make('ul', {}, found.pairs.map((pair) => make('li', {}, make('b', {}, `${pair.second} against ${pair.first}: ${words[pair.better]}. `),
      pair.numbers.filter(([, , , change], _, every) => change !== 'no clear change' || every.every((one) => one[3] === change)).map(([what, before, after, change]) => `${what === 'stutters' ? `${after} ${what}` : `${what} ${after}`} instead of ${before}${change ? ` (${change})` : ''}`).join(', '), '.'))),
    make('p', { class: 'window' }, prose('One recording each: `schedlens compare` states how sure a difference is.')));
}

/* The legend: colors with exact totals of the visible range. */

const MOST_LEGEND = 12;

function runningState(tl, name) {
  const state = tl.overview.states.find((one) => one.name === name || one.key === name);
  return state ? state.group === 'running' : String(name).startsWith('running');
}

/** Running time by process, and the time of threads by state, in descending order. */
function legendSums(tl, rows) {
  const running = new Map();
  const states = new Map();
  for (const row of rows) {
    const name = row.state ?? 'unknown';
    states.set(name, (states.get(name) || 0) + Number(row.ns));
    if (!runningState(tl, name)) continue;
    const thread = tl.threads.get(row.utid);
    const upid = thread ? thread.upid : null;
    running.set(upid, (running.get(upid) || 0) + Number(row.ns));
  }
  const falling = (sums) => [...sums].sort((x, y) => y[1] - x[1]);
  return { running: falling(running), states: falling(states) };
}

function swatch(entry) {
  const box = make('span', { class: 'lane-swatch', 'aria-hidden': 'true' });
  if (entry) {
    const angle = { rising: 135, falling: 45, cross: 90, dots: 0 }[entry.hatch];
    box.style.background = entry.hatch ? `repeating-linear-gradient(${angle}deg, ${entry.lineCss} 0 2px, ${entry.css} 2px 6px)` : entry.css;
  }
  return box;
}

/** Says where the report has only shares; null ranges mean that every slice is there. */
function showDetail(tl) {
  if (tl.source.everySlice) return;
  const ranges = tl.source.detailed(tl.trace);
  const { from, to } = tl.view;
  const all = ranges === null || ranges.some(([begin, end]) => begin <= Math.round(from) && end >= Math.round(to));
  const serve = ['open with ', make('code', {}, 'schedlens serve'), ' for every slice.'];
  tl.outside.replaceChildren(...(ranges === null ? ['The report contains every slice of this recording.']
    : all ? ['Every slice of this range is in the report.']
      : [ranges.some(([begin, end]) => begin < to && end > from) ? 'Only below the line in the ruler are slices; the rest of this range shows exact shares: ' : 'This range shows exact shares: ', ...serve]));
}

/** Asks for the totals of the visible range and shows them. */
async function showLegend(tl) {
  const from = Math.round(tl.view.from);
  const to = Math.max(from + 1, Math.round(tl.view.to));
  const mine = tl.asked;
  const totals = await tl.source.totals(tl.trace, from, to);
  if (mine !== tl.asked) return;
  const { running, states } = legendSums(tl, totals.rows);
  const names = new Map(tl.overview.processes.map((process) => [process.upid, process.name]));
  const { palette, colorOf } = tl.palettes.cpu || lanePalettes(tl).cpu;
  const thread = new Map(tl.overview.threads.map((one) => [one.upid, one.utid]));
  const item = (entry, name, ns) => make('li', { title: `${name}: ${grouped(ns, 0)} ns`, 'data-ns': ns }, swatch(entry), make('span', { class: 'name' }, name), make('span', { class: 'said' }, duration(ns)));
  const byState = tl.overview.states;
  const entries = tl.palettes.thread?.palette || [];
  const whole = totals.from === from && totals.to === to;
  tl.legend.replaceChildren(
    make('p', { class: 'window' }, `Totals of ${duration(totals.to - totals.from)} from ${momentText(totals.from)}${whole ? '' : ', in whole columns of the report'}${running.length > MOST_LEGEND ? `; the ${MOST_LEGEND} largest of ${running.length} processes` : ''}`),
    make('ul', { 'aria-label': 'Running time by process' }, running.slice(0, MOST_LEGEND).map(([upid, ns]) => item(palette[colorOf(thread.get(upid))], names.get(upid) ?? 'no process', ns))),
    make('ul', { 'aria-label': 'Time of threads by state' }, states.map(([name, ns]) => item(entries[byState.findIndex((state) => state.name === name || state.key === name)], String(name), ns))),
    make('ul', { 'aria-label': 'Marks on the lanes' },
      make('li', {}, make('span', { class: 'lane-swatch of-sibling' }), 'CPU and sibling both busy'),
      tl.overview.has_parking ? make('li', {}, make('span', { class: 'lane-swatch of-parked' }), 'parked') : null,
      tl.overview.gaps.length ? make('li', {}, make('span', { class: 'lane-swatch of-gap' }), 'events were lost') : null,
      tl.source.detailed(tl.trace) === null ? null : make('li', {}, make('span', { class: 'lane-swatch of-slices' }), 'every slice is in the report'),
      CPU_CODES.slice(0, 3).map((code, i) => make('li', {}, swatch(palette[i]), code.name))),
  );
  showDetail(tl);
  tl.legend.dataset.from = String(totals.from);
  tl.legend.dataset.to = String(totals.to);
}

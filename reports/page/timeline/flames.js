/* Flame graphs of the selected range: of all threads, or of one. */

const FLAME_KINDS = {
  samples: { name: 'On-CPU', unit: 'samples', size: 1, says: 'What ran' },
  waiting: { name: 'Off-CPU', unit: 'ms', size: 1e6, says: 'Where threads waited' },
  ready: { name: 'Ready', unit: 'ms', size: 1e6, says: 'Where threads lost their CPU or were about to run' },
  wakeups: { name: 'Wakers', unit: 'wakeups', size: 1, says: 'Who woke threads' },
};
const NO_WAKER = 'interrupt on an idle CPU, or unknown';
const ELSEWHERE = ['[in schedlens serve]'];

/** The functions of a stack of the report from the outermost inwards; null if none was recorded. */
function embeddedStack(overview, id) {
  if (id === null || Number.isNaN(id)) return null;
  const { names, of } = overview.stacks || { of: {} };
  const frames = of[String(id)];
  return frames ? frames.map((place) => names[place]).reverse() : ELSEWHERE;
}

/** Calls `visit` with the time a thread spent in a state of a group, and the stack with which it left its CPU. */
function eachTimeOff(overview, { thread, fact }, lane, [from, to], group, visit) {
  const groups = new Map(overview.states.map((state) => [state.key, state.group]));
  const ends = new Map();
  eachRow(fact, lane, fact.from, to, (start, _stop, _key, _ns, i) => ends.set(start + fact.columns.dur_ns[i], fact.columns.left_stack[i]));
  let left = null;
  eachRow(thread, lane, thread.from, to, (start, _stop, key, _ns, i) => {
    const stop = start + thread.columns.dur_ns[i];
    const found = groups.get(key);
    if (found !== 'waiting' && found !== 'ready') { left = stop; return; }
    const ns = Math.min(stop, to) - Math.max(start, from);
    if (found !== group || ns <= 0) return;
    // Before the slices of the report, it is not known here when the thread ran.
    const isEarlier = left === null && thread.from > overview.start_ns;
    visit(ns, isEarlier ? ELSEWHERE : embeddedStack(overview, ends.get(left) ?? null));
  });
}

/** The stacks of a range, from the report; null where it does not contain every slice. */
function embeddedFlame(overview, parts, [from, to], kind, utid) {
  const whole = (name) => parts[name].find((part) => part.from <= from && part.to >= to);
  const found = { thread: whole('thread'), fact: whole('fact') };
  if (!found.thread || !found.fact?.columns.left_stack) return null;
  const names = new Map(overview.threads.map((one) => [one.utid, one.name ?? 'unknown']));
  const sums = new Map();
  const add = (name, functions, weight) => {
    const key = JSON.stringify([name, functions]);
    if (!sums.has(key)) sums.set(key, [name, functions, 0]);
    sums.get(key)[2] += weight;
  };
  const lanesOf = (part) => (part ? [...part.lanes.keys()] : []).filter((lane) => utid === null || lane === utid);
  if (kind === 'samples') {
    const sampled = whole('sampled');
    // Samples at the end of the range belong to it, as in the query.
    for (const lane of lanesOf(sampled)) eachRow(sampled, lane, from, to + 1, (start, _stop, _key, _ns, i) => { if (start >= from) add(names.get(lane) ?? 'unknown', embeddedStack(overview, sampled.columns.stack_id[i]), 1); });
  } else if (kind === 'wakeups') {
    const { fact } = found;
    const { ready_ns: ready, waker, interrupt, waker_stack: stack } = fact.columns;
    for (const lane of lanesOf(fact)) eachRow(fact, lane, from, fact.to, (start, _stop, _key, _ns, i) => {
      const woken = start - ready[i];
      if (Number.isNaN(waker[i]) && Number.isNaN(interrupt[i])) return;
      if (woken >= from && woken <= to) add(names.get(waker[i]) ?? NO_WAKER, embeddedStack(overview, stack[i]), 1);
    });
  } else for (const lane of lanesOf(found.thread)) eachTimeOff(overview, found, lane, [from, to], kind, (ns, functions) => add(names.get(lane) ?? 'unknown', functions, ns));
  return { rows: [...sums.values()].sort((x, y) => y[2] - x[2]), rest: 0 };
}

/** The tools below the totals of a range: a button for each kind of stacks, and a choice of the thread. */
function flameTools(tl, totals) {
  if (!tl.overview.has_stacks) return null;
  const kinds = Object.keys(FLAME_KINDS).filter((kind) => kind !== 'samples' || tl.overview.has_samples);
  const place = make('div', { class: 'lane-flame' });
  const seen = [...new Set(totals.map((row) => row.utid))].filter((utid) => tl.threads.has(utid)).slice(0, MOST_TABLE_ROWS);
  const label = (utid) => whoText({ thread: tl.threads.get(utid).name, tid: tl.threads.get(utid).tid });
  let utid = null;
  const thread = choice('Threads', [['', 'all threads'], ...seen.map((one) => [String(one), label(one)])], '', (value) => { utid = seen.find((one) => String(one) === value) ?? null; });
  const asked = tl.range;
  const open = (kind) => working(tl, showFlame(tl, place, asked, kind, utid, utid === null ? 'all threads' : label(utid)));
  return make('div', {}, make('div', { class: 'lane-tools lane-flames' }, 'Flame graph: ', kinds.map((kind) => make('button', { type: 'button', 'data-kind': kind, onclick: () => open(kind) }, FLAME_KINDS[kind].name)), thread), place);
}

async function showFlame(tl, place, { from, to }, kind, utid, who) {
  const found = await tl.source.flame(tl.trace, from, to, kind, utid);
  if (!found) { place.replaceChildren(make('p', { class: 'window' }, 'Only shares are in the report here. Open the recording with schedlens serve for its stacks.')); return; }
  const { unit, size, says } = FLAME_KINDS[kind];
  const total = found.rows.reduce((sum, row) => sum + row[2], found.rest) / size;
  const caption = `${says} in ${duration(to - from)} from ${momentText(from)}, ${who}: ${grouped(total, unit === 'ms' ? 3 : 0)} ${unit}.`;
  place.dataset.kind = kind;
  if (!found.rows.length) { place.replaceChildren(make('p', { class: 'window' }, caption)); return; }
  const { plot, height } = icicleOf(found, unit, size);
  const element = make('div', { class: 'plot', role: 'img', 'aria-label': caption });
  element.style.minHeight = `${height}px`;
  const drawer = searchedIcicle(element, { plot, height });
  place.replaceChildren(make('p', { class: 'window' }, caption, ' Click a function to enlarge it. ', found.sql ? copyButton('Copy as SQL', 'SQL of the flame graph', () => `${found.sql};`) : null), drawer.before, element);
  if (!tl.flame) { tl.flame = {}; figures.push(tl.flame); }
  // A panel that shows something else by now is not drawn again.
  Object.assign(tl.flame, { plot: element, near: true, state: 'waiting', draw: () => (element.isConnected ? drawer.draw() : null) });
  drawFigure(tl.flame);
}

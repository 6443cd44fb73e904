/* The panel below the lanes: a slice, the totals of a range, or the table behind a lane. */

const DETAIL_NAMES = {
  thread: 'Thread', process: 'Process', cpu: 'CPU', core_type: 'Core type', start_ns: 'Start', dur_ns: 'Duration', priority: 'Priority',
  state: 'State', end_reason: 'Ended because', ready_ns: 'Ready before it', wait_ns: 'Waited before it', obstacle: 'Obstacle', ready: 'Ready time by obstacle', waker: 'Woken by', waker_cpu: 'Waker on CPU',
  from_interrupt: 'Woken from an interrupt', ahead: 'Ran on the CPU it waited for', sibling: 'Sibling ran', frequency_khz: 'Frequency', counters: 'Counters',
};
const MOST_TABLE_ROWS = 500;

function detailText(name, value) {
  if (value === null || value === undefined) return 'unknown';
  if (Array.isArray(value)) return value.length ? value.map((one) => detailText('', one)).join('; ') : 'none';
  if (typeof value === 'object' && value.counter) return `${value.counter} ${grouped(value.delta, 0)}`;
  if (typeof value === 'object') return Object.entries(value).filter(([key]) => key !== 'sql' && !/utid$/.test(key)).map(([key, one]) => (/^(name|thread)$/.test(key) ? String(one) : `${key.replace(/_ns$|_khz$/, '').replaceAll('_', ' ')} ${detailText(key, one)}`)).join(', ');
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') {
    if (name === 'start_ns' || name === 'time_ns') return momentText(value);
    if (/_ns$/.test(name)) return `${duration(value)}`;
    if (/_khz$/.test(name)) return `${grouped(value / 1e3, 0)} MHz`;
  }
  return String(value);
}

function detailPairs(details) {
  const skip = new Set(['chain', 'sql', 'utid', 'trace_id', 'row']);
  return Object.entries(details).filter(([name, value]) => !skip.has(name) && !(typeof value === 'object' && value?.columns))
    .map(([name, value]) => [DETAIL_NAMES[name] || name.replace(/_ns$|_khz$/, '').replaceAll('_', ' '), detailText(name, value)]);
}

/** The SQL behind a slice: what the source names for it, or the row itself. */
function sliceSql(tl, details) {
  const own = `SELECT * FROM sched_slice WHERE trace_id = ${tl.trace} AND utid = ${details.utid} AND ts <= ${details.start_ns} AND ts + dur > ${details.start_ns}`;
  const named = typeof details.sql === 'string' ? { slice: details.sql } : details.sql || {};
  const all = Object.entries(named).map(([name, sql]) => `-- ${name}\n${sql};`);
  return all.length ? all.join('\n\n') : `${own};`;
}

function markdownOf(names, rows) {
  const cell = (value) => String(value ?? '').replaceAll('|', '\\|').replace(/\s+/g, ' ');
  return [names, names.map(() => '---'), ...rows].map((row) => `| ${row.map(cell).join(' | ')} |`).join('\n');
}

function showDetails(tl, details) {
  const pairs = detailPairs(details);
  const name = details.thread ?? tl.threads.get(details.utid)?.name ?? 'thread';
  tl.details.replaceChildren(
    make('h4', {}, typeof name === 'object' ? detailText('', name) : name),
    make('dl', { class: 'slice-facts' }, pairs.map(([label, text]) => make('div', {}, make('dt', {}, label), make('dd', {}, text)))),
    make('div', { class: 'lane-tools' },
      copyButton('Copy as SQL', 'SQL of the slice', () => sliceSql(tl, details)),
      copyButton('Copy as Markdown', 'slice', () => markdownOf(['Fact', 'Value'], pairs)),
      make('button', { type: 'button', onclick: () => working(tl, showWorstWaits(tl, details.utid)) }, 'Worst waits of this thread')),
    details.chain?.length > 1 ? make('p', { class: 'chain' }, 'Wakeup chain: ', details.chain.map((step) => `${tl.threads.get(step.utid)?.name ?? 'interrupt'} (CPU ${step.cpu ?? 'unknown'}, ${momentText(step.time_ns)})`).join(' → ')) : null,
  );
}

/** A plain table with its copy button; `goes` makes the rows links into the timeline. */
function panelTable(title, names, rows, goes) {
  const shown = rows.slice(0, MOST_TABLE_ROWS);
  const left = rows.length - shown.length;
  return [
    make('h4', {}, title),
    make('div', { class: 'lane-tools' }, copyButton('Copy as Markdown', title, () => markdownOf(names, rows))),
    make('div', { class: 'lane-table', tabindex: 0, role: 'region', 'aria-label': title }, make('table', {},
      make('thead', {}, make('tr', {}, names.map((name) => make('th', { scope: 'col' }, name)))),
      make('tbody', {}, shown.map((row, i) => make('tr', {}, row.map((value, at) => make('td', { class: typeof value === 'number' ? 'number' : null },
        goes && at === 0 ? make('button', { type: 'button', class: 'go', onclick: () => goes(i) }, String(value)) : typeof value === 'number' ? grouped(value, 0) : value ?? ''))))))),
    left > 0 ? make('p', { class: 'window' }, `${grouped(left, 0)} more rows are in the copy.`) : null,
  ];
}

async function showWorstWaits(tl, utid) {
  const found = await tl.source.worstWaits(tl.trace, utid);
  const waits = Array.isArray(found) ? found : found?.waits || found?.rows || [];
  if (!waits.length) { notice(tl, `No waits of this thread ${tl.source.everySlice ? 'were recorded' : 'are in this report; schedlens serve has all'}.`); return; }
  const rows = waits.map((wait) => [momentText(wait.start_ns), wait.state ?? wait.kind ?? '', wait.obstacle ?? wait.reason ?? '', Math.round(wait.dur_ns)]);
  tl.details.replaceChildren(...panelTable(`Worst waits of ${tl.threads.get(utid)?.name ?? 'the thread'}`, ['Start', 'State', 'Why', 'Length (ns)'], rows, (i) => {
    tl.range = { from: waits[i].start_ns, to: waits[i].start_ns + waits[i].dur_ns };
    fitSelection(tl);
  }).filter(Boolean));
}

async function showRangeTotals(tl) {
  const asked = tl.range;
  const totals = await tl.source.totals(tl.trace, asked.from, asked.to);
  if (tl.range !== asked) return;
  const rows = totals.rows.map((row) => [row.thread ?? 'unknown', row.process ?? '', row.state ?? '', row.core_type ?? '', Number(row.ns), row.slices === null || row.slices === undefined ? '' : Number(row.slices)]);
  const same = totals.from === asked.from && totals.to === asked.to;
  const title = `${duration(totals.to - totals.from)} from ${momentText(totals.from)}${same ? '' : ' (whole columns of the report around the range)'}`;
  tl.details.replaceChildren(...panelTable(`Totals of ${title}`, ['Thread', 'Process', 'State', 'Core type', 'Time (ns)', 'Slices'], rows).filter(Boolean));
  tl.details.dataset.from = String(totals.from);
  tl.details.dataset.to = String(totals.to);
  say(`${duration(asked.to - asked.from)} selected: ${rows.length} totals`);
}

/** The table behind a lane: its slices in the visible range, or its time by column. */
function showLaneTable(tl, row) {
  if (row.kind === 'counter') { showCounterTable(tl, row); return; }
  const rows = [];
  const { palette, colorOf } = tl.palettes[row.kind];
  let shares = false;
  for (const part of tl.parts.get(row.kind) || []) {
    shares = shares || part.shape === 'shares';
    eachRow(part, row.lane, tl.view.from, tl.view.to, (start, stop, key, ns, i) => rows.push([momentText(start), sliceName(tl, row, key, part, i) || palette[colorOf(key)]?.name || '', Math.round(ns), Math.round(stop - start)]));
  }
  tl.details.replaceChildren(...panelTable(`${row.label}: ${shares ? 'time in each column' : 'every slice'} of ${duration(tl.view.to - tl.view.from)}`, ['Start', 'What', 'Time (ns)', shares ? 'Column (ns)' : 'Length (ns)'], rows).filter(Boolean));
}

function showCounterTable(tl, row) {
  const rows = [];
  for (const part of tl.parts.get(row.source) || []) {
    eachRow(part, row.lane, tl.view.from, tl.view.to, (start, stop, _key, _ns, i) => rows.push([momentText(start), Math.round(stop - start), grouped(part.columns.value[i], 3)]));
  }
  tl.details.replaceChildren(...panelTable(`${row.label} (${row.unit || 'value'})`, ['Start', 'Length (ns)', 'Value'], rows).filter(Boolean));
}

/* The panel below the lanes: a slice, the totals of a range, or the table behind a lane. */

const MOST_TABLE_ROWS = 500;

/** A thread as it is written everywhere: its name and number. */
function whoText(one) {
  if (one === null || one === undefined) return 'unknown';
  if (typeof one === 'string') return one;
  return typeof one.tid === 'number' ? `${one.thread ?? 'unknown'} (${one.tid})` : one.thread ?? 'unknown';
}

/** A list in words: unknown is not the same as none. */
function listText(list, write) {
  if (list === null || list === undefined) return 'unknown';
  return list.length ? list.map((one) => (typeof one === 'string' ? one : write(one))).join('; ') : 'none';
}

function knownText(value, write = String) {
  return value === null || value === undefined ? 'unknown' : write(value);
}

/** Queries spell reasons with underscores, people do not. */
function plainWords(text) {
  return String(text).replaceAll('_', ' ');
}

/** A thread that never waited before a slice was not woken for it. */
function wasWoken(details) {
  return Boolean(details.waker) || details.wait_ns !== 0;
}

const OWN_FACTS = [
  ['Thread', (d) => whoText(typeof d.tid === 'number' ? d : d.thread)],
  ['Process', (d) => (d.process && typeof d.pid === 'number' ? `${d.process} (${d.pid})` : knownText(d.process))],
  ['State', (d) => plainWords(d.reason ? `${d.state}: ${d.reason}` : d.state ?? 'unknown')],
  ['Start', (d) => momentText(d.start_ns)],
  ['Duration', (d) => exactDuration(d.dur_ns)],
];
const RUN_FACTS = [
  ['CPU', (d) => knownText(d.cpu)],
  ['Core type', (d) => ({ U: 'all the same' }[d.core_type] ?? knownText(d.core_type))],
  ['Priority', (d) => knownText(d.priority)],
  ['Ended because', (d) => knownText(d.end_reason, plainWords)],
  ['Sibling ran', (d) => listText(d.sibling, (one) => `CPU ${one.cpu}: ${one.utid === null ? 'interrupt' : whoText(one)} ${exactDuration(one.ns)}`)],
  ['Counters', (d) => listText(d.counters, (one) => `${one.counter} ${grouped(one.delta, 0)}`)],
  ['Frequency', (d) => knownText(d.frequency_khz, (khz) => `${grouped(khz / 1e3, 0)} MHz`)],
];
// What came before a slice: of a slice, or of the time in which the thread waited for it.
const BEFORE_FACTS = [
  ['Ready before it', (d) => knownText(d.ready_ns, exactDuration)],
  ['Ready time by obstacle', (d) => listText(d.ready, (one) => `${one.name ?? plainWords(one.obstacle)} ${exactDuration(one.ns)}`)],
  ['Ran on the CPU it waited for', (d) => listText(d.ahead, (one) => `${whoText(one)} ${exactDuration(one.ns)}`)],
  ['Waited before it', (d) => knownText(d.wait_ns, exactDuration)],
  ['Woken by', (d) => (wasWoken(d) ? whoText(d.waker) : 'nobody: it lost its CPU and was still ready')],
  ['Waker on CPU', (d) => (wasWoken(d) ? knownText(d.waker?.cpu ?? d.waker_cpu) : 'none')],
  ['Woken from an interrupt', (d) => (wasWoken(d) ? knownText(d.waker?.in_interrupt ?? d.from_interrupt, (yes) => (yes ? 'yes' : 'no')) : 'no')],
];

/** A stack in one line: the innermost function first, then its callers. */
function stackText(frames) {
  return frames === null ? 'not recorded' : frames.join(' ← ');
}
// Only recordings with stacks have these.
const LEFT_FACT = ['Left its CPU in', (d) => stackText(d.left_stack)];
const WAIT_STACK_FACTS = [
  ['Waited in', (d) => stackText(d.before_stack)],
  ['Woken in', (d) => (wasWoken(d) ? stackText(d.waker_stack) : 'nobody woke it')],
];

/** What came before a slice, with its stacks if they were recorded. */
function beforeFacts(details) {
  return details.left_stack === undefined ? BEFORE_FACTS : [...BEFORE_FACTS, ...WAIT_STACK_FACTS];
}

/** Names and values of what is known of a slice, in the same order whatever answered. */
function detailPairs(details) {
  const facts = [...OWN_FACTS];
  if (knownCpu(details)) facts.push(...RUN_FACTS, ...(details.left_stack === undefined ? [] : [LEFT_FACT]), ...beforeFacts(details));
  const pairs = facts.map(([name, write]) => [name, write(details)]);
  if (!details.nextRun) return pairs;
  return [...pairs, ['Ran next', `CPU ${details.nextRun.cpu} from ${momentText(details.nextRun.start_ns)}`], ...beforeFacts(details.nextRun).map(([name, write]) => [name.replace(' before it', ' before that'), write(details.nextRun)])];
}

/** Whether the details are of time in which the thread ran. */
function knownCpu(details) {
  return details.cpu !== null && details.cpu !== undefined && details.end_reason !== undefined;
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
  const name = pairs[0][1] === 'unknown' ? tl.threads.get(details.utid)?.name ?? 'thread' : pairs[0][1];
  tl.details.replaceChildren(
    make('h4', {}, name),
    make('dl', { class: 'slice-facts' }, pairs.map(([label, text]) => make('div', {}, make('dt', {}, label), make('dd', {}, text)))),
    make('div', { class: 'lane-tools' },
      copyButton('Copy as SQL', 'SQL of the slice', () => sliceSql(tl, details)),
      copyButton('Copy as Markdown', 'slice', () => markdownOf(['Fact', 'Value'], pairs)),
      make('button', { type: 'button', onclick: () => working(tl, showWorstWaits(tl, details.utid)) }, 'Worst waits of this thread')),
    ...(details.chain?.length > 1 ? [make('p', { class: 'chain' }, 'Wakeup chain: ', details.chain.map((step) => `${tl.threads.get(step.utid)?.name ?? 'interrupt'} (CPU ${step.cpu ?? 'unknown'}, ${momentText(step.time_ns)})`).join(' → '))] : []),
  );
}

/** A plain table with its copy button; `goes` makes the rows links into the timeline. */
function panelTable(title, names, rows, goes) {
  const left = Math.max(0, rows.length - MOST_TABLE_ROWS);
  const numeric = names.map((_, at) => rows.some((row) => typeof row[at] === 'number'));
  const body = make('tbody', {});
  const fill = (order) => body.replaceChildren(...order.slice(0, MOST_TABLE_ROWS).map((i) => make('tr', {}, rows[i].map((value, at) => make('td', { class: typeof value === 'number' ? 'number' : null },
    goes && at === 0 ? make('button', { type: 'button', class: 'go', onclick: () => goes(i) }, String(value)) : typeof value === 'number' ? grouped(value, 0) : value || '–')))));
  const places = rows.map((_, i) => i);
  const heads = names.map((name, at) => make('th', { scope: 'col', class: numeric[at] ? 'number' : null }, make('button', { type: 'button', onclick: () => {
    const falling = heads[at].ariaSort ? heads[at].ariaSort === 'ascending' : numeric[at];
    for (const head of heads) head.removeAttribute('aria-sort');
    heads[at].setAttribute('aria-sort', falling ? 'descending' : 'ascending');
    const compared = (x, y) => (numeric[at] ? (rows[x][at] || 0) - (rows[y][at] || 0) : String(rows[x][at] ?? '').localeCompare(String(rows[y][at] ?? ''), 'en', { numeric: true }));
    fill([...places].sort((x, y) => (falling ? -1 : 1) * compared(x, y) || x - y));
  } }, name)));
  fill(places);
  return [
    make('h4', {}, title),
    make('div', { class: 'lane-tools' }, copyButton('Copy as Markdown', title, () => markdownOf(names, rows))),
    make('div', { class: 'lane-table', tabindex: 0, role: 'region', 'aria-label': title }, make('table', {},
      make('thead', {}, make('tr', {}, heads)), body)),
    left > 0 ? make('p', { class: 'window' }, `${grouped(left, 0)} more rows are in the copy.`) : null,
  ];
}

async function showWorstWaits(tl, utid) {
  const found = await tl.source.worstWaits(tl.trace, utid);
  const waits = Array.isArray(found) ? found : found?.waits || found?.rows || [];
  if (!waits.length) { notice(tl, `No waits of this thread ${tl.source.everySlice ? 'were recorded' : 'are in this report; schedlens serve has all'}.`); return; }
  const rows = waits.map((wait) => [momentText(wait.start_ns), wait.state, wait.reason, Math.round(wait.dur_ns)]);
  tl.details.replaceChildren(...panelTable(`Worst waits of ${tl.threads.get(utid)?.name ?? 'the thread'}`, ['Start', 'State', 'Why', 'Length (ns)'], rows, (i) => {
    tl.range = { from: waits[i].start_ns, to: waits[i].start_ns + waits[i].dur_ns };
    fitSelection(tl);
  }).filter(Boolean));
}

async function showRangeTotals(tl) {
  const asked = tl.range;
  const totals = await tl.source.totals(tl.trace, asked.from, asked.to);
  if (tl.range !== asked) return;
  const groups = new Map(tl.overview.states.map((state) => [state.key, ['running', 'ready', 'waiting', 'unknown'].indexOf(state.group)]));
  // What ran and what was ready come first: every other thread waits.
  const sorted = [...totals.rows].sort((x, y) => (groups.get(Number(x.key)) ?? 4) - (groups.get(Number(y.key)) ?? 4) || Number(y.ns) - Number(x.ns));
  const rows = sorted.map((row) => [row.thread ?? 'unknown', row.process ?? '', row.state ?? '', row.core_type ?? '', Number(row.ns), row.slices === null || row.slices === undefined ? '' : Number(row.slices)]);
  const same = totals.from === asked.from && totals.to === asked.to;
  const title = `${duration(totals.to - totals.from)} from ${momentText(totals.from)}${same ? '' : ' (whole columns of the report around the range)'}`;
  tl.details.replaceChildren(...panelTable(`Totals of ${title}`, ['Thread', 'Process', 'State', 'Core type', 'Time (ns)', 'Slices'], rows).filter(Boolean), ...[flameTools(tl, totals.rows)].filter(Boolean));
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

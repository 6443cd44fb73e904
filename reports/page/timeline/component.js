/* The timeline of a recording, with a switcher between the recordings of a session. */

const timelines = [];
const PRINT_LANES = 560;

function notice(tl, text) {
  tl.said.textContent = text;
  if (text) say(text);
}

/** Says that the timeline is busy until a promise is kept; a failure is said as well. */
async function working(tl, promise) {
  tl.tasks += 1;
  tl.element.setAttribute('aria-busy', 'true');
  try { return await promise; } catch (error) { notice(tl, error.message); return null; } finally {
    tl.tasks -= 1;
    if (!tl.tasks) tl.element.setAttribute('aria-busy', 'false');
  }
}

function defaultOptions() {
  return { color: 'process', sort: 'running', filter: '', collapsed: new Set(), opened: new Set(), pinned: [] };
}

function choice(label, options, chosen, change) {
  return make('label', { class: 'lane-choice' }, `${label} `, make('select', { 'aria-label': label, onchange: (event) => change(event.target.value) },
    options.map(([value, text]) => make('option', { value, selected: value === chosen }, text))));
}

const SIBLING_FINDINGS = /sibling|shar(ed|ing)/;
const E_CORE_FINDINGS = /_e_core|placement/;
const RUNNING_FINDINGS = /^(hog|visitor|worker_on_path)$/;

/** Whether time in a state is what a finding of this kind is about. */
function isCost(kind, state) {
  if (SIBLING_FINDINGS.test(kind)) return state.group === 'running' && state.hatch === true;
  if (E_CORE_FINDINGS.test(kind)) return state.group === 'running' && ['E', 'LP-E'].includes(state.core_type);
  if (RUNNING_FINDINGS.test(kind)) return state.group === 'running';
  return state.group === 'ready';
}

/** What a finding costs each thread: the time in the states that it is about, while it lasts. */
async function costsOf(tl, finding) {
  const states = new Map(tl.overview.states.map((state) => [state.key, state]));
  const totals = await tl.source.totals(tl.trace, finding.start_ns ?? tl.overview.start_ns, finding.end_ns ?? tl.overview.end_ns);
  const costs = new Map();
  for (const row of totals.rows) {
    const state = states.get(row.key);
    if (state && isCost(finding.kind, state)) costs.set(row.utid, (costs.get(row.utid) || 0) + Number(row.ns));
  }
  // The thread that the finding names comes first.
  if (finding.utid !== null && finding.utid !== undefined) costs.set(finding.utid, Infinity);
  return costs;
}

/** Sorts the lanes by what a finding costs them. */
async function sortByFinding(tl, finding) {
  tl.finding = finding.id;
  tl.cost = await costsOf(tl, finding);
  tl.options.sort = 'cost';
  fillToolbar(tl);
  relayout(tl);
}

/** Keeps on the screen what a finding is about: the frames, its thread, and its CPU. */
function pinForFinding(tl, finding) {
  const frames = tl.overview.frames.length <= 2 ? tl.overview.frames.map((one) => `frame-${one.id}`) : [];
  const own = [
    ...(tl.threads.has(finding.utid) ? [`thread-${finding.utid}`] : []),
    ...(finding.cpu !== null && finding.cpu !== undefined ? [`cpu-${finding.cpu}`] : []),
  ];
  for (const id of [...frames, ...own]) if (!tl.options.pinned.includes(id)) tl.options.pinned.push(id);
}

/** Opens the moment of a finding with its thread selected. */
async function openFinding(tl, finding) {
  if (finding.trace_id && finding.trace_id !== tl.trace) await openRecording(tl, finding.trace_id);
  tl.options.pinned = [];
  pinForFinding(tl, finding);
  await sortByFinding(tl, finding);
  if (finding.start_ns === null || finding.end_ns === null) return;
  const edge = Math.max(1000, (finding.end_ns - finding.start_ns) * 0.25);
  showRange(tl, finding.start_ns - edge, finding.end_ns + edge);
  setRange(tl, finding.start_ns, finding.end_ns);
  if (finding.utid) revealThread(tl, finding.utid);
}

/** Opens the process of a thread and scrolls to its lane. */
function revealThread(tl, utid) {
  const thread = tl.threads.get(utid);
  if (!thread) return;
  tl.options.opened.add(`process-${thread.upid ?? 'none'}`);
  relayout(tl);
  const row = tl.rows.find((one) => one.id === `thread-${utid}`);
  if (row) scrollToRow(tl, row);
}

function toolbar(tl) {
  tl.recordings = make('select', { 'aria-label': 'Recording', onchange: (event) => { tl.touched = true; working(tl, openRecording(tl, Number(event.target.value))); } });
  tl.searchBox = make('input', { type: 'search', placeholder: 'Search threads  ( / )', 'aria-label': 'Search threads in the timeline', title: 'The beginning of a word in a name, or a number; separate several with commas',
    oninput: (event) => { tl.touched = true; findThreads(tl, event.target.value); },
    onkeydown: (event) => {
      if (event.key === 'Enter') { event.preventDefault(); findNext(tl, event.shiftKey ? 'previous' : 'next'); }
      if (event.key === 'Escape') { event.target.value = ''; findThreads(tl, ''); tl.canvas.focus(); }
    } });
  tl.filterBox = make('input', { type: 'search', placeholder: 'Filter lanes', 'aria-label': 'Filter lanes by name', oninput: (event) => { tl.options.filter = event.target.value.trim(); tl.touched = true; relayout(tl); } });
  tl.matches = make('span', { class: 'lane-matches', role: 'status' });
  tl.findings = make('select', { 'aria-label': 'Go to a finding', onchange: (event) => { const found = tl.overview.findings[Number(event.target.value)]; if (found) working(tl, openFinding(tl, found)); } });
  const press = (label, text, act) => make('button', { type: 'button', 'aria-label': text, title: text, onclick: act }, label);
  tl.chooseColor = choice('CPUs by', [['process', 'process'], ['state', 'state']], tl.options.color, (value) => { tl.options.color = value; tl.touched = true; relayout(tl); loadSoon(tl); });
  tl.chooseSort = choice('Threads by', [['running', 'running time'], ['ready', 'ready time'], ['cost', 'cost of the finding']], tl.options.sort, (value) => { tl.options.sort = value; tl.touched = true; relayout(tl); });
  return make('div', { class: 'lane-toolbar', role: 'group', 'aria-label': 'Timeline' },
    tl.recordings, tl.findings, tl.searchBox, press('◂', 'Previous match', () => findNext(tl, 'previous')), press('▸', 'Next match', () => findNext(tl, 'next')), tl.matches,
    tl.filterBox, tl.chooseColor, tl.chooseSort,
    press('+', 'Zoom in', () => zoomAround(tl, tl.width / 2, 0.5)), press('−', 'Zoom out', () => zoomAround(tl, tl.width / 2, 2)),
    press('All', 'The whole recording', () => showRange(tl, tl.overview.start_ns, tl.overview.end_ns)), press('?', 'Keys of the timeline', () => tl.help.showModal()));
}

/** Fills the choices of the toolbar for the open recording. */
function fillToolbar(tl) {
  const { recordings, findings } = tl.overview;
  tl.recordings.replaceChildren(...recordings.map((one) => make('option', { value: one.trace_id, selected: one.trace_id === tl.trace }, one.name)));
  tl.recordings.hidden = recordings.length < 2;
  tl.findings.replaceChildren(make('option', { value: '' }, 'Go to a finding …'), ...findings.map((one, i) => make('option', { value: i, selected: one.id === tl.finding }, one.title)));
  tl.findings.hidden = !findings.length;
  tl.filterBox.value = tl.options.filter;
  tl.chooseColor.querySelector('select').value = tl.options.color;
  tl.chooseSort.querySelector('select').value = tl.options.sort;
}

async function openRecording(tl, trace) {
  tl.overview = await tl.source.overview(trace);
  tl.trace = trace;
  tl.threads = new Map(tl.overview.threads.map((thread) => [thread.utid, thread]));
  tl.members = new Map();
  for (const thread of tl.overview.threads) tl.members.set(thread.upid, (tl.members.get(thread.upid) || 0) + 1);
  Object.assign(tl, { parts: new Map(), selection: null, range: null, chain: null, found: null, finding: null, cost: null, stale: true, scroll: 0, view: { from: tl.overview.start_ns, to: tl.overview.end_ns } });
  tl.details.replaceChildren();
  fillToolbar(tl);
  relayout(tl);
  findThreads(tl, tl.searchBox.value);
}

/** Shows the view of the address; other fragments are the page's own. */
async function applyFragment(tl) {
  const wanted = viewOfFragment(location.hash);
  if (!wanted) return false;
  if (wanted.trace !== tl.trace) {
    try { await openRecording(tl, wanted.trace); } catch { notice(tl, `Recording ${wanted.trace} of the link is not in this report.`); return false; }
  }
  tl.touched = false;
  tl.options = { ...defaultOptions(), color: wanted.color, sort: wanted.sort, filter: wanted.filter, collapsed: new Set(wanted.collapsed), opened: new Set(wanted.opened), pinned: wanted.pinned };
  tl.searchBox.value = wanted.find;
  tl.range = wanted.range;
  tl.selection = null;
  tl.chain = null;
  const finding = tl.overview.findings.find((one) => one.id === wanted.finding);
  // A link of the report names no lanes.
  if (finding && !/(^|&)lanes=/.test(location.hash)) pinForFinding(tl, finding);
  if (finding && wanted.sort === 'cost') await sortByFinding(tl, finding);
  else { fillToolbar(tl); relayout(tl); }
  findThreads(tl, wanted.find);
  showRange(tl, wanted.from ?? tl.overview.start_ns, wanted.to ?? tl.overview.end_ns, true);
  if (wanted.utid !== null) revealThread(tl, wanted.utid);
  if (wanted.range) await showRangeTotals(tl);
  else if (wanted.utid !== null) {
    const time = wanted.at ?? wanted.from ?? tl.overview.start_ns;
    const found = await tl.source.slice(tl.trace, wanted.utid, time) || await tl.source.neighbor(tl.trace, { utid: wanted.utid }, time, 'next');
    if (found) await selectSlice(tl, { ...found, utid: wanted.utid }, true);
  } else tl.details.replaceChildren();
  tl.element.dataset.applied = location.hash;
  const part = tl.element.closest('details');
  if (part) part.open = true;
  tl.element.scrollIntoView({ behavior: 'instant', block: 'nearest' });
  return true;
}

/** The width follows the page; the picture follows the screen's pixels. */
function watchSize(tl) {
  const fit = () => {
    if (tl.onScreen) return;
    tl.width = Math.max(100, Math.floor(tl.canvas.getBoundingClientRect().width));
    tl.ratio = Math.min(2, window.devicePixelRatio || 1);
    if (!tl.overview) return;
    fitHeight(tl);
    paintSoon(tl);
    loadSoon(tl);
  };
  new ResizeObserver(fit).observe(tl.canvas);
  new MutationObserver(() => { tl.stale = true; paintSoon(tl); loadSoon(tl); }).observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  fit();
}

/** The timeline as an element; `trace` is the recording shown first. */
function timelineOf(source, trace) {
  const tl = { source, trace: null, view: { from: 0, to: 1 }, rows: [], parts: new Map(), palettes: {}, patterns: {}, labelRows: new Map(), options: defaultOptions(), scroll: 0, width: 100, height: 200, ratio: 1, asked: 0, tasks: 0, search: '', stale: true };
  timelines.push(tl);
  tl.canvas = make('canvas', { tabindex: 0, role: 'application', 'aria-label': 'Timeline. Press ? for its keys; the button of each lane opens its table.', 'aria-describedby': 'said' });
  tl.labels = make('div', { class: 'lane-labels' });
  tl.hint = make('p', { class: 'lane-hint' });
  tl.said = make('p', { class: 'lane-said' });
  tl.legend = make('div', { class: 'lane-legend' });
  tl.details = make('div', { class: 'lane-details' });
  tl.outside = make('p', { class: 'window lane-outside' });
  tl.help = helpPanel();
  tl.element = make('div', { class: 'lanes' }, toolbar(tl), make('div', { class: 'lane-area' }, tl.labels, tl.canvas), tl.hint, tl.said, tl.details, tl.legend,
    tl.outside, tl.help);
  listenToPointer(tl);
  listenToKeys(tl);
  window.addEventListener('popstate', () => working(tl, applyFragment(tl)));
  window.addEventListener('hashchange', () => { if (tl.element.dataset.applied !== location.hash) working(tl, applyFragment(tl)); });
  tl.ready = openRecording(tl, trace).then(async () => {
    watchSize(tl);
    await applyFragment(tl);
    tl.touched = false;
    tl.element.dataset.ready = 'yes';
  });
  return tl;
}

/** Makes the page's timeline: from a server where the page names one, else from its own data. */
function openTimeline(given) {
  if (!given || given.shown === null || given.shown === undefined) return;
  const tl = timelineOf(given.server ? serverSource(given.server) : embeddedSource(given.recordings), given.shown);
  // The recording of the figures below the lanes.
  tl.home = given.shown;
  // The page's own search marks the threads in the timeline as well.
  onSearch((test, text) => {
    tl.searchBox.value = test ? text : '';
    return { threads: findThreads(tl, test ? text : '') };
  });
}

/** The place of the timeline in its section. */
function timelineFigure(figure) {
  const [tl] = timelines;
  return make('figure', { class: 'over-time', 'data-figure': figure.name, 'data-kind': 'timeline' }, make('figcaption', {}, prose(figure.caption)),
    tl ? tl.element : make('p', { class: 'window' }, 'The recording contains no slices.'));
}

/** The lanes show the range of the figures, if they show the same recording. */
function lanesFollow(from, to) {
  const [tl] = timelines;
  if (tl?.overview && tl.trace === tl.home) showRange(tl, from, to);
}

/** The width of the names of the lanes: figures over time begin at the same place. */
function namesWidth() {
  const [tl] = timelines;
  return tl?.labels.isConnected ? Math.round(tl.labels.getBoundingClientRect().width) + 1 : 0;
}

/** On paper the lanes are light, and as wide as the page. */
function printLanes(tl) {
  if (!tl.overview) return;
  tl.onScreen = { width: tl.width, height: tl.height, ratio: tl.ratio };
  Object.assign(tl, { width: PRINT_WIDTH - PRINT_NAMES, height: Math.min(tl.height, PRINT_LANES), ratio: 2, stale: true });
  sizeLanes(tl);
  placeLabels(tl);
  repaint(tl);
}

function screenLanes(tl) {
  if (!tl.onScreen) return;
  Object.assign(tl, tl.onScreen, { onScreen: null, stale: true });
  sizeLanes(tl);
  paintSoon(tl);
}

window.addEventListener('beforeprint', () => timelines.forEach(printLanes));
window.addEventListener('afterprint', () => timelines.forEach(screenLanes));

function readyTimeline() {
  return Promise.all(timelines.map((tl) => tl.ready));
}

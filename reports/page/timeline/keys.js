/* The keys of the timeline, and the panel that lists them. */

const KEY_HELP = [
  ['W S', 'zoom in and out'], ['A D', 'move earlier and later'], ['Shift with W A S D', 'in larger steps'], ['f', 'fit the selection, or show all'],
  ['m', 'measure: select the visible middle, then drag; Esc ends'], ['← →', 'previous and next slice of the thread'], ['Shift ← →', 'previous and next slice on the CPU'], ['↑ ↓', 'scroll the lanes'],
  ['[', 'the slice that woke this one'], [']', 'the slice that this one woke'], ['/', 'search for threads'], ['n N', 'next and previous match'],
  ['Enter', 'select the slice in the middle'], ['t', 'table of the lane'], ['Home', 'the whole recording'], ['Esc', 'clear the selection'], ['?', 'this help'],
  ['Wheel, pinch', 'zoom around the pointer'], ['Drag', 'move; with Shift, or on the ruler, select a range'],
];

function helpPanel() {
  return make('dialog', { class: 'lane-help', 'aria-label': 'Keys of the timeline' },
    make('h4', {}, 'Keys of the timeline'),
    make('dl', {}, KEY_HELP.map(([keys, text]) => make('div', {}, make('dt', {}, keys), make('dd', {}, text)))),
    make('form', { method: 'dialog' }, make('button', { type: 'submit' }, 'Close')));
}

/** `m`: a range to measure, a fifth of the view around its middle; the next drag changes it. */
function measure(tl) {
  if (tl.measuring) { tl.measuring = false; notice(tl, ''); return; }
  tl.measuring = true;
  const chosen = tl.selection;
  if (chosen?.start_ns !== undefined) setRange(tl, chosen.start_ns, chosen.start_ns + chosen.dur_ns);
  else { const middle = (tl.view.from + tl.view.to) / 2; const part = (tl.view.to - tl.view.from) / 10; setRange(tl, middle - part, middle + part); }
  notice(tl, 'Measuring: drag across the lanes to select another range.');
}

function middleRow(tl) {
  const chosen = tl.selection;
  const at = chosen ? tl.rows.find((row) => (row.kind === 'cpu' && row.lane === chosen.cpu) || (row.kind === 'thread' && row.lane === chosen.utid)) : null;
  return at || tl.rows.find((row) => row.kind === 'cpu' && row.top >= tl.scroll) || tl.rows.find((row) => row.kind !== 'head');
}

function laneKeys(tl) {
  const middle = () => tl.width / 2;
  return {
    w: (more) => zoomAround(tl, middle(), more ? 0.35 : 0.7),
    s: (more) => zoomAround(tl, middle(), more ? 1 / 0.35 : 1 / 0.7),
    a: (more) => panBy(tl, more ? -0.6 : -0.15),
    d: (more) => panBy(tl, more ? 0.6 : 0.15),
    f: () => fitSelection(tl),
    m: () => measure(tl),
    n: (more) => findNext(tl, more ? 'previous' : 'next'),
    t: () => { const row = middleRow(tl); if (row) showLaneTable(tl, row); },
    ArrowLeft: (more) => goTo(tl, 'previous', more ? 'cpu' : 'thread'),
    ArrowRight: (more) => goTo(tl, 'next', more ? 'cpu' : 'thread'),
    ArrowUp: () => scrollLanes(tl, tl.scroll - 60),
    ArrowDown: () => scrollLanes(tl, tl.scroll + 60),
    Enter: () => { const row = middleRow(tl); if (row) selectNear(tl, row, (tl.view.from + tl.view.to) / 2); },
    Home: () => showRange(tl, tl.overview.start_ns, tl.overview.end_ns),
    Escape: () => { tl.measuring = false; notice(tl, ''); clearSelection(tl); },
    '[': () => goTo(tl, 'waker'),
    ']': () => goTo(tl, 'woken'),
    '?': () => tl.help.showModal(),
    '/': () => tl.searchBox.focus(),
  };
}

function listenToKeys(tl) {
  const keys = laneKeys(tl);
  tl.element.addEventListener('keydown', (event) => {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.tagName === 'BUTTON' && event.key === 'Enter') return;
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    working(tl, act(event.shiftKey));
  });
}

/* The search for threads and processes: one box that filters the timelines, the bars and the tables. */

const THREAD_COLUMN = /(^|_)(thread|process|tid|waker|wakee|comm)$/;
const searchers = [];

/** Calls `follow` on every search with a test for texts, or null if the search is empty. */
function onSearch(follow) {
  searchers.push(follow);
}

function searchFor(text) {
  const parts = text.toLowerCase().split(',').map((part) => part.trim()).filter(Boolean);
  const test = parts.length ? (one) => { const low = one.toLowerCase(); return parts.some((part) => low.includes(part)); } : null;
  let threads = null;
  let cut = 0;
  let figuresCut = 0;
  for (const follow of searchers) {
    const result = follow(test);
    if (result && result.threads !== undefined) threads = result.threads;
    if (result?.narrowed) cut += 1;
    if (result?.figure) figuresCut += 1;
  }
  document.documentElement.dataset.searching = test ? 'yes' : 'no';
  const said = document.getElementById('matches');
  if (!test) said.textContent = '';
  else {
    const shown = threads === null ? '' : `${threads} ${threads === 1 ? 'thread' : 'threads'} in the timeline, `;
    const bars = figuresCut ? `${figuresCut} ${figuresCut === 1 ? 'figure' : 'figures'} and ` : '';
    said.textContent = `${shown}${bars}${cut} ${cut === 1 ? 'table' : 'tables'} narrowed`;
  }
}

function searchBox() {
  let wait = null;
  const box = make('input', { type: 'search', id: 'threads', placeholder: 'Find a thread  ( / )', title: 'Part of a name or number; separate several with commas', 'aria-label': 'Find threads and processes by name or number',
    oninput: (event) => { clearTimeout(wait); wait = setTimeout(() => searchFor(event.target.value), 120); } });
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); box.focus(); }
    if (event.key === 'Escape' && document.activeElement === box && box.value) { box.value = ''; searchFor(''); }
  });
  return make('div', { class: 'find', role: 'search' }, box, make('p', { id: 'matches', role: 'status' }));
}

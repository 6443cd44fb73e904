/* The search for threads and processes: one box that filters the timelines, the bars and the tables. */

const THREAD_COLUMN = /(^|_)(thread|process|tid|waker|wakee|comm)$/;
const searchers = [];

/** Calls `follow` on every search with a test for texts, or null if the search is empty. */
function onSearch(follow) {
  searchers.push(follow);
}

/**
 * A test whether a text has a word that begins with one of the parts sought, in any case: `ai` finds
 * "AI 3" and "GameAI", but not "Main". Null if nothing is sought.
 */
function wordTest(text) {
  const parts = text.toLowerCase().split(',').map((part) => part.trim()).filter(Boolean);
  if (!parts.length) return null;
  // A word begins after anything that is neither letter nor number, and at a capital or a number.
  const begins = (one, at) => at === 0 || !/[\p{L}\p{N}]/u.test(one[at - 1]) || !/[\p{L}\p{N}]/u.test(one[at])
    || (/\p{Lu}/u.test(one[at]) && /\p{Ll}/u.test(one[at - 1])) || /\d/.test(one[at]) !== /\d/.test(one[at - 1]);
  return (one) => {
    const low = one.toLowerCase();
    return parts.some((part) => {
      for (let at = low.indexOf(part); at >= 0; at = low.indexOf(part, at + 1)) if (begins(one, at)) return true;
      return false;
    });
  };
}

function searchFor(text) {
  const test = wordTest(text);
  let threads = null;
  let cut = 0;
  let figuresCut = 0;
  let hits = 0;
  for (const follow of searchers) {
    const result = follow(test, text);
    if (result && result.threads !== undefined) threads = result.threads;
    if (result?.hits) cut += 1;
    hits += result?.hits || 0;
    if (result?.figure) figuresCut += 1;
  }
  noteHits(Boolean(test));
  document.documentElement.dataset.searching = test ? 'yes' : 'no';
  const said = document.getElementById('matches');
  if (!test) said.textContent = '';
  else {
    const shown = threads === null ? '' : `${threads} ${threads === 1 ? 'thread' : 'threads'} in the timeline, `;
    const bars = figuresCut ? `${figuresCut} ${figuresCut === 1 ? 'figure' : 'figures'}, ` : '';
    said.textContent = threads === 0 || (threads === null && !hits) ? `No thread or process matches “${text.trim()}”.` : `${shown}${bars}${grouped(hits, 0)} matching ${hits === 1 ? 'row' : 'rows'} in ${cut} ${cut === 1 ? 'table' : 'tables'}`;
  }
}

/** Writes next to the heading of each section, and of their group, how many rows match in its tables. */
function noteHits(isSought) {
  for (const place of document.querySelectorAll('details.part, details.group')) {
    const rows = [...place.querySelectorAll('.answer[data-hits]')].reduce((sum, one) => sum + Number(one.dataset.hits), 0);
    place.querySelector(':scope > summary .hits').textContent = isSought && rows ? `${grouped(rows, 0)} matching ${rows === 1 ? 'row' : 'rows'}` : '';
  }
}

function searchBox() {
  let wait = null;
  const box = make('input', { type: 'search', id: 'threads', placeholder: 'Find a thread  ( / )', title: 'The beginning of a word in a name, or a number; separate several with commas', 'aria-label': 'Find threads and processes by name or number',
    oninput: (event) => { clearTimeout(wait); wait = setTimeout(() => searchFor(event.target.value), 120); } });
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); box.focus(); }
    if (event.key === 'Escape' && document.activeElement === box && box.value) { box.value = ''; searchFor(''); }
  });
  return make('div', { class: 'find', role: 'search' }, box, make('p', { id: 'matches', role: 'status' }));
}

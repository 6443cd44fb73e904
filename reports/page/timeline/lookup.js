/* The timeline's search: which threads match, and the next and previous slice of one of them. */

const MOST_ASKED = 12;

/** Marks the threads that match; says so if none does. */
function findThreads(tl, text) {
  tl.search = text.trim();
  const test = wordTest(tl.search) || (() => false);
  const names = new Map(tl.overview.processes.map((process) => [process.upid, process.name]));
  tl.found = tl.search ? new Set(tl.overview.threads.filter((thread) => test(`${thread.name ?? ''} ${thread.tid} ${names.get(thread.upid) ?? ''}`)).map((thread) => thread.utid)) : null;
  tl.matches.textContent = !tl.found ? '' : tl.found.size === 0 ? `No thread matches “${tl.search}”.` : `${tl.found.size} ${tl.found.size === 1 ? 'thread matches' : 'threads match'}`;
  // Without a match nothing is dimmed: an empty picture would look like an idle machine.
  if (tl.found && !tl.found.size) tl.found = null;
  tl.stale = true;
  paintSoon(tl);
  noteView(tl);
  return tl.search ? tl.found?.size ?? 0 : undefined;
}

/** Selects the nearest slice of a matching thread after or before the current moment. */
async function findNext(tl, what) {
  if (!tl.found) { notice(tl, tl.search ? `No thread matches “${tl.search}”.` : 'Search first: press /.'); return; }
  const time = tl.selection?.start_ns ?? Math.round(what === 'next' ? tl.view.from - 1 : tl.view.to + 1);
  const asked = [...tl.found].slice(0, MOST_ASKED);
  const all = (await Promise.all(asked.map((utid) => tl.source.neighbor(tl.trace, { utid }, time, what)))).filter(Boolean);
  all.sort((x, y) => (what === 'next' ? x.start_ns - y.start_ns : y.start_ns - x.start_ns));
  if (!all.length) { notice(tl, `No ${what} slice of a matching thread${tl.source.everySlice ? '' : ' is in this report; schedlens serve has all'}.`); return; }
  await selectSlice(tl, all[0]);
  bringIntoView(tl, all[0]);
}

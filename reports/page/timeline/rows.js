/* The rows of the timeline: which lanes it shows, in which order, and how high. */

const ROW_HEIGHT = { head: 22, cpu: 22, thread: 16, process: 20, frame: 24, mark: 18, guest: 18, counter: 34 };
const MOST_THREADS = 200;

/** Whether a row's name passes the filter. */
function passes(tl, name) {
  const test = wordTest(tl.options.filter);
  return !test || test(name);
}

function cpuRows(tl, rows) {
  const { cpus } = tl.overview;
  const rank = (value) => value ?? -1;
  const sorted = [...cpus].sort((x, y) => {
    for (const key of ['package', 'llc', 'core', 'smt_index', 'cpu']) if (rank(x[key]) !== rank(y[key])) return rank(x[key]) - rank(y[key]);
    return 0;
  });
  const several = (key) => new Set(cpus.map((cpu) => cpu[key])).size > 1;
  const levels = [['package', 'Package'], ['llc', 'Last-level cache']].filter(([key]) => several(key));
  const last = {};
  let hidden = Infinity;
  for (const cpu of sorted) {
    levels.forEach(([key, title], depth) => {
      if (last[key] === cpu[key]) return;
      last[key] = cpu[key];
      for (const [inner] of levels.slice(depth + 1)) delete last[inner];
      if (hidden >= depth) hidden = Infinity;
      const id = `${key}-${cpu[key]}`;
      if (hidden === Infinity) {
        rows.push({ id, kind: 'head', label: `${title} ${cpu[key] ?? 'unknown'}`, depth: depth + 1, height: ROW_HEIGHT.head, opens: true, open: !tl.options.collapsed.has(id) });
        if (tl.options.collapsed.has(id)) hidden = depth;
      }
    });
    if (hidden !== Infinity || !passes(tl, `CPU ${cpu.cpu}`)) continue;
    const siblings = cpus.filter((one) => one.core === cpu.core && one.package === cpu.package);
    const kind = cpu.core_type && cpu.core_type !== 'U' ? ` ${cpu.core_type}` : '';
    const core = siblings.length > 1 ? `, core ${cpu.core} with CPU ${siblings.filter((one) => one !== cpu).map((one) => one.cpu).join(', ')}` : '';
    rows.push({ id: `cpu-${cpu.cpu}`, kind: 'cpu', lane: cpu.cpu, label: `CPU ${cpu.cpu}${kind}`, title: `CPU ${cpu.cpu}${kind}${core}`, depth: 1, height: ROW_HEIGHT.cpu, tight: siblings.length > 1 && siblings.indexOf(cpu) < siblings.length - 1 });
  }
}

function threadOrder(tl) {
  const key = tl.options.sort === 'cost' ? 'cost_ns' : tl.options.sort === 'ready' ? 'ready_ns' : 'running_ns';
  const chosen = tl.cost;
  return (x, y) => (chosen && tl.options.sort === 'cost' ? (chosen.get(y.utid) || 0) - (chosen.get(x.utid) || 0) : 0) || (y[key] || 0) - (x[key] || 0) || x.utid - y.utid;
}

function threadRow(thread, depth) {
  return { id: `thread-${thread.utid}`, kind: 'thread', lane: thread.utid, label: `${thread.name ?? 'unknown'} (${thread.tid})`, depth, height: ROW_HEIGHT.thread };
}

/** What ran in a guest on one of its CPUs, in the time of the host. */
function guestRow(tl, guest, id, depth) {
  const host = tl.threads.get(guest.utid)?.name;
  const omitted = tl.overview.guests_omitted ? `, without the ${grouped(tl.overview.guests_omitted, 0)} shortest` : '';
  return { id, kind: 'guest', lane: guest.id, label: `${guest.name}${omitted}`, title: host ? `${guest.name}: the thread ${host} of the host` : guest.name, depth, height: ROW_HEIGHT.guest };
}

function processRows(tl, rows) {
  const { processes, threads } = tl.overview;
  const order = threadOrder(tl);
  const byProcess = new Map();
  for (const thread of [...threads].sort(order)) {
    if (!byProcess.has(thread.upid)) byProcess.set(thread.upid, []);
    byProcess.get(thread.upid).push(thread);
  }
  const known = new Map(processes.map((process) => [process.upid, process]));
  let left = MOST_THREADS;
  for (const [upid, members] of byProcess) {
    const process = known.get(upid);
    const name = process ? `${process.name ?? 'unknown'} (${process.pid})` : 'Without a process';
    const inside = passes(tl, name) ? members : members.filter((thread) => passes(tl, `${thread.name} ${thread.tid}`));
    if (!inside.length) continue;
    const id = `process-${upid ?? 'none'}`;
    const open = tl.options.opened.has(id) || Boolean(tl.options.filter) || (byProcess.size <= 3 && !tl.options.collapsed.has(id));
    rows.push({ id, kind: process ? 'process' : 'head', lane: upid, label: name, depth: 1, height: ROW_HEIGHT.process, opens: true, open });
    if (!open) continue;
    for (const thread of inside.slice(0, left)) {
      rows.push(threadRow(thread, 2));
      for (const guest of tl.overview.guests.filter((one) => one.utid === thread.utid)) rows.push(guestRow(tl, guest, `inside-${guest.id}`, 3));
    }
    left = Math.max(0, left - inside.length);
  }
}

/** All rows of the current view; each gets its place from the top. */
function laneRows(tl) {
  const rows = [];
  const { overview, options } = tl;
  const group = (id, label, present, add) => {
    if (!present) return;
    rows.push({ id, kind: 'head', label, depth: 0, height: ROW_HEIGHT.head, opens: true, open: !options.collapsed.has(id) });
    if (!options.collapsed.has(id)) add();
  };
  group('frames', 'Frames', overview.frames.length, () => {
    for (const one of overview.frames.filter((frames) => passes(tl, frames.name))) rows.push({ id: `frame-${one.id}`, kind: 'frame', lane: one.id, label: overview.frames.length > 1 ? `frames of ${one.name}` : 'frames', depth: 1, height: ROW_HEIGHT.frame });
  });
  group('marks', 'Marks', overview.has_marks, () => rows.push({ id: 'mark-0', kind: 'mark', lane: 0, label: overview.marks_omitted ? `marks, without the ${grouped(overview.marks_omitted, 0)} shortest` : 'marks', depth: 1, height: ROW_HEIGHT.mark }));
  group('cpus', 'CPUs', overview.cpus.length, () => cpuRows(tl, rows));
  group('guests', 'Guests', overview.guests.length, () => {
    for (const one of overview.guests.filter((guest) => passes(tl, guest.name))) rows.push(guestRow(tl, one, `guest-${one.id}`, 1));
  });
  // Before the counters: a machine has one frequency lane for each CPU.
  group('processes', 'Processes and threads', overview.threads.length, () => processRows(tl, rows));
  group('counters', 'Counters and frequency', overview.counters.length, () => {
    for (const one of overview.counters.filter((counter) => passes(tl, counter.name))) rows.push({ id: `${one.kind || 'counter'}-${one.id}`, kind: 'counter', lane: one.id, label: one.name, unit: one.unit, source: one.kind || 'counter', depth: 1, height: ROW_HEIGHT.counter });
  });
  const pinned = options.pinned.map((id) => rows.find((row) => row.id === id) || pinnedThread(tl, id)).filter(Boolean).map((row) => ({ ...row, pinned: true, depth: 0 }));
  const others = rows.filter((row) => !options.pinned.includes(row.id));
  // A group whose lanes are all pinned has nothing to show below.
  const empty = (row, i) => row.kind === 'head' && row.open && (others[i + 1]?.depth ?? 0) <= row.depth;
  const all = [...pinned, ...others.filter((row, i) => !empty(row, i))];
  let top = 0;
  let pinnedHeight = 0;
  for (const row of all) {
    row.top = top;
    top += row.height + (row.tight && !row.pinned ? 0 : 2);
    if (row.pinned) pinnedHeight = top;
  }
  return { rows: all, height: top, pinnedHeight };
}

/** Pinned lanes remain at the top while the others scroll, unless they need most of the space. */
function pinnedBottom(tl) {
  return tl.pinnedHeight <= (tl.height - RULER_HEIGHT) * 0.6 ? tl.pinnedHeight : 0;
}

/** The top of a row in the picture. */
function topOf(tl, row) {
  return RULER_HEIGHT + row.top - (row.pinned && pinnedBottom(tl) ? 0 : tl.scroll);
}

/** Whether any of a row is on the screen; `more` pixels above and below count as well. */
function isVisible(tl, row, more = 0) {
  const top = topOf(tl, row);
  const least = RULER_HEIGHT + (row.pinned ? 0 : pinnedBottom(tl));
  return top + row.height > least - more && top <= tl.height + more;
}

/** Scrolls just so far that a row is on the screen. */
function scrollToRow(tl, row) {
  if (row.pinned && pinnedBottom(tl)) return;
  const top = topOf(tl, row);
  const least = RULER_HEIGHT + pinnedBottom(tl);
  if (top < least || top + row.height > tl.height) scrollLanes(tl, row.top - pinnedBottom(tl) - (tl.height - least) / 3);
}

/** A pinned thread remains, though its process is closed. */
function pinnedThread(tl, id) {
  const thread = tl.overview.threads.find((one) => `thread-${one.utid}` === id);
  return thread ? threadRow(thread, 0) : null;
}

/* Answers of the offline report: computed from the slices and shares that it contains. */

const MOST_HOPS = 32;

/** Time by thread and state; with shares only, of the whole columns around the range. */
function embeddedTotals(overview, parts, from, to) {
  const exact = parts.length === 1 && parts[0].shape === 'slices';
  const part = exact ? parts[0] : parts.find((one) => one.shape === 'shares');
  if (!part) return { from, to, rows: [] };
  const begin = exact ? from : part.start + Math.floor((from - part.start) / part.columnNs) * part.columnNs;
  const end = exact ? to : Math.min(part.to, part.start + Math.ceil((to - part.start) / part.columnNs) * part.columnNs);
  const states = new Map(overview.states.map((state) => [state.key, state]));
  const threads = new Map(overview.threads.map((thread) => [thread.utid, thread]));
  const processes = new Map(overview.processes.map((process) => [process.upid, process.name]));
  const rows = [];
  for (const utid of part.lanes.keys()) {
    const sums = new Map();
    eachRow(part, utid, begin, end, (start, stop, key, ns) => {
      const sum = sums.get(key) || { ns: 0, slices: 0 };
      sum.ns += exact ? Math.min(stop, end) - Math.max(start, begin) : ns;
      sum.slices += 1;
      sums.set(key, sum);
    });
    const thread = threads.get(utid);
    for (const [key, sum] of sums) {
      const state = states.get(key);
      rows.push({ utid, thread: thread ? thread.name : `thread ${utid}`, process: (thread && processes.get(thread.upid)) || '', key, state: state ? state.name : 'unknown', core_type: state?.core_type || '', ns: sum.ns, slices: exact ? sum.slices : null });
    }
  }
  return { from: begin, to: end, rows: rows.sort((x, y) => y.ns - x.ns) };
}

/** The slice of a lane at a time, from the parts that hold every slice. */
function sliceAt(parts, lane, time) {
  let found = null;
  for (const part of parts) {
    if (part.shape !== 'slices' || time < part.from || time > part.to) continue;
    eachRow(part, lane, time, time + 1, (start, stop, key, _ns, row) => {
      if (start <= time && stop > time) found = { start_ns: start, dur_ns: stop - start, key, part, row };
    });
  }
  return found;
}

/** The part with the lanes of processes: each has the rows of its threads. */
function ofProcesses(part, overview) {
  const lanes = new Map();
  for (const thread of overview.threads) {
    const rows = part.lanes.get(thread.utid);
    if (rows) lanes.set(thread.upid, [...(lanes.get(thread.upid) || []), ...rows]);
  }
  return { ...part, lanes };
}

/** What the report knows of the slice of a thread at a time: its row and the place of its fact. */
function factAt(parts, utid, time) {
  const found = sliceAt(parts.fact, utid, time);
  if (!found) return null;
  const { columns } = found.part;
  const value = (name) => { const one = columns[name][found.row]; return Number.isNaN(one) ? null : one; };
  return { utid, cpu: found.key, start_ns: found.start_ns, dur_ns: found.dur_ns, priority: value('priority'), end_reason: value('end_reason'), ready_ns: value('ready_ns'), wait_ns: value('wait_ns'), waker: value('waker'), interrupt: value('interrupt'), ...(columns.left_stack ? { left_stack: value('left_stack'), before_stack: value('before_stack'), waker_stack: value('waker_stack') } : {}) };
}

/** Time by key of a lane within a range, from the parts with every slice. */
function timeByKey(parts, lane, from, to) {
  const sums = new Map();
  const part = parts.find((one) => one.from <= from && one.to >= to && one.lanes.has(lane));
  if (part) eachRow(part, lane, from, to, (start, stop, key) => sums.set(key, (sums.get(key) || 0) + Math.min(stop, to) - Math.max(start, from)));
  return [...sums].sort((x, y) => y[1] - x[1]);
}

/** Whether the wakeup before a slice came from an interrupt; null if that is not known. */
function fromInterrupt(fact) {
  return fact.interrupt === null ? null : fact.interrupt === 1;
}

/** From a slice back along its wakeups: to the start of its frame, to an interrupt, or as far as they are known. */
function wakeupChain(parts, fact) {
  const chain = [{ utid: fact.utid, cpu: fact.cpu, time_ns: fact.start_ns }];
  const frames = parts.frame.flatMap((part) => [...part.lanes.keys()].map((lane) => sliceAt([part], lane, fact.start_ns))).filter(Boolean);
  const since = frames.length ? Math.max(...frames.map((frame) => frame.start_ns)) : -Infinity;
  let at = fact;
  while (at && at.waker !== null && at.ready_ns !== null && chain.length <= MOST_HOPS) {
    const woken = at.start_ns - at.ready_ns;
    if (woken < since) break;
    const waker = factAt(parts, at.waker, woken) || factAt(parts, at.waker, woken - 1);
    chain.push({ utid: at.waker, cpu: waker ? waker.cpu : null, time_ns: woken, in_interrupt: fromInterrupt(at) });
    if (fromInterrupt(at)) break;
    at = waker;
  }
  return chain.reverse();
}

function embeddedSlice(overview, parts, utid, time) {
  const threads = new Map(overview.threads.map((one) => [one.utid, one]));
  const nameOf = (key) => (key >= 0 ? whoText(threads.has(key) ? { thread: threads.get(key).name, tid: threads.get(key).tid } : null) : (CPU_CODES.find((code) => code.key === key) || CPU_CODES[1]).name);
  const fact = factAt(parts, utid, time);
  const state = sliceAt(parts.thread, utid, time);
  const stateName = (key) => overview.states.find((one) => one.key === key)?.name ?? 'unknown';
  const list = (sums, naming) => sums.map(([key, ns]) => `${naming(key)} ${exactDuration(ns)}`);
  const whole = fact || state;
  if (!whole) return null;
  const thread = threads.get(utid);
  const process = overview.processes.find((one) => one.upid === thread?.upid);
  const found = {
    thread: nameOf(utid), process: process?.name ?? null, pid: process?.pid ?? null, utid,
    start_ns: whole.start_ns, dur_ns: whole.dur_ns, state: state ? stateName(state.key) : null,
  };
  if (!fact) return found;
  const cpu = overview.cpus.find((one) => one.cpu === fact.cpu);
  const end = fact.start_ns + fact.dur_ns;
  const siblings = overview.cpus.filter((one) => one.cpu !== fact.cpu && cpu?.core !== null && one.core === cpu?.core && one.package === cpu?.package);
  const ready = fact.ready_ns === null ? null : fact.start_ns - fact.ready_ns;
  return {
    ...found, cpu: fact.cpu, core_type: cpu?.core_type ?? null, priority: fact.priority, end_reason: fact.end_reason, ready_ns: fact.ready_ns, wait_ns: fact.wait_ns,
    ready: ready === null ? null : list(timeByKey(parts.thread, utid, ready, fact.start_ns), (key) => stateName(key).replace(/^ready: /, '')),
    waker: fact.waker === null ? null : nameOf(fact.waker),
    waker_cpu: fact.waker === null || ready === null ? null : (factAt(parts, fact.waker, ready) || factAt(parts, fact.waker, ready - 1))?.cpu ?? null,
    from_interrupt: fromInterrupt(fact),
    ahead: ready === null ? null : list(timeByKey(parts.cpu, fact.cpu, ready, fact.start_ns).slice(0, 5), nameOf),
    sibling: siblings.flatMap((one) => list(timeByKey(parts.cpu, one.cpu, fact.start_ns, end).slice(0, 5), (key) => `CPU ${one.cpu}: ${nameOf(key)}`)),
    counters: countersOf(overview, parts, fact),
    frequency_khz: frequencyAt(parts, fact.cpu, fact.start_ns),
    chain: wakeupChain(parts, fact),
    ...stacksOf(overview, fact),
  };
}

/** The functions of the stacks of a slice, innermost first; nothing in recordings without stacks. */
function stacksOf(overview, fact) {
  if (fact.left_stack === undefined || !overview.stacks) return {};
  const { names, of } = overview.stacks;
  const frames = (id) => (id === null ? null : of[String(id)]?.map((place) => names[place]) ?? ['in schedlens serve']);
  return { left_stack: frames(fact.left_stack), before_stack: frames(fact.before_stack), waker_stack: frames(fact.waker_stack) };
}

/** What the counters of a thread counted during a slice. */
function countersOf(overview, parts, fact) {
  const found = [];
  for (const part of parts.counted) {
    if (part.from > fact.start_ns || part.to < fact.start_ns) continue;
    eachRow(part, fact.utid, fact.start_ns, fact.start_ns + fact.dur_ns, (start, stop, key, _ns, row) => {
      if (part.columns.cpu[row] === fact.cpu) found.push({ counter: overview.counter_names[key], delta: part.columns.value[row], start_ns: start, dur_ns: stop - start });
    });
    return found;
  }
  return found;
}

/** The frequency of a CPU at a time, in kHz; null if it is not known. */
function frequencyAt(parts, cpu, time) {
  const found = sliceAt(parts.frequency, cpu, time);
  return found ? found.part.columns.value[found.row] * 1000 : null;
}

/** The slice of a thread before or after a time, where only the lanes of the CPUs have it. */
function neighborOnCpus(parts, utid, time, what) {
  let best = null;
  for (const part of parts) {
    for (const cpu of part.lanes.keys()) {
      eachRow(part, cpu, part.from, part.to, (start, stop, key) => {
        if (key !== utid || (what === 'previous' ? start >= time || start <= (best?.start_ns ?? -Infinity) : start <= time || start >= (best?.start_ns ?? Infinity))) return;
        best = { utid, cpu, start_ns: start, dur_ns: stop - start };
      });
    }
  }
  return best;
}

/** The slice before or after a time on the same CPU, or of the same thread; or along a wakeup. */
function embeddedNeighbor(parts, where, time, what) {
  if (what === 'waker') {
    const fact = factAt(parts, where.utid, time);
    if (!fact || fact.waker === null || fact.ready_ns === null) return null;
    const woken = fact.start_ns - fact.ready_ns;
    return factAt(parts, fact.waker, woken) || factAt(parts, fact.waker, woken - 1);
  }
  let best = null;
  const byCpu = where.cpu !== undefined && where.cpu !== null;
  const known = parts.fact.some((part) => part.lanes.has(where.utid));
  if (!byCpu && !known && what !== 'woken') return neighborOnCpus(parts.cpu, where.utid, time, what);
  for (const part of what === 'woken' || !byCpu ? parts.fact : parts.cpu) {
    const lanes = what === 'woken' ? [...part.lanes.keys()] : [byCpu ? where.cpu : where.utid];
    for (const lane of lanes) {
      eachRow(part, lane, part.from, part.to, (start, stop, key, _ns, row) => {
        if (byCpu && what !== 'woken' && key < 0) return;
        if (what === 'woken' && (part.columns.waker[row] !== where.utid || start - part.columns.ready_ns[row] < time)) return;
        const better = what === 'previous' ? start < time && (!best || start > best.start_ns) : start > time && (!best || start < best.start_ns);
        if (better) best = byCpu && what !== 'woken' ? { utid: key, cpu: lane, start_ns: start, dur_ns: stop - start } : { utid: lane, cpu: key, start_ns: start, dur_ns: stop - start };
      });
    }
  }
  return best;
}

/* Where the timeline gets its data: from the report itself, or from `schedlens serve`. */

/** Numbers beyond 2^53 remain as they are written: ids of threads and long clocks. */
function exactJson(text) {
  return JSON.parse(text, (_key, value, context) => (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? context.source : value));
}

/** Asks the server of `schedlens serve`; the token goes into a header, never into the address. */
function serverSource(given) {
  const ends = new Map();
  const ask = async (name, parameters) => {
    const address = new URL(`${given.path || '/timeline'}/${name}`, location.origin);
    for (const [key, value] of Object.entries(parameters)) {
      if (value !== null && value !== undefined) address.searchParams.set(key, Array.isArray(value) ? value.join(',') : String(value));
    }
    const answer = await fetch(address, { headers: { 'X-Schedlens-Token': given.token }, cache: 'no-store' });
    if (!answer.ok) throw new Error((await answer.text()).slice(0, 300) || `the server answered ${answer.status}`);
    return answer;
  };
  const json = async (name, parameters) => exactJson(await (await ask(name, parameters)).text());
  const arrow = async (name, parameters) => readArrow(new Uint8Array(await (await ask(name, parameters)).arrayBuffer()));
  return {
    everySlice: true,
    detailed: () => null,
    overview: async (trace) => {
      const found = await json('overview', { trace });
      ends.set(trace, found.end_ns);
      return found;
    },
    lanes: async (trace, kind, ids, from, to, width) => [lanePart(await arrow('lanes', { trace, kind, ids, start_ns: from, end_ns: to, width }), from, to, ends.get(trace))],
    totals: async (trace, from, to) => ({ from, to, rows: totalRows(await arrow('totals', { trace, start_ns: from, end_ns: to })) }),
    flame: (trace, from, to, kind, utid) => json('flame', { trace, start_ns: from, end_ns: to, kind, utid }),
    slice: (trace, utid, time) => json('slice', { trace, utid, time_ns: time }),
    neighbor: (trace, where, time, what) => json('neighbor', { trace, ...where, time_ns: time, what }),
    worstWaits: (trace, utid) => json('worst_waits', { trace, utid }),
  };
}

function totalRows(table) {
  const names = Object.keys(table.columns);
  return Array.from({ length: table.rows }, (_, i) => Object.fromEntries(names.map((name) => [name, table.columns[name][i]])));
}

/** The bytes of a packed stream: base64 of zlib. */
async function inflate(packed) {
  const text = atob(packed);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Answers from the report: shares of the whole recording, and every slice of some ranges. */
function embeddedSource(recordings) {
  const kept = new Map();
  const recording = (trace) => recordings.find((one) => one.overview.trace_id === trace);
  const read = (stream) => {
    if (!kept.has(stream)) kept.set(stream, inflate(stream.data).then((bytes) => lanePart(readArrow(bytes), stream.from_ns, stream.to_ns)));
    return kept.get(stream);
  };
  const streams = (trace, kind) => recording(trace).streams.filter((stream) => stream.kind === kind);
  /** What covers a range: every slice if one stream has them, else the shares with the slices on top. */
  const covering = async (trace, kind, from, to) => {
    const all = streams(trace, kind);
    const whole = all.find((stream) => stream.shape === 'slices' && stream.from_ns <= from && stream.to_ns >= to);
    if (whole) return [await read(whole)];
    const meeting = all.filter((stream) => stream.shape === 'shares' || (stream.from_ns < to && stream.to_ns > from));
    return Promise.all(meeting.sort((x, y) => Number(x.shape === 'slices') - Number(y.shape === 'slices')).map(read));
  };
  /** The streams with every slice, by kind. */
  const slices = async (trace) => {
    const found = {};
    for (const kind of ['cpu', 'thread', 'fact', 'counted', 'sampled', 'frame', 'frequency']) found[kind] = await Promise.all(streams(trace, kind).filter((stream) => stream.shape === 'slices').map(read));
    return found;
  };
  return {
    everySlice: false,
    overview: async (trace) => recording(trace).overview,
    lanes: async (trace, kind, _ids, from, to) => (kind === 'process' ? (await covering(trace, 'thread', from, to)).map((part) => ofProcesses(part, recording(trace).overview)) : covering(trace, kind, from, to)),
    // The ranges with every slice; null if they are everywhere.
    detailed: (trace) => {
      const found = streams(trace, 'cpu').filter((stream) => stream.shape === 'slices').map((stream) => [stream.from_ns, stream.to_ns]);
      const { start_ns: first, end_ns: last } = recording(trace).overview;
      return found.some(([from, to]) => from <= first && to >= last) ? null : found;
    },
    totals: async (trace, from, to) => embeddedTotals(recording(trace).overview, await covering(trace, 'thread', from, to), from, to),
    flame: async (trace, from, to, kind, utid) => embeddedFlame(recording(trace).overview, await slices(trace), [from, to], kind, utid),
    slice: async (trace, utid, time) => embeddedSlice(recording(trace).overview, await slices(trace), utid, time),
    neighbor: async (trace, where, time, what) => embeddedNeighbor(await slices(trace), where, time, what),
    worstWaits: async (trace, utid) => {
      const { thread } = await slices(trace);
      const names = new Map(recording(trace).overview.states.map((state) => [state.key, state.name]));
      return recording(trace).waits.filter((wait) => wait.utid === utid).map((wait) => {
        const [longest] = wait.state === 'ready' ? timeByKey(thread, utid, wait.start_ns, wait.start_ns + wait.dur_ns) : [];
        return { ...wait, reason: longest ? (names.get(longest[0]) ?? '').replace(/^ready: /, '') : wait.reason };
      });
    },
  };
}

/* What each logical CPU ran: one row a CPU, a column for each few pixels, drawn anew at each zoom. */

const COLUMNS = 1600;
const HUES = ['blue', 'orange', 'green', 'purple', 'red', 'teal', 'brown', 'pink'];
const FIXED = ['idle', 'unknown', 'offline', 'interrupt', 'other threads'];
const SHORT = ['', '?', 'off', 'int', '…'];

/** Short name of the n-th thread: A to Z, then AA and so on. */
function letter(n) {
  return n < 26 ? String.fromCharCode(65 + n) : letter(Math.floor(n / 26) - 1) + letter(n % 26);
}

function mixed(hex, other, share) {
  const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
  return `#${[1, 3, 5].map((at) => Math.round(part(hex, at) * (1 - share) + part(other, at) * share).toString(16).padStart(2, '0')).join('')}`;
}

function isLight(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return 0.3 * r + 0.59 * g + 0.11 * b > 140;
}

function timeline(plot, spec) {
  const { cpus, threads, runs, from_ns: from, to_ns: to } = spec.plot;
  const names = [...FIXED, ...threads.map((t, i) => `${letter(i)}: ${t.name}`)];
  const letters = [...SHORT, ...threads.map((t, i) => letter(i))];
  let range = [from, to];
  let chosen = null;
  let busy = false;

  function colours() {
    const ink = colour('ink');
    const list = [colour('pale'), mixed(colour('mid'), colour('card'), 0.35), colour('card'), colour('dark'), colour('mid')];
    threads.forEach((_, i) => {
      const base = colour(HUES[i % HUES.length]);
      const lap = Math.floor(i / HUES.length) % 3;
      list.push(lap === 0 ? base : mixed(base, lap === 1 ? colour('card') : ink, 0.42));
    });
    if (chosen !== null) return list.map((c, code) => (code === chosen ? c : mixed(c, colour('card'), 0.82)));
    return list;
  }

  /** The code with the most time in each column of the range, and the long runs to be labelled. */
  function columnsOf(a, b) {
    const width = (b - a) / COLUMNS;
    const z = cpus.map(() => new Array(COLUMNS).fill(null));
    const long = [];
    let row = -1;
    let at = -1;
    let sums = new Map();
    const settle = () => {
      if (at < 0 || !sums.size) return;
      let best = null;
      for (const [code, sum] of sums) if (best === null || sum > best[1]) best = [code, sum];
      z[row][at] = best[0];
    };
    for (let i = 0; i < runs.row.length; i += 1) {
      const begin = Math.max(runs.start[i] + from, a);
      const end = Math.min(runs.start[i] + runs.dur[i] + from, b);
      if (end <= begin) continue;
      const code = runs.code[i];
      const first = Math.min(COLUMNS - 1, Math.floor((begin - a) / width));
      const last = Math.min(COLUMNS - 1, Math.max(first, Math.ceil((end - a) / width) - 1));
      if (runs.row[i] !== row || first !== at) { settle(); row = runs.row[i]; at = first; sums = new Map(); }
      sums.set(code, (sums.get(code) || 0) + Math.min(end, a + (first + 1) * width) - begin);
      if (last > first) {
        settle();
        for (let c = first + 1; c < last; c += 1) z[row][c] = code;
        at = last;
        sums = new Map([[code, end - (a + last * width)]]);
      }
      if (code > 0 && end - begin > (b - a) * 0.018) long.push({ row, middle: (begin + end) / 2, code, length: end - begin });
    }
    settle();
    return { z, width, long: long.sort((x, y) => y.length - x.length).slice(0, 400) };
  }

  function draw() {
    const [a, b] = range;
    const { z, width, long } = columnsOf(a, b);
    const list = colours();
    const steps = list.flatMap((c, i) => [[i / list.length, c], [(i + 1) / list.length, c]]);
    const rows = cpus.map((_, i) => i);
    const every = cpus.length > 130 ? 8 : cpus.length > 70 ? 4 : 1;
    const data = [{
      type: 'heatmap', z, x0: (a + width / 2) / 1e6, dx: width / 1e6, y: rows, zmin: -0.5, zmax: list.length - 0.5,
      colorscale: steps, showscale: false, hoverongaps: false, ygap: cpus.length > 64 ? 0 : 1,
      text: z.map((line) => line.map((code) => (code === null ? '' : names[code]))), customdata: z.map((line, i) => line.map(() => cpus[i])),
      hovertemplate: '%{customdata}<br>%{x:.3f} ms<br>%{text}<extra></extra>',
    }];
    const readable = cpus.length <= 130 ? long : [];
    if (readable.length) data.push({
      type: 'scatter', mode: 'text', x: readable.map((l) => l.middle / 1e6), y: readable.map((l) => l.row),
      text: readable.map((l) => letters[l.code]), hoverinfo: 'skip', showlegend: false,
      textfont: { size: cpus.length > 40 ? 8 : 10, color: readable.map((l) => (isLight(list[l.code]) ? '#10151b' : '#ffffff')) },
    });
    busy = true;
    const done = show(plot, data, {
      xaxis: { title: { text: 'time in the recording (ms)' }, range: [a / 1e6, b / 1e6], showgrid: false, zeroline: false },
      yaxis: {
        tickvals: rows.filter((i) => i % every === 0), ticktext: cpus.filter((_, i) => i % every === 0), range: [cpus.length - 0.5, -0.5],
        fixedrange: true, showgrid: false, zeroline: false, tickfont: { size: cpus.length > 40 ? 9 : 11 },
      },
      margin: { l: 60, r: 12, t: 28, b: 44 }, dragmode: 'zoom', showlegend: false,
    }, spec.height);
    done.then(() => { busy = false; listen(); });
    return done;
  }

  let listening = false;
  function listen() {
    if (listening) return;
    listening = true;
    plot.on('plotly_relayout', (change) => {
      if (busy) return;
      if (change['xaxis.autorange']) go([from, to]);
      else if (change['xaxis.range[0]'] !== undefined) go([change['xaxis.range[0]'] * 1e6, change['xaxis.range[1]'] * 1e6]);
    });
  }

  function go([a, b]) {
    const length = Math.min(to - from, Math.max(2000, b - a));
    const begin = Math.min(Math.max(a, from), to - length);
    range = [begin, begin + length];
    draw();
  }
  const middle = () => (range[0] + range[1]) / 2;
  const half = () => (range[1] - range[0]) / 2;
  const steer = (label, text, move) => make('button', { type: 'button', 'aria-label': text, title: text, onclick: () => { if (library) go(move()); } }, label);
  const before = make('div', { class: 'steer', role: 'group', 'aria-label': 'Move along the time axis' },
    steer('+', 'Zoom in', () => [middle() - half() / 2, middle() + half() / 2]),
    steer('−', 'Zoom out', () => [middle() - half() * 2, middle() + half() * 2]),
    steer('◀', 'Earlier', () => [range[0] - half(), range[1] - half()]),
    steer('▶', 'Later', () => [range[0] + half(), range[1] + half()]),
    steer('All', 'The whole window', () => [from, to]));

  function choose(code, buttons) {
    chosen = chosen === code ? null : code;
    buttons.forEach((item) => item.setAttribute('aria-pressed', String(Number(item.dataset.code) === chosen)));
    if (library && plot.dataset.state === 'drawn') draw();
  }
  const present = new Set(runs.code);
  const buttons = [];
  const after = make('ul', { class: 'key', 'aria-label': 'Key; press to single out' }, names.map((name, code) => {
    if (!present.has(code)) return null;
    const thread = threads[code - FIXED.length];
    const swatch = make('span', { class: 'swatch', 'data-code': code }, letters[code] || ' ');
    const button = make('button', { type: 'button', 'aria-pressed': 'false', 'data-code': code, title: name, onclick: () => choose(code, buttons) },
      swatch, make('span', { class: 'name' }, thread ? thread.name : name), thread ? make('span', { class: 'said' }, duration(thread.run_ns)) : null);
    buttons.push(button);
    return make('li', {}, button);
  }));

  function paint() {
    const now = chosen;
    chosen = null;
    const list = colours();
    chosen = now;
    after.querySelectorAll('.swatch').forEach((swatch) => {
      const c = list[Number(swatch.dataset.code)];
      swatch.style.background = c;
      swatch.style.color = isLight(c) ? '#10151b' : '#ffffff';
    });
  }
  return { draw: () => { paint(); return draw(); }, before, after };
}

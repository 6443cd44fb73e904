/* What each logical CPU ran: one row per CPU, one column per few pixels, redrawn at each zoom. */

const HUES = ['blue', 'orange', 'green', 'purple', 'red', 'teal', 'brown', 'pink'];
const FIXED = ['idle', 'unknown', 'offline', 'interrupt', 'other threads'];
const SHORT = ['', '?', 'off', 'int', '…'];
const IDLE = 0;
const OTHERS = 4;

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

function timeline(plot, spec, above) {
  const { cpus, threads, runs, parked, from_ns: from } = spec.plot;
  // Behind the threads comes one more code: idle and parked.
  const PARKED = FIXED.length + threads.length;
  const names = [...FIXED, ...threads.map((t, i) => `${letter(i)}: ${t.name}${t.process ? ` of ${t.process}` : ''}`), 'parked and idle'];
  const letters = [...SHORT, ...threads.map((_thread, i) => letter(i)), '×'];
  const isShown = (code) => code < FIXED.length || code === PARKED || threads[code - FIXED.length].shown;
  let chosen = null;
  let found = null;

  function colours() {
    const ink = colour('ink');
    const list = [colour('pale'), mixed(colour('mid'), colour('card'), 0.35), colour('card'), colour('dark'), colour('mid')];
    threads.forEach((_thread, i) => {
      const base = colour(HUES[i % HUES.length]);
      const lap = Math.floor(i / HUES.length) % 3;
      list.push(lap === 0 ? base : mixed(base, lap === 1 ? colour('card') : ink, 0.42));
    });
    list.push(mixed(colour('purple'), colour('card'), 0.72));
    if (chosen) return list.map((c, code) => (chosen.has(code) ? c : mixed(c, colour('card'), code === PARKED ? 0.4 : 0.85)));
    return list;
  }

  /** Turns idle into parked where the middle of a column is inside a parking interval. */
  function park(z, a, width) {
    for (let i = 0; i < parked.row.length; i += 1) {
      const begin = parked.start[i] + from;
      const first = Math.max(0, Math.ceil((begin - a) / width - 0.5));
      const last = Math.min(COLUMNS - 1, Math.ceil((begin + parked.dur[i] - a) / width - 0.5) - 1);
      const line = z[parked.row[i]];
      for (let c = first; c <= last; c += 1) if (line[c] === IDLE) line[c] = PARKED;
    }
  }

  /** The rows as columns, including parking, and the long runs to label. */
  function columnsOf(a, b) {
    const codeOf = (code) => (isShown(code) || chosen?.has(code) ? code : OTHERS);
    const { z, width, long } = inColumns(runs, cpus.length, from, [a, b], codeOf, (code) => Boolean(chosen) && chosen.has(code));
    park(z, a, width);
    for (let i = 0; i < parked.row.length; i += 1) {
      const begin = Math.max(parked.start[i] + from, a);
      const end = Math.min(parked.start[i] + parked.dur[i] + from, b);
      const middle = (begin + end) / 2;
      // Label only if the middle of the interval is idle: a bound thread may run there.
      const free = z[parked.row[i]][Math.min(COLUMNS - 1, Math.max(0, Math.floor((middle - a) / width)))] === PARKED;
      if (free && end - begin > (b - a) * LONG) long.push({ row: parked.row[i], middle, code: PARKED, length: end - begin });
    }
    return { z, width, long: long.sort((x, y) => y.length - x.length).slice(0, 400) };
  }

  const draw = joinTime(plot, spec, ([a, b]) => {
    const { z, width, long } = columnsOf(a, b);
    const list = colours();
    const rows = cpus.map((_, i) => i);
    const every = cpus.length > 130 ? 8 : cpus.length > 70 ? 4 : 1;
    const data = [{
      type: 'heatmap', z, x0: (a + width / 2) / 1e6, dx: width / 1e6, y: rows, zmin: -0.5, zmax: list.length - 0.5,
      colorscale: stepped(list), showscale: false, hoverongaps: false, ygap: cpus.length > 64 ? 0 : 1,
      text: z.map((line) => line.map((code) => (code === null ? '' : names[code]))), customdata: z.map((line, i) => line.map(() => cpus[i])),
      hovertemplate: '%{customdata}<br>%{x:.3f} ms<br>%{text}<extra></extra>',
    }];
    const readable = cpus.length <= 130 ? long : [];
    if (readable.length) data.push({
      type: 'scatter', mode: 'text', x: readable.map((l) => l.middle / 1e6), y: readable.map((l) => l.row),
      text: readable.map((l) => letters[l.code]), hoverinfo: 'skip', showlegend: false,
      textfont: { size: cpus.length > 40 ? 8 : 10, color: readable.map((l) => (isLight(list[l.code]) ? '#10151b' : '#ffffff')) },
    });
    return show(plot, data, {
      xaxis: timeAxis([a, b], above),
      yaxis: {
        tickvals: rows.filter((i) => i % every === 0), ticktext: cpus.filter((_, i) => i % every === 0), range: [cpus.length - 0.5, -0.5],
        fixedrange: true, showgrid: false, zeroline: false, automargin: false, tickfont: { size: cpus.length > 40 ? 9 : 11 },
      },
      margin: timeMargin(above), dragmode: 'zoom', showlegend: false, shapes: stutterBands([a, b], 0.06),
    }, spec.height);
  });

  function redrawIfDrawn() {
    if (library && plot.dataset.state === 'drawn') draw();
  }

  function choose(code) {
    const alone = chosen && chosen.size === 1 && chosen.has(code);
    chosen = alone ? found : new Set([code]);
    press();
    redrawIfDrawn();
  }

  function press() {
    buttons.forEach((button) => {
      const code = Number(button.dataset.code);
      button.setAttribute('aria-pressed', String(Boolean(chosen) && chosen.has(code)));
      button.parentElement.hidden = found ? !found.has(code) : !isShown(code) && !chosen?.has(code);
    });
  }

  onSearch((test) => {
    found = test ? new Set(threads.flatMap((t, i) => (test(`${t.name} ${t.process}`) ? [FIXED.length + i] : []))) : null;
    chosen = found;
    press();
    redrawIfDrawn();
    return { threads: found ? found.size : undefined };
  });

  const present = new Set(runs.code);
  if (parked.row.length) present.add(PARKED);
  const buttons = [];
  const after = make('ul', { class: 'key', 'aria-label': 'Key; press to highlight' }, names.map((name, code) => {
    if (!present.has(code)) return null;
    const thread = threads[code - FIXED.length];
    const swatch = make('span', { class: 'swatch', 'data-code': code }, letters[code] || ' ');
    const button = make('button', { type: 'button', 'aria-pressed': 'false', 'data-code': code, title: name, onclick: () => choose(code) },
      swatch, make('span', { class: 'name' }, thread ? thread.name : name), thread ? make('span', { class: 'said' }, duration(thread.run_ns)) : null);
    buttons.push(button);
    return make('li', { hidden: !isShown(code) }, button);
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
  return { draw: () => { paint(); return draw(); }, after };
}

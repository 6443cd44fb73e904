/* Numbers that change in steps over time: every change if they fit, else means over columns. */

const STEP_COLUMNS = 400;

/** One layer in a range: starts of the steps (ms) and the values of each series. */
function stepsIn(layer, from, [a, b], to) {
  const { start, series } = layer;
  let first = 0;
  for (let low = 0, high = start.length - 1; low <= high;) {
    const half = (low + high) >> 1;
    if (start[half] + from <= a) { first = half; low = half + 1; } else high = half - 1;
  }
  let last = first;
  while (last < start.length && start[last] + from < b) last += 1;
  if (last - first <= 2 * STEP_COLUMNS) {
    const x = start.slice(first, last).map((ns) => Math.max(a, ns + from) / 1e6);
    x.push(b / 1e6);
    return { x, values: series.map((one) => { const cut = one.values.slice(first, last); cut.push(cut[cut.length - 1]); return cut; }) };
  }
  const width = (b - a) / STEP_COLUMNS;
  const x = Array.from({ length: STEP_COLUMNS + 1 }, (_, i) => (a + i * width) / 1e6);
  const sums = series.map(() => new Array(STEP_COLUMNS).fill(0));
  const weights = series.map(() => new Array(STEP_COLUMNS).fill(0));
  for (let i = first; i < last; i += 1) {
    let begin = Math.max(a, start[i] + from);
    const end = Math.min(b, i + 1 < start.length ? start[i + 1] + from : to);
    while (begin < end) {
      const at = Math.min(STEP_COLUMNS - 1, Math.floor((begin - a) / width));
      const until = at === STEP_COLUMNS - 1 ? end : Math.min(end, Math.max(a + (at + 1) * width, begin + 1));
      series.forEach((one, s) => {
        // Unknown values have no weight.
        if (one.values[i] === null) return;
        weights[s][at] += until - begin;
        sums[s][at] += one.values[i] * (until - begin);
      });
      begin = until;
    }
  }
  const values = sums.map((sum, s) => { const mean = sum.map((v, i) => (weights[s][i] ? v / weights[s][i] : null)); mean.push(mean[mean.length - 1]); return mean; });
  return { x, values };
}

const LIMIT_DASHES = ['dot', 'dashdot', 'dash'];

function steps(plot, spec, above) {
  const { layers, limits, title, from_ns: from, to_ns: to } = spec.plot;
  const most = Math.max(0, ...limits.map((limit) => limit.at));
  const draw = joinTime(plot, spec, (range) => {
    const data = [];
    for (const layer of layers) {
      const { x, values } = stepsIn(layer, from, range, to);
      layer.series.forEach((one, i) => {
        const area = one.form === 'area';
        data.push({
          type: 'scatter', mode: 'lines', name: one.name, x, y: values[i],
          ...(area ? { stackgroup: 'one', fillcolor: `@${one.color.slice(1)}`, fillpattern: { shape: one.pattern, fillmode: 'overlay', fgcolor: '@card', size: 6, solidity: 0.25 } } : {}),
          line: { shape: 'hv', width: area ? 0 : one.pattern ? 1.6 : 1, color: one.color, dash: area ? 'solid' : one.pattern || 'solid' },
          hovertemplate: `${one.name.replace(/[<&]/g, '')}: %{y:,.2~f}<extra></extra>`,
        });
      });
    }
    return show(plot, data, {
      xaxis: timeAxis(range, above),
      yaxis: { title: { text: title }, rangemode: spec.plot.from_zero === false ? 'normal' : 'tozero', automargin: false, fixedrange: true, nticks: 5, zeroline: false },
      margin: timeMargin(above), dragmode: 'zoom', hovermode: 'x unified',
      shapes: [...stutterBands(range), ...limits.map((limit, i) => ({
        type: 'line', xref: 'paper', x0: 0, x1: 1, y0: limit.at, y1: limit.at, line: { color: '@dark', width: 1.3, dash: LIMIT_DASHES[i] },
      }))],
      annotations: limits.map((limit) => ({
        xref: 'paper', x: 1, xanchor: 'right', y: limit.at, yanchor: limit.at === most ? 'bottom' : 'top', showarrow: false,
        text: `${limit.name}: ${limit.at}`, font: { size: 11 }, bgcolor: '@card', opacity: 0.9,
      })),
    }, spec.height);
  });
  return { draw };
}

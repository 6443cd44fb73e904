/* What some threads did over time: one row per thread, stacked by the share of each state. */

function threadStates(plot, spec, above) {
  const { threads, codes, runs, from_ns: from } = spec.plot;
  const present = new Set(runs.code);
  let rows = threads.map((_, i) => i);

  const draw = joinTime(plot, spec, ([a, b]) => {
    const { sums, width, long } = sumsInColumns(runs, threads.length, codes.length, from, [a, b]);
    const list = codes.map((code) => colour(code.color.slice(1)));
    const names = rows.map((row) => threads[row].name);
    const words = rows.map((row) => Array.from({ length: COLUMNS }, (_, i) => `${threads[row].name}: ${shareWords(sums[row], codes, width, i)}`));
    const each = 1 / (LINES + 1);
    const data = [{
      // From the top down: the empty line of a row is above its shares.
      type: 'heatmap', z: rows.flatMap((row) => stackedLines(sums[row], codes.length, width).reverse()), x0: (a + width / 2) / 1e6, dx: width / 1e6,
      y: rows.flatMap((_, i) => Array.from({ length: LINES + 1 }, (_line, k) => i - 0.5 + (k + 0.5) * each)),
      zmin: -0.5, zmax: list.length - 0.5, colorscale: stepped(list), showscale: false, hoverongaps: false,
      text: words.flatMap((line) => new Array(LINES + 1).fill(line)), hovertemplate: '%{x:.3f} ms<br>%{text}<extra></extra>',
    }];
    const places = new Map(rows.map((row, i) => [row, i]));
    const labelled = long.filter((one) => places.has(one.row)).sort((x, y) => y.length - x.length).slice(0, 300);
    if (labelled.length) data.push({
      type: 'scatter', mode: 'text', x: labelled.map((one) => one.middle / 1e6), y: labelled.map((one) => places.get(one.row)),
      text: labelled.map((one) => codes[one.code].letter), hoverinfo: 'skip', showlegend: false,
      textfont: { size: 10, color: labelled.map((one) => (isLight(list[one.code]) ? '#10151b' : '#ffffff')) },
    });
    return show(plot, data, {
      xaxis: timeAxis([a, b], above),
      yaxis: {
        tickvals: rows.map((_, i) => i), ticktext: names.map((name) => (name.length > 15 ? `${name.slice(0, 8)}…${name.slice(-6)}` : name)),
        range: [rows.length - 0.5, -0.5], fixedrange: true, showgrid: false, zeroline: false, automargin: false, tickfont: { size: 10 },
      },
      margin: timeMargin(above), dragmode: 'zoom', showlegend: false, shapes: stutterBands([a, b], 0.06),
    }, 70 + 22 * Math.max(1, rows.length));
  });

  onSearch((test) => {
    rows = threads.flatMap((thread, i) => (!test || test(thread.sought) ? [i] : []));
    if (library && plot.dataset.state === 'drawn') draw();
    return { figure: Boolean(test) };
  });

  const swatches = [];
  const after = make('ul', { class: 'key', 'aria-label': 'Key' }, codes.map((code, i) => {
    if (!present.has(i)) return null;
    const swatch = make('span', { class: 'swatch' }, code.letter || ' ');
    swatches.push([swatch, code]);
    return make('li', { class: 'state' }, swatch, make('span', { class: 'name' }, code.name), make('span', { class: 'said' }, duration(code.dur_ns)));
  }));

  function paint() {
    for (const [swatch, code] of swatches) {
      const c = colour(code.color.slice(1));
      swatch.style.background = c;
      swatch.style.color = isLight(c) ? '#10151b' : '#ffffff';
    }
  }
  return { draw: () => { paint(); return draw(); }, after };
}

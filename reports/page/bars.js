/* Bars by thread: the first few, or those that match the search, however far down they are. */

const AROUND_BARS = 110;

function soughtBars(plot, spec) {
  const { data, layout, sought, first } = spec.plot;
  const each = (spec.height - AROUND_BARS) / Math.min(first, sought.length);
  const note = make('p', { class: 'window narrowed', role: 'status', hidden: true });
  let test = null;

  function chosen() {
    const all = sought.map((_, i) => i);
    return (test ? all.filter((i) => test(sought[i])) : all).slice(0, first);
  }

  function only(list, indexes) {
    return Array.isArray(list) ? indexes.map((i) => list[i]) : list;
  }

  function draw() {
    const indexes = chosen();
    note.hidden = !test;
    note.textContent = indexes.length ? `Narrowed to ${grouped(indexes.length, 0)} of ${grouped(sought.length, 0)} bars by the search.` : 'No bar here matches the search.';
    plot.hidden = !indexes.length;
    if (!indexes.length) return null;
    const height = Math.round(Math.max(150, AROUND_BARS + each * indexes.length));
    plot.style.minHeight = `${Math.min(height, spec.height)}px`;
    const traces = data.map((trace) => ({ ...trace, x: only(trace.x, indexes), y: only(trace.y, indexes), customdata: only(trace.customdata, indexes) }));
    return show(plot, traces, layout, indexes.length === Math.min(first, sought.length) ? spec.height : height);
  }

  onSearch((found) => {
    if (!found && !test) return {};
    test = found;
    if (library && plot.dataset.state === 'drawn') draw();
    return { figure: Boolean(test) };
  });
  return { draw, before: note };
}

/* Icicles of stacks, with callers on top, and their search. */

// As in the figures of the sections: narrower functions are one node, and more nodes are slow.
const FLAME_LEAST = 0.002;
const FLAME_NODES = 4000;
const FLAME_COLORS = ['@blue', '@orange', '@green', '@purple', '@red', '@teal', '@brown', '@pink'];
const NO_STACK = '[no stack]';

function flameColor(label) {
  return FLAME_COLORS[new TextEncoder().encode(label).reduce((sum, byte) => sum + byte, 0) % FLAME_COLORS.length];
}

/** The icicle of rows of [thread, functions from the outermost inwards or null, weight]. */
function icicleOf({ rows, rest }, unit, size) {
  const node = (label) => ({ label, total: 0, children: new Map() });
  const root = node('all threads');
  const add = (labels, weight) => {
    let at = root;
    at.total += weight;
    for (const label of labels) {
      if (!at.children.has(label)) at.children.set(label, node(label));
      at = at.children.get(label);
      at.total += weight;
    }
  };
  let deepest = 1;
  for (const [thread, functions, weight] of rows) {
    add([thread, ...(functions || [NO_STACK])], weight / size);
    deepest = Math.max(deepest, 2 + (functions || [NO_STACK]).length);
  }
  if (rest > 0) add(['(smaller)'], rest / size);
  const [ids, labels, parents, values] = [[], [], [], []];
  const least = root.total * FLAME_LEAST;
  const waiting = [[root, '']];
  for (let place = 0; place < waiting.length && place < FLAME_NODES; place += 1) {
    const [one, parent] = waiting[place];
    ids.push(String(place));
    labels.push(one.label);
    parents.push(parent);
    values.push(one.total);
    const children = [...one.children.values()].sort((x, y) => y.total - x.total || compare(x.label, y.label));
    for (const child of children) if (child.total >= least) waiting.push([child, String(place)]);
    const narrow = children.reduce((sum, child) => sum + (child.total < least ? child.total : 0), 0);
    if (narrow > least) waiting.push([{ ...node('(smaller)'), total: narrow }, String(place)]);
  }
  return {
    height: Math.min(900, Math.max(240, 60 + 18 * deepest)),
    plot: {
      data: [{
        type: 'icicle', ids, labels, parents, values, branchvalues: 'total', sort: false, tiling: { orientation: 'v' }, pathbar: { visible: true }, maxdepth: -1,
        marker: { colors: labels.map(flameColor), line: { color: '@card', width: 0.5 } },
        hovertemplate: `%{label}<br>%{value:,.4~g} ${unit}, %{percentRoot:.1%}<extra></extra>`, texttemplate: '%{label}',
      }],
      layout: { margin: { l: 0, r: 0, t: 26, b: 0 } },
    },
  };
}

/** Which functions contain a text, in any case, and the share of the whole that is in or below one of them. */
function soughtFunctions({ ids, labels, parents, values }, text) {
  const wanted = text.trim().toLowerCase();
  const places = new Map(ids.map((id, i) => [id, i]));
  const hit = labels.map((label) => wanted !== '' && label.toLowerCase().includes(wanted));
  const inside = [];
  let sum = 0;
  // Callers come before what they call.
  for (let i = 0; i < ids.length; i += 1) {
    const under = inside[places.get(parents[i])] === true;
    if (hit[i] && !under) sum += values[i];
    inside.push(hit[i] || under);
  }
  return { hit, names: new Set(labels.filter((_, i) => hit[i])).size, share: values[0] > 0 ? sum / values[0] : 0 };
}

/** A figure of an icicle with its search field. */
function searchedIcicle(plot, spec) {
  const [trace] = spec.plot.data;
  const said = make('span', { class: 'said', role: 'status' });
  let sought = '';
  const draw = () => {
    const { hit, names, share } = soughtFunctions(trace, sought);
    const isSought = sought.trim() !== '';
    said.textContent = isSought ? `${grouped(names, 0)} matching ${names === 1 ? 'function' : 'functions'}, ${grouped(100 * share, 1)} % of the whole` : '';
    const marker = isSought ? { line: trace.marker.line, colors: hit.map((one) => (one ? '@orange' : '@pale')) } : trace.marker;
    return show(plot, [{ ...trace, marker }], spec.plot.layout, spec.height);
  };
  let wait = null;
  const box = make('input', { type: 'search', placeholder: 'Highlight functions', 'aria-label': 'Highlight functions',
    oninput: (event) => { clearTimeout(wait); wait = setTimeout(() => { sought = event.target.value; if (library) draw(); }, 120); } });
  return { draw, before: make('div', { class: 'bar flame-search' }, box, said) };
}

/* The view in the fragment of the address: recording, range, lanes, and selection. */

const FRAGMENT_WAIT_MS = 350;

/** The view as a fragment without its `#`. */
function fragmentOf(tl) {
  const parts = new URLSearchParams();
  const put = (name, value) => { if (value !== null && value !== undefined && value !== '') parts.set(name, String(value)); };
  put('recording', tl.trace);
  put('from', Math.round(tl.view.from));
  put('to', Math.round(tl.view.to));
  if (tl.selection) {
    put('thread', tl.selection.utid);
    put('cpu', tl.selection.cpu);
    put('at', tl.selection.start_ns === undefined ? null : Math.round(tl.selection.start_ns));
  }
  if (tl.range) put('range', `${Math.round(tl.range.from)}-${Math.round(tl.range.to)}`);
  const lanes = [
    ...[...tl.options.collapsed].map((id) => `-${id}`), ...[...tl.options.opened].map((id) => `.${id}`), ...tl.options.pinned.map((id) => `*${id}`),
  ];
  put('lanes', lanes.join(','));
  put('filter', tl.options.filter);
  put('find', tl.search);
  if (tl.options.color !== 'process') put('color', tl.options.color);
  if (tl.options.sort !== 'running') put('sort', tl.options.sort);
  if (tl.options.sort === 'cost') put('finding', tl.finding);
  return parts.toString().replaceAll('%2C', ',').replaceAll('%2A', '*');
}

/** The view that a fragment describes; null for a fragment of the page's own. */
function viewOfFragment(fragment) {
  const text = fragment.replace(/^#/, '');
  if (!/(^|&)recording=\d+/.test(text)) return null;
  const parts = new URLSearchParams(text);
  // Times before the first record are negative.
  const number = (name) => (/^-?\d+$/.test(parts.get(name) || '') ? Number(parts.get(name)) : null);
  const lanes = (parts.get('lanes') || '').split(',').filter(Boolean);
  const marked = (sign) => lanes.filter((id) => id.startsWith(sign)).map((id) => id.slice(1));
  const range = /^(-?\d+)-(-?\d+)$/.exec(parts.get('range') || '');
  return {
    trace: number('recording'), from: number('from'), to: number('to'), utid: number('thread'), cpu: number('cpu'), at: number('at'),
    range: range ? { from: Number(range[1]), to: Number(range[2]) } : null,
    collapsed: marked('-'), opened: marked('.'), pinned: marked('*'), filter: parts.get('filter') || '', find: parts.get('find') || '',
    color: parts.get('color') === 'state' ? 'state' : 'process', sort: parts.get('sort') || 'running', finding: number('finding'),
  };
}

/** Notes the view in the address soon: one entry for Back per pause, not one per wheel step. */
function noteView(tl) {
  clearTimeout(tl.noting);
  tl.element.dataset.noted = 'no';
  tl.noting = setTimeout(() => {
    tl.element.dataset.noted = 'yes';
    if (tl.trace === tl.home) followLanes([tl.view.from, tl.view.to]);
    const fragment = `#${fragmentOf(tl)}`;
    if (fragment === location.hash) return;
    if (tl.touched) history.pushState(null, '', fragment);
    else if (viewOfFragment(location.hash)) history.replaceState(null, '', fragment);
  }, FRAGMENT_WAIT_MS);
}

/* The machine drawn as boxes: packages, last-level caches, cores, logical CPUs. */

function groups(items, key) {
  const found = new Map();
  for (const item of items) {
    if (!found.has(item[key])) found.set(item[key], []);
    found.get(item[key]).push(item);
  }
  return [...found];
}

function cpuBox(cpu) {
  const busy = cpu.busy_pct;
  const state = cpu.online === false ? 'offline' : busy === null ? 'busy share unknown' : `${busy.toFixed(1)} % busy`;
  const fill = busy === null ? null : make('i', {});
  if (fill) fill.style.height = `${Math.min(100, busy)}%`;
  const below = cpu.online === false ? 'off' : busy === null ? '?' : `${Math.round(busy)} %`;
  return make('div', { class: 'cpu', 'data-online': String(cpu.online !== false), title: `CPU ${cpu.cpu}: ${state}` },
    fill, make('span', { class: 'no' }, String(cpu.cpu)), make('span', {}, below));
}

function coreBox([core, cpus]) {
  const type = cpus[0].core_type;
  return make('div', { class: 'core', 'data-type': type, title: cpus[0].detail },
    make('p', { class: 'label' }, make('span', {}, core === null ? 'core ?' : `core ${core}`), type && type !== 'U' ? make('b', {}, type) : null),
    make('div', { class: 'cpus' }, cpus.map(cpuBox)));
}

function topology(spec) {
  const boxes = groups(spec.plot.cpus, 'package').map(([name, inPackage]) => make('div', { class: 'package' },
    make('p', { class: 'label' }, name === null ? 'package unknown' : `package ${name}`),
    make('div', { class: 'caches' }, groups(inPackage, 'llc').map(([llc, inCache]) => make('div', { class: 'llc' },
      make('p', { class: 'label' }, llc === null ? 'last-level cache unknown' : `last-level cache shared by ${inCache.length} logical CPUs`),
      make('div', { class: 'cores' }, groups(inCache, 'core').map(coreBox)))))));
  return make('figure', { 'data-kind': 'topology', 'data-figure': spec.name || null }, make('figcaption', {}, prose(spec.caption)),
    make('div', { class: spec.plot.cpus.length > 64 ? 'many' : null }, boxes));
}

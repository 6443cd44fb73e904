/* The colors and hatches of the lanes, in the current theme. */

const LANE_HUES = ['blue', 'orange', 'green', 'purple', 'teal', 'brown', 'pink', 'red'];
// Codes on CPU lanes that are no thread.
const CPU_CODES = [
  { key: -2, name: 'interrupt', token: 'dark', hatch: null },
  { key: -1, name: 'unknown', token: 'mid', hatch: 'cross' },
  // As pale as idle, but hatched: nothing can run there.
  { key: -3, name: 'offline', token: 'pale', hatch: 'falling', line: 'mid' },
  { key: -4, name: 'thread without a name', token: 'mid', hatch: 'dots' },
];
const GROUP_TOKENS = { running: ['blue', 'green', 'teal', 'orange'], ready: ['red', 'pink', 'brown', 'orange'], waiting: ['mid', 'purple', 'dark', 'teal'], unknown: ['mid'] };

/** Whether dark text is readable on a color. */
function isLight(hex) {
  const [r, g, b] = rgbOf(hex);
  return 0.3 * r + 0.59 * g + 0.11 * b > 140;
}

function paletteEntry(token, hatch, dim) {
  const card = rgbOf(colour('card'));
  const rgb = rgbOf(colour(token));
  const shown = dim ? mixedColors(rgb, card, 0.82) : rgb;
  // The legend follows the theme by itself.
  const css = dim ? `color-mix(in srgb, var(--${token}) 18%, var(--card))` : `var(--${token})`;
  return { rgb: shown, hatch, line: mixedColors(shown, card, 0.45), token, css, lineCss: `color-mix(in srgb, ${css} 55%, var(--card))` };
}

/** Colors of CPU lanes: by process, or by the kind of CPU that a thread runs on. */
function cpuPalette(tl) {
  const { overview, found } = tl;
  const palette = CPU_CODES.map((code) => ({ ...paletteEntry(code.token, code.hatch, Boolean(found)), ...(code.line ? { line: rgbOf(colour(code.line)), lineCss: `var(--${code.line})` } : {}), name: code.name }));
  const codes = new Map(CPU_CODES.map((code, i) => [code.key, i]));
  const order = [...new Set(overview.threads.map((thread) => thread.upid))];
  const names = new Map(overview.processes.map((process) => [process.upid, process.name]));
  const shown = new Map();
  order.forEach((upid, i) => {
    // A second lap over the hues is hatched, so that 16 processes differ; the rest share a color.
    const rank = tl.options.color === 'state' ? 0 : Math.min(i, 2 * LANE_HUES.length);
    if (shown.has(rank)) { shown.get(rank).push(upid); return; }
    shown.set(rank, [upid]);
  });
  const indexOf = new Map();
  for (const [rank, upids] of shown) {
    const token = rank === 2 * LANE_HUES.length ? 'mid' : LANE_HUES[rank % LANE_HUES.length];
    const name = tl.options.color === 'state' ? 'running' : upids.length > 1 ? `${upids.length} other processes` : names.get(upids[0]) || 'no process';
    for (const upid of upids) indexOf.set(upid, palette.length);
    palette.push({ ...paletteEntry(token, rank >= LANE_HUES.length && rank < 2 * LANE_HUES.length ? 'rising' : null, false), name });
  }
  const lost = palette.length;
  palette.push({ ...paletteEntry('mid', null, true), name: 'other threads' });
  const of = new Map(overview.threads.map((thread) => [thread.utid, found && !found.has(thread.utid) ? lost : indexOf.get(thread.upid)]));
  return { palette, colorOf: (key) => (key < 0 ? codes.get(key) ?? 1 : of.get(key) ?? lost) };
}

/** Colors of thread and process lanes: by state. */
function statePalette(tl) {
  const used = {};
  const palette = tl.overview.states.map((state) => {
    const tokens = GROUP_TOKENS[state.group] || GROUP_TOKENS.unknown;
    const at = used[state.group] || 0;
    used[state.group] = at + 1;
    const laps = [null, 'falling', 'dots', 'cross'];
    const hatch = state.hatch === true ? 'rising' : state.hatch || laps[Math.floor(at / tokens.length) % laps.length];
    const entry = paletteEntry(tokens[at % tokens.length], state.group === 'ready' && !hatch ? 'rising' : hatch || null, state.group === 'waiting');
    return { ...entry, name: state.name };
  });
  const places = new Map(tl.overview.states.map((state, i) => [state.key, i]));
  return { palette, colorOf: (key) => places.get(key) ?? -1 };
}

/** Colors of the other kinds of lanes. */
function plainPalette(names) {
  const palette = names.map(([token, hatch, name]) => ({ ...paletteEntry(token, hatch, false), name }));
  return { palette, colorOf: (key) => Math.min(palette.length - 1, Math.max(0, key)) };
}

function lanePalettes(tl) {
  const states = statePalette(tl);
  return {
    cpu: cpuPalette(tl), thread: states, process: states,
    frame: plainPalette([['blue', null, 'frame'], ['red', 'rising', 'stutter']]),
    mark: plainPalette([['teal', null, 'mark'], ['purple', null, 'phase'], ['brown', null, 'phase']]),
    guest: plainPalette([['green', null, 'the host ran it'], ['red', 'rising', 'the host let it wait (steal)'], ['mid', 'falling', 'blocked in the host'], ['mid', 'cross', 'unknown in the host']]),
  };
}

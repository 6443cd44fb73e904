/* Rows of runs over time, reduced to as many columns as a screen can show. */

const COLUMNS = 1600;
// A run of at least this share of the range gets a label.
const LONG = 0.018;

/**
 * The code with the most time in each column of the range [a, b], and the long runs.
 * `runs` has row, start (after `from`), dur and code; `codeOf` maps the codes, and a code that is
 * `sought` wins its columns, however short it is, because the reader searched for it.
 */
function inColumns(runs, rows, from, [a, b], codeOf, sought) {
  const width = (b - a) / COLUMNS;
  const z = Array.from({ length: rows }, () => new Array(COLUMNS).fill(null));
  const long = [];
  let row = -1;
  let at = -1;
  let sums = new Map();
  const settle = () => {
    if (at < 0 || !sums.size) return;
    let best = null;
    for (const [code, sum] of sums) {
      const wanted = sought(code);
      if (best === null || (wanted && !best[2]) || (wanted === best[2] && sum > best[1])) best = [code, sum, wanted];
    }
    z[row][at] = best[0];
  };
  for (let i = 0; i < runs.row.length; i += 1) {
    const begin = Math.max(runs.start[i] + from, a);
    const end = Math.min(runs.start[i] + runs.dur[i] + from, b);
    if (end <= begin) continue;
    const code = codeOf(runs.code[i]);
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
    if (code > 0 && end - begin > (b - a) * LONG) long.push({ row, middle: (begin + end) / 2, code, length: end - begin });
  }
  settle();
  return { z, width, long };
}

/** The colors of the codes as the steps of a heat map's scale. */
function stepped(list) {
  return list.flatMap((c, i) => [[i / list.length, c], [(i + 1) / list.length, c]]);
}

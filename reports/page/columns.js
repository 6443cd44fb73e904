/* Shares of time in as many columns as a screen can show: exact sums, never the longest one. */

const COLUMNS = 1000;
// A run of at least this share of the range gets a label.
const LONG = 0.018;
// A row of a heat map consists of so many lines, stacked by share, and an empty one.
const LINES = 6;

/**
 * The time of each code in each column of the range [a, b], by row, and the long runs.
 * `runs` has row, start (after `from`), dur and code.
 */
function sumsInColumns(runs, rows, codes, from, [a, b]) {
  const width = (b - a) / COLUMNS;
  const sums = Array.from({ length: rows }, () => new Float64Array(COLUMNS * codes));
  const long = [];
  for (let i = 0; i < runs.row.length; i += 1) {
    const begin = Math.max(runs.start[i] + from, a);
    const end = Math.min(runs.start[i] + runs.dur[i] + from, b);
    if (end <= begin) continue;
    const row = runs.row[i];
    const code = runs.code[i];
    const first = Math.min(COLUMNS - 1, Math.floor((begin - a) / width));
    const last = Math.min(COLUMNS - 1, Math.max(first, Math.ceil((end - a) / width) - 1));
    for (let column = first; column <= last; column += 1) {
      const left = Math.max(begin, a + column * width);
      const right = column === last ? end : Math.min(end, a + (column + 1) * width);
      sums[row][column * codes + code] += right - left;
    }
    if (code > 0 && end - begin > (b - a) * LONG) long.push({ row, middle: (begin + end) / 2, code, length: end - begin });
  }
  return { sums, width, long };
}

/**
 * The sums of a row as lines of codes, code 0 at the top: what is not running or ready. What a line
 * rounds off is added to the next column, so that the shares drawn add up to the time.
 */
function stackedLines(sums, codes, width) {
  const lines = Array.from({ length: LINES + 1 }, () => new Array(COLUMNS).fill(null));
  const carried = new Float64Array(codes);
  for (let column = 0; column < COLUMNS; column += 1) {
    let whole = 0;
    let at = 0;
    for (let i = 1; i <= codes; i += 1) {
      const code = i % codes;
      whole += sums[column * codes + code];
      const wanted = (whole / width) * LINES + carried[code];
      const upTo = Math.min(LINES, Math.max(at, Math.round(wanted)));
      carried[code] = Math.min(1, Math.max(-1, wanted - upTo));
      for (; at < upTo; at += 1) lines[at][column] = code;
    }
  }
  return lines;
}

/** The shares of a column in words, largest first. */
function shareWords(sums, codes, width, column) {
  const found = codes.map((code, i) => [code.name, sums[column * codes.length + i] / width]).filter(([, share]) => share > 0.0005);
  return found.sort((x, y) => y[1] - x[1]).map(([name, share]) => (share > 0.9995 ? name : `${name} ${grouped(100 * share, 0)} %`)).join(', ');
}

/** The colors of the codes as the steps of a heat map's scale. */
function stepped(list) {
  return list.flatMap((c, i) => [[i / list.length, c], [(i + 1) / list.length, c]]);
}

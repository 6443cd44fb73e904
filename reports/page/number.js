/* Numbers formatted for people. Unknown is a dash, never 0. */

const TIME_UNITS = [['s', 1e9], ['ms', 1e6], ['µs', 1e3], ['ns', 1]];

function grouped(value, digits) {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** How a column is formatted: its unit, the same for all its values, and a function. */
function column(kind, values) {
  let most = 0;
  let least = Infinity;
  for (const value of values) {
    if (typeof value !== 'number' || !value) continue;
    most = Math.max(most, Math.abs(value));
    least = Math.min(least, Math.abs(value));
  }
  if (kind === 'ns') {
    if (!most) return { unit: 'ms', numeric: true, write: (v) => (v ? String(v) : '0') };
    let place = TIME_UNITS.findIndex(([, s]) => most >= s * (s === 1e9 ? 10 : 1));
    if (place < 0) place = TIME_UNITS.length - 1;
    // Use a smaller unit if the smallest value would otherwise be shown as 0.
    while (place < TIME_UNITS.length - 1 && least < TIME_UNITS[place][1] / 1e3) place += 1;
    const [unit, size] = TIME_UNITS[place];
    const digits = size === 1 ? 0 : 3;
    return { unit, numeric: true, write: (v) => grouped(v / size, digits) };
  }
  if (kind === 'pct') return { unit: '%', numeric: true, write: (v) => grouped(v, 1) };
  if (kind === 'khz') return { unit: 'MHz', numeric: true, write: (v) => grouped(v / 1e3, 0) };
  if (kind === 'int') return { unit: '', numeric: true, write: (v) => (typeof v === 'number' ? grouped(v, 0) : v) };
  if (kind === 'id') return { unit: '', numeric: true, write: (v) => String(v) };
  if (kind === 'num') {
    const digits = most >= 1000 ? 0 : most >= 100 ? 1 : most >= 10 ? 2 : 3;
    return { unit: '', numeric: true, write: (v) => (typeof v === 'number' ? grouped(v, digits) : v) };
  }
  if (kind === 'bool') return { unit: '', numeric: false, write: (v) => (v ? 'yes' : 'no') };
  return { unit: '', numeric: false, write: (v) => String(v) };
}

/** A number with three significant digits, without zeros at its end. */
function significant(value) {
  return grouped(value, Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
}

/** A duration in the unit that suits it, as findings write it. */
function duration(ns) {
  // 999.9 µs is 1 ms.
  const [unit, size] = TIME_UNITS.find(([, s]) => Math.abs(ns) >= s * 0.9995) || TIME_UNITS[3];
  return `${size === 1 ? grouped(ns, 0) : significant(ns / size)} ${unit}`;
}

/** A share; what is too small for one decimal is not 0. */
function percentText(value) {
  return value > 0 && value < 0.05 ? 'under 0.1 %' : `${grouped(value, 1)} %`;
}

/** A duration with every digit: `1.234567 ms`, without zeros at its end. */
function exactDuration(ns) {
  const [unit, size] = TIME_UNITS.find(([, s]) => Math.abs(ns) >= s) || TIME_UNITS[3];
  const text = grouped(ns / size, Math.round(Math.log10(size)));
  return `${text.includes('.') ? text.replace(/\.?0+$/, '') : text} ${unit}`;
}

/** A large number with its prefix: `4.9 G`, `320 k`. */
function brief(value) {
  const [letter, size] = [['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e4]].find(([, s]) => Math.abs(value) >= s) || ['', 1];
  return `${significant(value / (letter === 'k' ? 1e3 : size))}${letter ? ` ${letter}` : ''}`;
}

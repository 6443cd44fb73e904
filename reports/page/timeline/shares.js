/* Exact time per color in each pixel column of a lane: shares, never a winner. */

/** The rows of each lane of a part, as places into its columns. */
function rowsByLane(part) {
  const lanes = part.columns.lane;
  const found = new Map();
  let begin = 0;
  for (let i = 1; i <= lanes.length; i += 1) {
    if (i < lanes.length && lanes[i] === lanes[begin]) continue;
    if (found.has(lanes[begin])) found.get(lanes[begin]).push([begin, i]);
    else found.set(lanes[begin], [[begin, i]]);
    begin = i;
  }
  return found;
}

/**
 * A part of an answer: the columns of a stream, for the range that it covers. A column of shares
 * that reaches beyond `last`, the end of the recording, is shorter than the others.
 */
function lanePart(table, from, to, last = to) {
  const shape = table.metadata.shape || (table.columns.column ? 'shares' : 'slices');
  const part = { shape, columns: table.columns, from, to, last, columnNs: Number(table.metadata.column_ns || 0), start: Number(table.metadata.start_ns ?? from) };
  part.lanes = rowsByLane(part);
  return part;
}

/** Begin, end, key, and time of each row of a lane within a range. */
function eachRow(part, lane, from, to, visit) {
  const { columns } = part;
  for (const [begin, end] of part.lanes.get(lane) || []) {
    for (let i = firstRow(part, begin, end, from); i < end; i += 1) {
      const start = part.shape === 'shares' ? part.start + columns.column[i] * part.columnNs : columns.start_ns[i];
      if (start >= to) break;
      // An instant is as short as time gets, but visible.
      const stop = part.shape === 'shares' ? Math.min(start + part.columnNs, part.last) : start + Math.max(1, columns.dur_ns[i]);
      if (stop > from) visit(start, stop, columns.key ? columns.key[i] : 0, part.shape === 'shares' ? columns.ns[i] : stop - start, i);
    }
  }
}

/** The first row that can reach `from`; rows of a lane are in order of time. */
function firstRow(part, begin, end, from) {
  const { columns } = part;
  const startOf = part.shape === 'shares' ? (i) => part.start + columns.column[i] * part.columnNs : (i) => columns.start_ns[i];
  let low = begin;
  let high = end;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (startOf(middle) < from) low = middle + 1; else high = middle;
  }
  if (part.shape === 'slices') return Math.max(begin, low - 1);
  // All keys of the column that contains `from`.
  while (low > begin && startOf(low - 1) + part.columnNs > from) low -= 1;
  return low;
}

/**
 * Adds the time of a lane to `sums` (pixel columns by colors, in ns).
 *
 * A row longer than a pixel fills every pixel it covers and its share of the first and the last.
 */
function addShares(sums, colors, part, lane, view, pixels, colorOf) {
  const perPixel = (view.to - view.from) / pixels;
  const from = Math.max(view.from, part.from);
  const to = Math.min(view.to, part.to);
  const add = (start, stop, key, ns) => {
    const color = colorOf(key);
    if (color < 0) return;
    const begin = start > from ? start : from;
    const end = stop < to ? stop : to;
    const density = ns / (stop - start);
    const first = Math.floor((begin - view.from) / perPixel);
    const last = Math.min(pixels - 1, Math.floor((end - view.from) / perPixel));
    if (first >= last) { sums[Math.min(first, pixels - 1) * colors + color] += (end - begin) * density; return; }
    sums[first * colors + color] += (view.from + (first + 1) * perPixel - begin) * density;
    for (let pixel = first + 1; pixel < last; pixel += 1) sums[pixel * colors + color] += perPixel * density;
    sums[last * colors + color] += (end - view.from - last * perPixel) * density;
  };
  if (part.shape === 'shares') { eachRow(part, lane, from, to, add); return; }
  // A million slices must not take longer than a reader notices: no call per row but the one above.
  const { start_ns: starts, dur_ns: lengths, key: keys } = part.columns;
  for (const [begin, end] of part.lanes.get(lane) || []) {
    for (let i = firstRow(part, begin, end, from); i < end && starts[i] < to; i += 1) {
      const length = lengths[i] > 0 ? lengths[i] : 1;
      if (starts[i] + length > from) add(starts[i], starts[i] + length, keys ? keys[i] : 0, length);
    }
  }
}

/** How many rows of a lane are in a range, at most. */
function rowsIn(part, lane, from, to) {
  let sum = 0;
  for (const [begin, end] of part.lanes.get(lane) || []) sum += firstRow(part, begin, end, to) - firstRow(part, begin, end, from) + 1;
  return sum;
}

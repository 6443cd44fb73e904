/* Reads Arrow IPC streams: uncompressed, of the types int32, int64, double, and utf8. */

const ARROW_HEADERS = { SCHEMA: 1, BATCH: 3 };
const ARROW_TYPES = { INT: 2, FLOAT: 3, UTF8: 5 };

/** A table of a flatbuffer: `at(field)` is the place of a field, 0 if it is absent. */
function flatTable(data, start) {
  const fields = start - data.getInt32(start, true);
  const size = data.getUint16(fields, true);
  const at = (field) => {
    const place = 4 + 2 * field;
    const offset = place < size ? data.getUint16(fields + place, true) : 0;
    return offset ? start + offset : 0;
  };
  const follow = (place) => place + data.getUint32(place, true);
  const vector = (field) => {
    const place = at(field);
    if (!place) return { length: 0, start: 0 };
    const found = follow(place);
    return { length: data.getUint32(found, true), start: found + 4 };
  };
  return {
    vector,
    at,
    table: (field) => flatTable(data, follow(at(field))),
    tables: (field) => {
      const { length, start: first } = vector(field);
      return Array.from({ length }, (_, i) => flatTable(data, follow(first + 4 * i)));
    },
    text: (field) => {
      const { length, start: first } = vector(field);
      return new TextDecoder().decode(new Uint8Array(data.buffer, data.byteOffset + first, length));
    },
    small: (field) => (at(field) ? data.getUint8(at(field)) : 0),
    short: (field) => (at(field) ? data.getInt16(at(field), true) : 0),
    number: (field) => (at(field) ? data.getInt32(at(field), true) : 0),
    long: (field) => (at(field) ? Number(data.getBigInt64(at(field), true)) : 0),
  };
}

/** Times and sums fit a double: they are ns within one recording, far below 2^53. */
function longs(data, start, rows) {
  const found = new Float64Array(rows);
  for (let i = 0, place = start; i < rows; i += 1, place += 8) {
    found[i] = data.getInt32(place + 4, true) * 4294967296 + data.getUint32(place, true);
  }
  return found;
}

function arrowField(field) {
  const kind = field.small(2);
  const type = field.table(3);
  const name = field.text(0);
  if (kind === ARROW_TYPES.INT && type.number(0) === 32) return { name, kind: 'int32' };
  if (kind === ARROW_TYPES.INT && type.number(0) === 64) return { name, kind: 'int64' };
  if (kind === ARROW_TYPES.FLOAT && type.short(0) === 2) return { name, kind: 'double' };
  if (kind === ARROW_TYPES.UTF8) return { name, kind: 'utf8' };
  throw new Error(`cannot read the column ${name}: its Arrow type ${kind} is not supported`);
}

/** The values of a column of one batch; an unknown number is NaN, an unknown text null. */
function arrowColumn(data, field, rows, buffers, nulls) {
  const absent = (i) => nulls > 0 && buffers[0][1] > 0 && !((data.getUint8(buffers[0][0] + (i >> 3)) >> (i & 7)) & 1);
  const values = buffers[1][0];
  if (field.kind === 'utf8') {
    const text = new TextDecoder();
    return Array.from({ length: rows }, (_, i) => {
      if (absent(i)) return null;
      const begin = data.getInt32(values + 4 * i, true);
      const end = data.getInt32(values + 4 * i + 4, true);
      return text.decode(new Uint8Array(data.buffer, data.byteOffset + buffers[2][0] + begin, end - begin));
    });
  }
  const read = {
    int32: () => Float64Array.from({ length: rows }, (_, i) => data.getInt32(values + 4 * i, true)),
    int64: () => longs(data, values, rows),
    double: () => Float64Array.from({ length: rows }, (_, i) => data.getFloat64(values + 8 * i, true)),
  };
  const found = read[field.kind]();
  if (nulls > 0) for (let i = 0; i < rows; i += 1) if (absent(i)) found[i] = Number.NaN;
  return found;
}

function arrowBatch(data, header, body, fields) {
  if (header.at(3)) throw new Error('cannot read a compressed Arrow stream');
  const rows = header.long(0);
  const nodes = header.vector(1).start;
  const places = header.vector(2).start;
  let next = 0;
  return fields.map((field, i) => {
    const buffers = Array.from({ length: field.kind === 'utf8' ? 3 : 2 }, () => {
      const place = places + 16 * next;
      next += 1;
      return [body + Number(data.getBigInt64(place, true)), Number(data.getBigInt64(place + 8, true))];
    });
    return arrowColumn(data, field, rows, buffers, Number(data.getBigInt64(nodes + 16 * i + 8, true)));
  });
}

function joinedColumns(parts) {
  if (parts.length === 1) return parts[0];
  if (Array.isArray(parts[0])) return parts.flat();
  const all = new Float64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { all.set(part, at); at += part.length; }
  return all;
}

/** The columns of a stream by name, its number of rows, and the metadata of its schema. */
function readArrow(bytes) {
  const data = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const metadata = {};
  let fields = [];
  const batches = [];
  let place = 0;
  while (place + 8 <= bytes.byteLength) {
    const length = data.getInt32(place + 4, true);
    if (length === 0) break;
    const start = place + 8;
    const message = flatTable(data, start + data.getUint32(start, true));
    const kind = message.small(1);
    const header = message.table(2);
    const body = start + length;
    if (kind === ARROW_HEADERS.SCHEMA) {
      fields = header.tables(1).map(arrowField);
      for (const pair of header.tables(2)) metadata[pair.text(0)] = pair.text(1);
    } else if (kind === ARROW_HEADERS.BATCH) batches.push(arrowBatch(data, header, body, fields));
    place = body + message.long(3);
  }
  const columns = {};
  fields.forEach((field, i) => {
    columns[field.name] = batches.length ? joinedColumns(batches.map((batch) => batch[i])) : field.kind === 'utf8' ? [] : new Float64Array(0);
  });
  return { columns, metadata, rows: fields.length ? columns[fields[0].name].length : 0 };
}

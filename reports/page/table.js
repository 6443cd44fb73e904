/* A table of an answer: sortable, with a filter box if it is long, and its SQL below. */

const FIRST_ROWS = 10;
const PRINTED_COLUMNS = 10;
let tables = 0;

function compare(a, b) {
  if (a === b) return 0;
  if (a === null) return 1;
  if (b === null) return -1;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a).localeCompare(String(b), 'en', { numeric: true });
}

/** A value with its bounds if records were lost: at least, a range, or no bounds. */
function bounded(value, limits, style) {
  if (!limits) return style.write(value);
  const [, low, high] = limits;
  if (low === null && high === null) return `≈ ${style.write(value)}`;
  if (high === null) return `≥ ${style.write(low)}`;
  if (low === null) return `≤ ${style.write(high)}`;
  const ends = [style.write(low), style.write(high)];
  return ends[0] === ends[1] ? ends[0] : ends.join('–');
}

function tableOf(answer) {
  if (!answer.columns.length || !answer.rows.length) return make('div', { class: 'answer' }, make('div', { class: 'bar' }, make('h3', {}, answer.title), make('span', { class: 'said' }, 'no rows')), sqlBlock(answer.sql), meaning(answer));
  const styles = answer.columns.map((c, i) => column(c.kind, answer.rows.map((row) => row[i])));
  const limits = new Map(Object.entries(answer.limits || {}).map(([row, found]) => [answer.rows[row], found]));
  const write = (row, i) => bounded(row[i], (limits.get(row) || []).find(([place]) => place === i), styles[i]);
  const body = make('tbody');
  const headers = answer.columns.map((c, i) => make('th', { scope: 'col', class: styles[i].numeric ? 'number' : null },
    make('button', { type: 'button', title: `${c.name}: ${c.text}`, onclick: () => sortBy(i) },
      styles[i].unit ? `${c.title} (${styles[i].unit})` : c.title)));
  const found = make('span', { class: 'said', role: 'status' });
  const more = make('button', { type: 'button', class: 'more', onclick: () => { all = true; draw(); } });
  let order = null;
  let words = [];
  let all = false;
  let sought = null;
  const named = answer.columns.flatMap((c, i) => (THREAD_COLUMN.test(c.name) ? [i] : []));

  function sortBy(index) {
    const descending = order && order.index === index ? !order.descending : styles[index].numeric;
    order = { index, descending };
    headers.forEach((h, i) => {
      if (i === index) h.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else h.removeAttribute('aria-sort');
    });
    draw();
  }

  function draw() {
    let rows = answer.rows;
    if (words.length) {
      rows = rows.filter((row) => {
        const text = row.map((v, i) => (v === null ? '' : write(row, i))).join(' ').toLowerCase();
        return words.every((word) => text.includes(word));
      });
    }
    if (sought) rows = rows.filter((row) => sought(named.map((i) => (row[i] === null ? '' : String(row[i]))).join(' ')));
    if (order) {
      const sign = order.descending ? -1 : 1;
      const at = order.index;
      // Unknown sorts last in both directions.
      rows = [...rows].sort((a, b) => (a[at] === null || b[at] === null ? compare(a[at], b[at]) : sign * compare(a[at], b[at])));
    }
    const shown = all ? rows : rows.slice(0, FIRST_ROWS);
    body.replaceChildren(...shown.map((row) => make('tr', {}, row.map((value, i) => {
      if (value === null) return make('td', { class: `unknown ${styles[i].numeric ? 'number' : ''}`, title: 'unknown' }, '–');
      const text = write(row, i);
      return make('td', { class: styles[i].numeric ? 'number' : null, title: text.length > 30 ? text : null }, text);
    }))));
    more.hidden = shown.length === rows.length;
    more.textContent = `Show all ${grouped(rows.length, 0)} rows`;
    const cut = answer.total > answer.rows.length ? `the first ${grouped(answer.rows.length, 0)} of ${grouped(answer.total, 0)} rows; the SQL returns all` : `${grouped(answer.total, 0)} ${answer.total === 1 ? 'row' : 'rows'}`;
    found.textContent = words.length || sought ? `${grouped(rows.length, 0)} match in ${cut}` : cut;
    return rows.length;
  }

  draw();
  if (named.length) {
    onSearch((test) => {
      if (!test && !sought) return {};
      sought = test;
      const hits = draw();
      if (test) place.dataset.hits = hits; else delete place.dataset.hits;
      return { hits: test ? hits : 0 };
    });
  }
  const filter = answer.rows.length > FIRST_ROWS
    ? make('input', { type: 'search', placeholder: 'Filter rows', 'aria-label': `Filter rows of ${answer.title}`, oninput: (e) => { words = e.target.value.toLowerCase().split(/\s+/).filter(Boolean); draw(); } })
    : null;
  tables += 1;
  const grid = [
    make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `Table ${answer.title}` },
      make('table', { 'data-wide': answer.columns.length > PRINTED_COLUMNS }, make('caption', { class: 'unseen' }, answer.text), make('thead', {}, make('tr', {}, headers)), body)),
    more,
    limits.size ? make('p', { class: 'window' }, 'Events were lost. ≥: at least this. a–b: between these. ≈: no bounds known.') : null,
    answer.columns.length > PRINTED_COLUMNS ? make('p', { class: 'printed' }, `Printed: the first ${PRINTED_COLUMNS} of ${answer.columns.length} columns. The SQL returns all.`) : null,
  ];
  const place = make('div', { class: 'answer', id: `table-${tables}` },
    answer.folded
      ? make('details', {}, make('summary', {}, `${answer.title}: the table`), make('div', { class: 'bar' }, found, filter), grid)
      : [make('div', { class: 'bar' }, make('h3', {}, answer.title), found, filter), grid],
    sqlBlock(answer.sql),
    meaning(answer));
  return place;
}

/** What the columns mean and the SQL behind the name, folded. */
function meaning(answer) {
  if (!answer.definition) return null;
  return make('details', {}, make('summary', {}, 'What the columns mean and how they are computed'),
    make('p', { class: 'window' }, answer.text),
    make('dl', { class: 'columns' }, answer.documented.map(([name, text]) => [make('dt', {}, name), make('dd', {}, text)])),
    sqlBlock(answer.definition));
}

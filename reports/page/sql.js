/* The SQL page of `schedlens serve`: one statement, and its rows as text. */
(() => {
  const token = new URLSearchParams(location.search).get('token') || '';
  const byId = (id) => document.getElementById(id);
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const paint = () => { document.documentElement.dataset.theme = dark.matches ? 'dark' : 'light'; };
  dark.addEventListener('change', paint);
  paint();
  byId('home').href = `/?token=${encodeURIComponent(token)}`;

  function cellOf(tag, value) {
    const cell = document.createElement(tag);
    if (typeof value === 'number') cell.className = 'number';
    cell.textContent = value === null ? 'NULL' : typeof value === 'object' ? JSON.stringify(value) : String(value);
    return cell;
  }

  function rowOf(tag, values) {
    const row = document.createElement('tr');
    row.append(...values.map((value) => cellOf(tag, value)));
    return row;
  }

  function show(answer) {
    const table = document.createElement('table');
    const head = document.createElement('thead');
    const body = document.createElement('tbody');
    const heads = rowOf('th', answer.columns);
    heads.childNodes.forEach((cell, i) => { if (answer.rows.some((row) => typeof row[i] === 'number')) cell.className = 'number'; });
    head.append(heads);
    body.append(...answer.rows.map((row) => rowOf('td', row)));
    table.append(head, body);
    byId('rows').replaceChildren(table);
    const more = answer.more ? `; ${answer.more_known ? '' : 'at least '}${answer.more} more are not shown: restrict the statement` : '';
    byId('said').textContent = `${answer.rows.length} ${answer.rows.length === 1 ? 'row' : 'rows'}${more}`;
  }

  async function run() {
    byId('said').textContent = 'Running …';
    byId('rows').replaceChildren();
    try {
      const answer = await fetch('/sql/run', { method: 'POST', cache: 'no-store', headers: { 'X-Schedlens-Token': token, 'Content-Type': 'application/json' }, body: JSON.stringify({ sql: byId('sql').value }) });
      if (answer.ok) show(await answer.json());
      else byId('said').textContent = await answer.text();
    } catch {
      byId('said').textContent = 'schedlens serve does not answer: start it again';
    }
  }

  byId('run').addEventListener('click', run);
  byId('sql').addEventListener('keydown', (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run(); });
  byId('query').addEventListener('change', (event) => {
    if (!event.target.value) return;
    byId('sql').value = `SELECT * FROM ${event.target.value}`;
    byId('text').textContent = event.target.selectedOptions[0].textContent;
    run();
  });
})();

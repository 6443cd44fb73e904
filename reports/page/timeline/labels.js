/* The names to the left of the lanes: open and close, pin, and the table behind each lane. */

function toggleRow(tl, row) {
  const { collapsed, opened } = tl.options;
  if (row.open) { opened.delete(row.id); collapsed.add(row.id); } else { collapsed.delete(row.id); if (row.id.startsWith('process-')) opened.add(row.id); }
  tl.touched = true;
  relayout(tl);
}

function pinRow(tl, row) {
  const { pinned } = tl.options;
  const at = pinned.indexOf(row.id);
  if (at >= 0) pinned.splice(at, 1); else pinned.push(row.id);
  tl.touched = true;
  relayout(tl);
  say(at >= 0 ? `${row.label} unpinned` : `${row.label} pinned to the top`);
}

function labelOf(tl, row) {
  const name = row.opens
    ? make('button', { type: 'button', class: 'lane-name', 'aria-expanded': String(row.open), title: row.label, onclick: () => toggleRow(tl, row) }, `${row.open ? '▾' : '▸'} ${row.label}`)
    : make('button', { type: 'button', class: 'lane-name', title: `${row.title || row.label}: open the table of this lane`, onclick: () => showLaneTable(tl, row) }, row.label);
  const pin = row.kind === 'head' ? null : make('button', { type: 'button', class: 'lane-pin', 'aria-pressed': String(Boolean(row.pinned)), 'aria-label': `Pin ${row.label}`, title: 'Pin to the top', onclick: () => pinRow(tl, row) }, row.pinned ? '★' : '☆');
  const element = make('div', { class: `lane-label row-${row.kind}${row.pinned ? ' pinned' : ''}` }, name, pin);
  element.style.paddingLeft = `${4 + row.depth * 10}px`;
  return element;
}

/** Places the labels of the visible rows; a label remains the same element while its row is there. */
function placeLabels(tl) {
  const kept = tl.labelRows;
  const visible = new Set();
  for (const row of tl.rows) {
    if (!isVisible(tl, row)) continue;
    visible.add(row.id);
    const known = kept.get(row.id);
    if (!known || known.row !== row) {
      const element = labelOf(tl, row);
      const focused = known?.element.contains(document.activeElement) ? document.activeElement.className : null;
      if (known) known.element.replaceWith(element); else tl.labels.append(element);
      if (focused) element.querySelector(`.${focused}`)?.focus({ preventScroll: true });
      kept.set(row.id, { row, element });
    }
    const { element } = kept.get(row.id);
    element.style.top = `${topOf(tl, row)}px`;
    element.style.height = `${row.height}px`;
  }
  for (const [id, { element }] of kept) if (!visible.has(id)) { element.remove(); kept.delete(id); }
}

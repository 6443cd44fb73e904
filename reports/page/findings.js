/* The findings: what is wrong, what it costs and what to try first; then each with its evidence. */

const SEVERITY = { critical: 'Critical', warning: 'Warning', info: 'Worth knowing', clean: 'No problems' };
const MARKDOWN_ROWS = 5;

/** A share of the window; more than all of it is added up over CPUs or threads. */
function shareText(card) {
  return card.cost_pct > 100 && card.share_of === 'of the window'
    ? `${grouped(card.cost_pct / 100, 1)} times the window, added up`
    : `${grouped(card.cost_pct, 1)} % ${card.share_of}`;
}

/** The cost of a finding with its bound. */
function costText(card) {
  if (card.bound === 'range' && card.cost_low_ns !== null && card.cost_high_ns !== null) return `${duration(card.cost_low_ns)} to ${duration(card.cost_high_ns)}`;
  return `${{ exact: '', at_least: 'at least ', range: 'up to ' }[card.bound] ?? 'about '}${duration(card.cost_ns)}`;
}

/** What a finding costs, in the words of the page: time, share of the window, time a frame. */
function costParts(card) {
  if (card.cost_ns === null) return [];
  const frame = card.per_frame;
  const usual = frame?.usual_ns ? `, frames usually last ${duration(frame.usual_ns)}` : '';
  return [
    costText(card),
    card.cost_pct === null ? null : shareText(card),
    frame ? `${duration(frame.ns)} a frame (${grouped(frame.frames, 0)} frames${usual})` : null,
  ].filter(Boolean);
}

/** Text that Markdown shows as it is. */
function plainMarkdown(text) {
  return text.replace(/[\\`*_[\]<>|]/g, '\\$&');
}

function markdownTable(answer) {
  if (!answer?.rows.length) return null;
  const styles = answer.columns.map((c, i) => column(c.kind, answer.rows.map((row) => row[i])));
  const line = (cells) => `| ${cells.map((cell) => plainMarkdown(cell).replace(/\s+/g, ' ')).join(' | ')} |`;
  const rows = answer.rows.slice(0, MARKDOWN_ROWS).map((row) => line(row.map((v, i) => (v === null ? '–' : styles[i].write(v)))));
  const more = answer.total - rows.length;
  return [line(answer.columns.map((c, i) => (styles[i].unit ? `${c.title} (${styles[i].unit})` : c.title))),
    `|${styles.map((style) => (style.numeric ? ' --: |' : ' --- |')).join('')}`, ...rows,
    more > 0 ? `\n${grouped(more, 0)} more by the SQL.` : null].filter((one) => one !== null).join('\n');
}

function markdown(card) {
  const cost = costParts(card);
  const fence = '```';
  return [`**${SEVERITY[card.severity]}: ${plainMarkdown(card.title)}**`, plainMarkdown(card.detail),
    cost.length ? `Cost: ${cost.join('; ')}` : null, card.where ? `Where: ${plainMarkdown(card.where)}` : null,
    card.advice ? `What to try: ${card.advice}` : null, 'Evidence:', markdownTable(card.evidence), `${fence}sql\n${card.evidence.sql};\n${fence}`,
    card.counter ? `Why this may be wrong:\n\n${fence}sql\n${card.counter.sql};\n${fence}` : null].filter(Boolean).join('\n\n');
}

function findingCard(card, place) {
  const cost = costParts(card);
  return make('article', { class: 'finding', id: `finding-${place + 1}`, 'data-severity': card.severity },
    make('header', {}, make('span', { class: `badge ${card.severity}` }, SEVERITY[card.severity]),
      make('h3', {}, card.title), cost.length ? make('span', { class: 'cost' }, cost.slice(0, 2).join(', ')) : null),
    make('p', { class: 'detail' }, card.detail),
    card.where ? make('p', { class: 'where' }, card.where) : null,
    card.advice ? make('p', { class: 'advice' }, make('b', {}, 'What to do: '), prose(card.advice)) : null,
    make('details', {}, make('summary', {}, 'Evidence'), tableOf(card.evidence)),
    card.counter ? make('details', {}, make('summary', {}, 'Why this may be wrong'), tableOf(card.counter)) : null,
    card.others ? make('details', {}, make('summary', {}, `${card.others.total} more like this`), tableOf(card.others)) : null,
    make('p', { class: 'then' }, card.section ? make('a', { href: `#${card.section}` }, 'See the figure') : null,
      copyButton('Copy as Markdown', 'finding', () => markdown(card))));
}

/** One row of the first screen: what is wrong, what it costs, what to try. */
function topRow(card, place) {
  const [time, ...shares] = costParts(card);
  const advice = card.advice.split('\n')[0];
  return make('li', { 'data-severity': card.severity },
    make('div', { class: 'wrong' }, make('span', { class: `badge ${card.severity}` }, SEVERITY[card.severity]),
      make('p', { class: 'plain-words' }, card.title), make('p', { class: 'exactly' }, card.detail)),
    make('div', { class: 'costs' }, make('p', { class: 'label' }, 'What it costs'),
      time ? make('p', { class: 'amount' }, time) : make('p', { class: 'exactly' }, 'Not quantified'),
      shares.map((share) => make('p', { class: 'exactly' }, share))),
    make('div', { class: 'try' }, make('p', { class: 'label' }, 'What to try'),
      make('p', {}, advice ? prose(advice) : '–'),
      make('p', { class: 'exactly' }, make('a', { href: `#finding-${place + 1}` }, 'Evidence'),
        card.section ? [' · ', make('a', { href: `#${card.section}` }, 'Figure')] : null)));
}

/** What analyzers without findings concluded, folded. */
function reasons(heading, lines) {
  return lines.length ? make('details', {}, make('summary', {}, `${heading} (${lines.length})`),
    make('ul', { class: 'plain' }, lines.map((line) => make('li', {}, line)))) : null;
}

function verdict(page) {
  const found = page.findings;
  const cards = found.cards;
  const all = () => [`# ${document.title}`, plainMarkdown(found.headline), page.facts.map(([name, value]) => `- ${name}: ${plainMarkdown(value)}`).join('\n'),
    ...cards.filter((card) => card.severity !== 'info').map(markdown)].join('\n\n');
  return make('section', { id: 'findings', 'aria-labelledby': 'findings-h' },
    make('header', { class: 'head' }, make('h2', { id: 'findings-h' }, 'Findings'),
      make('p', { class: 'verdict' }, found.headline),
      cards.length ? copyButton('Copy all as Markdown', 'findings', all) : null),
    found.top.length ? make('ol', { class: 'first' }, found.top.map((place) => topRow(cards[place], place))) : null,
    make('dl', { class: 'facts' }, page.facts.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value)))),
    cards.length ? make('h3', { class: 'all' }, 'All findings, with evidence') : null,
    make('ul', { class: 'tally' }, found.tally.map(([severity, count]) => make('li', { class: `badge ${severity}` }, `${SEVERITY[severity]}: ${count}`))),
    cards.map(findingCard),
    reasons('No problems found', found.clean), reasons('Not applicable', found.not_applicable),
    reasons('Not analyzed: the recording lacks these events', found.not_recorded),
    reasons('Left out: the queries need more memory than allowed', found.left_out),
    sqlBlock(found.sql));
}

/* The findings: what is wrong, what it costs and what to try first; then each with its evidence. */

const SEVERITY = { critical: 'Critical', warning: 'Warning', info: 'Worth knowing', clean: 'No problems' };
const MARKDOWN_ROWS = 5;
const FEW_OTHERS = 6;

/** A share of the window; more than all of it is added up over CPUs or threads. */
function shareText(card) {
  return card.cost_pct > 100 && card.share_of === 'of the window'
    ? `${grouped(card.cost_pct / 100, 1)} times the window, added up`
    : `${percentText(card.cost_pct)} ${card.share_of}`;
}

/** The cost of a finding with its bound. */
function costText(card) {
  if (card.bound === 'range' && card.cost_low_ns !== null && card.cost_high_ns !== null) {
    const [low, high] = [duration(card.cost_low_ns), duration(card.cost_high_ns)];
    return low === high ? `about ${low}` : `${low} to ${high}`;
  }
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
    frame ? `${duration(frame.ns)} a frame${frame.usual_ns !== null && frame.ns > frame.usual_ns ? ', added up over threads' : ''} (${grouped(frame.frames, 0)} frames${usual})` : null,
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
    card.advice ? `What to try: ${card.advice}` : null, card.gain ? plainMarkdown(card.gain) : null, 'Evidence:', markdownTable(card.evidence), `${fence}sql\n${card.evidence.sql};\n${fence}`,
    card.counter ? `Why this may be wrong:\n\n${fence}sql\n${card.counter.sql};\n${fence}` : null].filter(Boolean).join('\n\n');
}

/** Evidence, why it may be wrong, others of its kind, and the ways out of a finding. */
function behind(card) {
  return [
    make('details', {}, make('summary', {}, 'Evidence'), tableOf(card.evidence)),
    card.counter ? make('details', {}, make('summary', {}, 'Why this may be wrong'), tableOf(card.counter)) : null,
    card.others ? make('details', {}, make('summary', {}, `${card.others.total} more like this`), tableOf(card.others)) : null,
    make('p', { class: 'then' },
      card.moment ? make('a', { href: card.moment.href }, 'Show in the timeline') : null,
      card.section ? make('a', { href: `#${card.section}` }, 'See the figure') : null,
      copyButton('Copy as Markdown', 'finding', () => markdown(card)))];
}

/** A finding that is not on the first screen: one line until it is opened. */
function findingCard(card, place) {
  const cost = costParts(card);
  return make('details', { class: 'finding', id: `finding-${place + 1}`, 'data-severity': card.severity },
    make('summary', {}, make('span', { class: `badge ${card.severity}` }, SEVERITY[card.severity]), ' ',
      make('b', {}, card.title), cost.length ? make('span', { class: 'cost' }, cost.slice(0, 2).join(', ')) : null),
    make('p', { class: 'detail' }, card.detail),
    card.where ? make('p', { class: 'where' }, card.where) : null,
    card.advice ? make('p', { class: 'advice' }, make('b', {}, 'What to do: '), prose(card.advice)) : null,
    gainOf(card),
    behind(card));
}

/** What a finding costs in the unit of the session first: time a frame, share of throughput, or time. */
function costFirst(card, kind) {
  const parts = costParts(card);
  const frame = kind === 'frames' && card.per_frame ? parts.find((part) => part.includes(' a frame (')) : null;
  const share = kind === 'sweep' && card.cost_pct !== null ? shareText(card) : null;
  if (frame) {
    const [amount, rest] = frame.split(' (');
    return [amount, `(${rest}`, ...parts.filter((part) => part !== frame)];
  }
  return share ? [share, ...parts.filter((part) => part !== share)] : parts;
}

/** One row of the first screen: what is wrong, what it costs, what to do, and its moment. */
function topRow(card, place, kind, before) {
  const [amount, ...shares] = costFirst(card, kind);
  const advice = card.advice.split('\n')[0];
  return make('li', { 'data-severity': card.severity, id: `finding-${place + 1}`, class: 'top-finding' },
    make('div', { class: 'wrong' }, make('span', { class: `badge ${card.severity}` }, SEVERITY[card.severity]),
      make('p', { class: 'plain-words' }, card.title), make('p', { class: 'exactly' }, card.detail)),
    make('div', { class: 'costs' }, make('p', { class: 'label' }, 'What it costs'),
      amount ? make('p', { class: 'amount' }, amount) : card.cost_pct !== null ? make('p', { class: 'amount' }, shareText(card)) : make('p', { class: 'exactly' }, 'Not quantified'),
      shares.map((one) => make('p', { class: 'exactly' }, one))),
    make('div', { class: 'try' }, make('p', { class: 'label' }, 'What to do'),
      make('p', {}, advice ? prose(advice) : 'Nothing: this is a result, not a problem.'), gainOf(card, before)),
    card.moment?.lanes.length ? momentPicture(card.moment) : make('span', { class: 'moment' }),
    make('div', { class: 'more-of-it' }, behind(card)));
}

/** What fixing it would gain, or why nothing is predicted; `before` are the findings above it. */
function gainOf(card, before = []) {
  if (card.gain) return make('p', { class: 'exactly' }, card.gain);
  // Without frames, many findings advise nothing that a replay can try.
  if (!card.no_gain || !card.per_frame || card.severity === 'info') return null;
  const again = before.some((one) => one.no_gain === card.no_gain && !one.gain);
  return make('p', { class: 'exactly' }, again ? 'Gain not predicted, for the same reason.' : `Gain not predicted: ${card.no_gain}. Ranked by its cost.`);
}

/** The fixes that gain most, as replays predict them. */
function todoOf(found) {
  if (!found.todo?.length) return null;
  const ms = (ns) => grouped(ns / 1e6, 2);
  const { several } = found;
  const figure = { frames: 'mean frame, ms', throughput: 'throughput, CPUs', responses: 'p95 response, ms' };
  const units = [...new Set(found.todo.map((row) => row.unit))];
  const one = units.length === 1 ? figure[units[0]] : null;
  const size = (row) => (row.unit === 'throughput' ? (value) => grouped(value, 2) : ms);
  const range = (row) => `${size(row)(row.before)} to ${size(row)(row.after)} (${size(row)(row.low)}–${size(row)(row.high)})`;
  const heads = ['Change', several ? 'Recording' : null, one ? one[0].toUpperCase() + one.slice(1) : 'Figure', 'Better by', 'Stutters', 'Finding'].filter(Boolean);
  return make('div', { class: 'todo' }, make('h3', {}, 'What to do first'),
    make('table', {}, make('thead', {}, make('tr', {}, heads.map((head) => make('th', { scope: 'col' }, head)))),
      make('tbody', {}, found.todo.map((row) => make('tr', {}, [
        make('code', {}, row.change), several ? row.recording : null, one ? range(row) : `${figure[row.unit]}: ${range(row)}`,
        percentText(row.gain_pct), row.fixed_stutters === null ? '–' : `${grouped(row.stutters, 0)} to ${grouped(row.fixed_stutters, 0)}`,
        row.finding === null ? '' : make('a', { href: `#finding-${row.finding + 1}` }, 'open'),
      ].filter((cell) => cell !== null).map((cell) => make('td', {}, cell)))))),
    make('p', { class: 'window' }, prose('Predicted by replaying the recorded schedule with each change that the findings advise: `schedlens what-if` tries others.')));
}

/** What was concluded without a finding, one folded line. */
function reasons(heading, lines) {
  return lines.length ? make('details', {}, make('summary', {}, `${heading} (${lines.length})`),
    make('ul', { class: 'plain' }, lines.map((line) => make('li', {}, line)))) : null;
}

/** A finding or section that a link names is opened, with all that it is in. */
function openTarget() {
  const name = decodeURIComponent(location.hash.slice(1));
  const target = name && !name.includes('=') ? document.getElementById(name) : null;
  if (!target) return;
  const part = target.querySelector(':scope > details.part');
  for (let at = part || target; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
  target.scrollIntoView();
}

function verdict(page) {
  const found = page.findings;
  const cards = found.cards;
  const kind = found.verdict?.kind;
  const top = new Set(found.top);
  const others = cards.map((card, place) => [card, place]).filter(([, place]) => !top.has(place));
  const rest = others.map(([card, place]) => findingCard(card, place));
  // What is only worth knowing is folded where there is much else to read.
  const kept = others.filter(([card]) => card.severity !== 'info').length;
  const shown = Math.max(kept, Math.min(rest.length, FEW_OTHERS));
  const few = rest.slice(0, shown);
  const folded = rest.slice(shown);
  const absences = page.absent.map(([heading, reason]) => `${heading}: ${reason}`);
  const all = () => [`# ${document.title}`, (found.verdict?.lines || []).map(plainMarkdown).join(' '), plainMarkdown(found.headline), page.facts.map(([name, value]) => `- ${name}: ${plainMarkdown(value)}`).join('\n'),
    ...cards.filter((card) => card.severity !== 'info').map(markdown)].filter(Boolean).join('\n\n');
  const aside = [todoOf(found), pairsOf(found)].filter(Boolean);
  return make('section', { id: 'findings', 'aria-labelledby': 'findings-h' },
    make('header', { class: 'head' }, make('h2', { id: 'findings-h' }, 'Findings'),
      make('p', { class: 'verdict' }, found.headline),
      cards.length ? copyButton('Copy all as Markdown', 'findings', all) : null),
    answerOf(found),
    aside.length ? make('div', { class: 'next-to' }, aside) : null,
    found.top.length ? make('ol', { class: 'first' }, found.top.map((place, i) => topRow(cards[place], place, kind, found.top.slice(0, i).map((one) => cards[one])))) : null,
    make('dl', { class: 'facts' }, page.facts.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value)))),
    rest.length ? make('h3', { class: 'all' }, found.top.length ? 'Other findings' : 'Findings') : null,
    few,
    folded.length ? make('details', { class: 'others' }, make('summary', {}, `${folded.length} more worth knowing`), folded) : null,
    reasons('Checked, no problem found', [...found.clean, ...found.not_applicable]),
    reasons('Not recorded, or nothing to show', [...found.not_recorded, ...found.left_out, ...absences]),
    make('details', {}, make('summary', {}, 'The SQL of all findings'), sqlBlock(found.sql)));
}

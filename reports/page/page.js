/* The page: verdict and findings first, then the sections, then what was looked at. */

const SEVERITY = { critical: 'Critical', warning: 'Warning', info: 'Worth knowing', checked: 'Looked at' };

function costText(card) {
  if (card.cost_ns === null) return null;
  const bound = card.bound === 'at_least' ? 'at least ' : card.bound === 'range' ? 'up to ' : '';
  const share = card.cost_pct === null ? '' : `, ${grouped(card.cost_pct, 1)} % of the window`;
  return `${bound}${duration(card.cost_ns)}${share}`;
}

function markdown(card) {
  const cost = costText(card);
  return [`**${SEVERITY[card.severity]}: ${card.title}**`, cost ? `Cost: ${cost}` : null, card.where || null,
    card.advice ? `What to do: ${card.advice}` : null, `\`\`\`sql\n${card.evidence.sql};\n\`\`\``].filter(Boolean).join('\n\n');
}

function findingCard(card) {
  const cost = costText(card);
  return make('article', { class: 'finding', 'data-severity': card.severity },
    make('header', {}, make('span', { class: `badge ${card.severity}` }, SEVERITY[card.severity]),
      make('h3', {}, card.title), cost ? make('span', { class: 'cost' }, cost) : null),
    card.where ? make('p', { class: 'where' }, card.where) : null,
    card.advice ? make('p', { class: 'advice' }, make('b', {}, 'What to do: '), prose(card.advice)) : null,
    make('details', {}, make('summary', {}, 'Evidence'), tableOf(card.evidence)),
    card.counter ? make('details', {}, make('summary', {}, 'What speaks against it'), tableOf(card.counter)) : null,
    card.others ? make('details', {}, make('summary', {}, `${card.others.total} more like this`), tableOf(card.others)) : null,
    make('p', { class: 'then' }, card.section ? make('a', { href: `#${card.section}` }, 'See the figure') : null,
      copyButton('Copy as Markdown', 'finding', () => markdown(card))));
}

function verdict(page) {
  const found = page.findings;
  return make('section', { id: 'findings', 'aria-labelledby': 'findings-h' },
    make('h2', { id: 'findings-h' }, 'Findings'),
    make('p', { class: 'verdict' }, found.headline),
    make('ul', { class: 'tally' }, found.tally.map(([severity, count]) => make('li', { class: `badge ${severity}` }, `${SEVERITY[severity]}: ${count}`))),
    make('dl', { class: 'facts' }, page.facts.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value)))),
    found.cards.map(findingCard),
    found.checked.length ? make('details', {}, make('summary', {}, `Looked at, nothing wrong (${found.checked.length})`),
      make('ul', { class: 'plain' }, found.checked.map((title) => make('li', {}, title)))) : null,
    sqlBlock(found.sql));
}

function sectionOf(section) {
  return make('section', { id: section.name, 'aria-labelledby': `${section.name}-h` },
    make('h2', { id: `${section.name}-h` }, section.heading),
    make('p', {}, prose(section.lead)),
    make('p', { class: 'window' }, prose(section.window)),
    section.figures.map((figure) => (figure.kind === 'topology' ? topology(figure) : addFigure(figure))),
    section.answers.map(tableOf));
}

function absent(list) {
  return make('section', { id: 'absent', 'aria-labelledby': 'absent-h' },
    make('h2', { id: 'absent-h' }, 'Looked for, nothing to show'),
    make('ul', { class: 'plain' }, list.map(([heading, reason]) => make('li', {}, make('b', {}, `${heading}: `), prose(reason)))));
}

function contents() {
  const links = new Map();
  for (const section of document.querySelectorAll('main > section')) {
    const link = make('a', { href: `#${section.id}` }, section.querySelector('h2').textContent);
    links.set(section, link);
    document.getElementById('contents').append(make('li', {}, link));
  }
  const here = new IntersectionObserver((entries) => {
    for (const entry of entries) links.get(entry.target).dataset.on = entry.isIntersecting ? '1' : '';
    let first = true;
    for (const link of links.values()) {
      if (first && link.dataset.on) { link.setAttribute('aria-current', 'true'); first = false; } else link.removeAttribute('aria-current');
    }
  }, { rootMargin: '-8% 0px -60% 0px' });
  for (const section of links.keys()) here.observe(section);
}

function chooseTheme(theme) {
  document.documentElement.dataset.theme = theme;
  redraw();
}

async function start() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  chooseTheme(dark.matches ? 'dark' : 'light');
  dark.addEventListener('change', () => chooseTheme(dark.matches ? 'dark' : 'light'));
  document.getElementById('theme').addEventListener('click', () => chooseTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
  document.getElementById('print').addEventListener('click', () => window.print());
  const page = JSON.parse(await unpack('data'));
  const main = document.getElementById('main');
  main.replaceChildren(verdict(page), ...page.sections.map(sectionOf));
  if (page.absent.length) main.append(absent(page.absent));
  contents();
  await loadLibrary();
  document.documentElement.dataset.ready = 'yes';
}

start().catch((error) => {
  const wait = document.getElementById('wait') || document.getElementById('said');
  wait.className = 'alarm';
  wait.textContent = 'This report could not be unpacked: open it in a browser of 2023 or later, and check that the file is whole. The database beside it holds the same answers.';
  console.error(error);
});

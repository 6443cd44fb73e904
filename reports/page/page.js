/* The page: findings first, then the sections. */

// Figures of a section up to this height are shown, at least one; the others are folded.
const SHOWN_HEIGHT = 640;
const AROUND_FIGURE = 56;
const MAP_HEIGHT = 330;

/** A section; one that no first finding rests on is a line until it is opened. */
function sectionOf(section) {
  const open = !section.place || section.place === 'open';
  const found = make('span', { class: 'hits', role: 'status' });
  const part = make('details', { class: 'part', open },
    make('summary', {}, make('h2', { id: `${section.name}-h` }, section.heading), make('span', { class: 'gist' }, gistOf(section)), found),
    make('p', {}, prose(section.lead)),
    make('p', { class: 'window' }, prose(section.window)),
    section.figures.filter((figure) => figure.kind === 'timeline').map(timelineFigure),
    figuresOf(section),
    tablesOf(section));
  // Figures that were drawn while the section was closed do not know its width.
  part.addEventListener('toggle', () => { if (part.open) redrawIn(part); });
  return make('section', { id: section.name, 'aria-labelledby': `${section.name}-h` }, part);
}

/** The first sentence of what a section shows. */
function gistOf(section) {
  const text = section.figures.find((figure) => figure.kind !== 'timeline')?.caption || section.lead;
  return text.replaceAll('`', '').split(/(?<=[.:;]) /)[0].replace(/[.:;]$/, '');
}

/** The figures of a section: about a screen of them, the others folded. */
function figuresOf(section) {
  const listed = section.figures.map((figure, i) => [figure, section.figures[i + 1]]).filter(([figure]) => figure.kind !== 'timeline');
  const steer = section.figures.some((figure) => figure.plot.from_ns !== undefined) ? steering(section.figures.some((figure) => (figure.plot.marks || []).length)) : null;
  const drawn = ([figure, next]) => (figure.kind === 'topology' ? topology(figure) : addFigure(figure, next));
  // The lanes fill a screen by themselves.
  const room = !section.place ? Infinity : listed.length < section.figures.length ? 0 : SHOWN_HEIGHT;
  let height = 0;
  let count = 0;
  for (; count < listed.length; count += 1) {
    const [figure] = listed[count];
    height += AROUND_FIGURE + (figure.height || MAP_HEIGHT);
    if (height > room && (count || !room)) break;
  }
  const shown = listed.slice(0, count);
  const folded = listed.slice(shown.length);
  if (!folded.length) return [steer, shown.map(drawn)];
  const names = folded.map(([figure]) => figure.title).filter(Boolean);
  const more = make('details', { class: 'figures' }, make('summary', {}, folded.length === 1 ? 'One more figure: ' : `${folded.length} ${shown.length ? 'more ' : ''}figures: `, names.join(', ')),
    shown.length ? null : steer, folded.map(drawn));
  more.addEventListener('toggle', () => { if (more.open) redrawIn(more); });
  return [shown.length ? steer : null, shown.map(drawn), more];
}

/** The sections that no finding is about, as one line. */
function groupOf(sections) {
  if (!sections.length) return null;
  return make('details', { class: 'group', id: 'more' },
    make('summary', {}, make('b', {}, `${sections.length} more ${sections.length === 1 ? 'section' : 'sections'} without findings`), make('span', { class: 'gist' }, sections.map((section) => section.heading).join(', ')), make('span', { class: 'hits', role: 'status' })),
    sections.map(sectionOf));
}

/** The tables of a section, folded below its figures; a section without figures shows its first. */
function tablesOf(section) {
  const shown = section.figures.length ? [] : section.answers.slice(0, 1);
  const folded = section.answers.slice(shown.length);
  const names = folded.map((answer) => answer.title).filter((name, i, every) => every.indexOf(name) === i);
  return [shown.map(tableOf), folded.length
    ? make('details', { class: 'tables' }, make('summary', {}, folded.length === 1 ? 'Table and SQL: ' : `${folded.length} tables and their SQL: `, names.join(', ')), folded.map(tableOf))
    : null];
}

function contents() {
  const links = new Map();
  for (const section of document.querySelectorAll('main section')) {
    const link = make('a', { href: `#${section.id}` }, section.querySelector('h2').textContent);
    links.set(section, link);
    document.getElementById('contents').append(make('li', { class: section.parentElement.id === 'more' ? 'quiet' : null }, link));
  }
  const rest = document.getElementById('more');
  if (rest) document.getElementById('contents').append(make('li', { class: 'rest' }, make('a', { href: '#more' }, rest.querySelector('summary b').textContent)));
  // A link to the section that the address names already opens it again.
  document.getElementById('contents').addEventListener('click', (event) => { if (event.target.hash === location.hash) openTarget(); });
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
  const server = page.timeline?.server;
  if (server) document.getElementById('print').before(make('a', { href: `/sql?token=${encodeURIComponent(server.token)}`, target: '_blank' }, 'SQL'));
  openTimeline(page.timeline);
  const main = document.getElementById('main');
  document.querySelector('.contents').prepend(searchBox());
  const unnamed = page.sections.filter((section) => section.place === 'group');
  main.replaceChildren(...[verdict(page), ...page.sections.filter((section) => section.place !== 'group').map(sectionOf), groupOf(unnamed)].filter(Boolean));
  contents();
  await readyTimeline();
  await loadLibrary();
  addEventListener('hashchange', openTarget);
  openTarget();
  document.documentElement.dataset.ready = 'yes';
}

start().catch((error) => {
  const wait = document.getElementById('wait') || document.getElementById('said');
  wait.className = 'alarm';
  wait.textContent = 'This report could not be unpacked. Open it in a browser from 2023 or later, and check that the file is complete. The database next to it has the same answers.';
  console.error(error);
});

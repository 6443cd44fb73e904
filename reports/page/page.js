/* The page: findings first, then the sections. */

function sectionOf(section) {
  return make('section', { id: section.name, 'aria-labelledby': `${section.name}-h` },
    make('h2', { id: `${section.name}-h` }, section.heading),
    make('p', {}, prose(section.lead)),
    make('p', { class: 'window' }, prose(section.window)),
    section.figures.filter((figure) => figure.kind === 'timeline').map(timelineFigure),
    section.figures.some((figure) => figure.plot.from_ns !== undefined) ? steering(section.figures.some((figure) => (figure.plot.marks || []).length)) : null,
    section.figures.map((figure, i) => (figure.kind === 'topology' ? topology(figure) : figure.kind === 'timeline' ? null : addFigure(figure, section.figures[i + 1]))),
    tablesOf(section));
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
  const server = page.timeline?.server;
  if (server) document.getElementById('print').before(make('a', { href: `/sql?token=${encodeURIComponent(server.token)}`, target: '_blank' }, 'SQL'));
  openTimeline(page.timeline);
  const main = document.getElementById('main');
  document.querySelector('.contents').prepend(searchBox());
  main.replaceChildren(verdict(page), ...page.sections.map(sectionOf));
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

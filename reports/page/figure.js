/* Plotly figures: drawn when scrolled to, all before printing, again when the theme changes. */

const PRINT_WIDTH = 690;
// Figures on paper are lower than on the screen: a page has room for more of them.
const PRINT_HEIGHT = 0.5;
const PRINT_LEAST = 115;
const PRINT_AROUND = 75;
const PRINT_BAR = 10.5;
const RAW = new Set(['hovertemplate', 'texttemplate']);
const figures = [];
let library = null;
let printing = false;

/** Color of a token in the current theme. */
function colour(token) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();
}

/** The figure with color tokens resolved and every string escaped for Plotly's markup. */
function resolved(value, key) {
  if (typeof value === 'string') {
    if (/colors?$|colorscale$/i.test(key) && value.startsWith('@')) return colour(value.slice(1));
    return RAW.has(key) ? value : value.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
  }
  if (Array.isArray(value)) return value.map((item) => resolved(item, key));
  if (value && typeof value === 'object' && !ArrayBuffer.isView(value)) {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, resolved(v, k)]));
  }
  return value;
}

function axisStyle(given) {
  return {
    gridcolor: colour('grid'), zerolinecolor: colour('mid'), linecolor: colour('mid'), tickcolor: colour('mid'),
    automargin: true, fixedrange: false, separatethousands: true, exponentformat: 'none', ...given,
    title: { standoff: 10, ...given?.title },
  };
}

/** The layout of a figure with the page's style. */
function styled(layout, height, bars) {
  const full = {
    autosize: !printing,
    height,
    paper_bgcolor: 'rgba(0,0,0,0)',
    plot_bgcolor: 'rgba(0,0,0,0)',
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour('ink') },
    hoverlabel: { bgcolor: colour('card'), bordercolor: colour('mid'), font: { color: colour('ink'), size: 12 }, namelength: -1 },
    legend: { orientation: 'h', y: 1, yanchor: 'bottom', x: 0, xanchor: 'left', traceorder: 'normal' },
    margin: { l: 60, r: 20, t: 36, b: 44 },
    bargap: 0.28,
    modebar: { bgcolor: 'rgba(0,0,0,0)', color: colour('mid'), activecolor: colour('ink') },
    ...layout,
  };
  if (printing) {
    full.width = PRINT_WIDTH;
    if (height) full.height = Math.min(height, Math.max(PRINT_LEAST, Math.round(height * PRINT_HEIGHT)));
    // Each bar keeps its name: Plotly leaves out every second label where they touch.
    const rows = full.yaxis?.tickvals?.length || (full.yaxis?.type === 'category' ? bars : 0);
    if (rows) full.height = Math.max(full.height, PRINT_AROUND + PRINT_BAR * rows);
    if (full.yaxis?.tickvals) full.yaxis = { ...full.yaxis, tickfont: { size: 8 } };
    else if (rows) {
      full.yaxis = { ...full.yaxis, tickmode: 'linear', tick0: 0, dtick: 1, tickfont: { size: 8 } };
    }
  }
  for (const key of Object.keys(full)) if (/^[xy]axis\d*$/.test(key)) full[key] = axisStyle(full[key]);
  full.xaxis = full.xaxis || axisStyle({});
  full.yaxis = full.yaxis || axisStyle({});
  return full;
}

const CONFIG = {
  displaylogo: false,
  responsive: true,
  // An explicit list, because some other buttons offer to send the data somewhere.
  modeBarButtons: [['toImage'], ['zoom2d', 'pan2d', 'zoomIn2d', 'zoomOut2d', 'resetScale2d']],
};

/** Draws data and layout in an element, the first time and after every change. */
function show(element, data, layout, height) {
  const bars = new Set(data.flatMap((trace) => (trace.orientation === 'h' ? trace.y : []))).size;
  return library.react(element, resolved(data, ''), styled(resolved(layout, ''), height, bars), CONFIG);
}

/** A figure of the page, drawn when scrolled to, printed or restyled; `next` is the figure below. */
function addFigure(spec, next) {
  const plot = make('div', { class: 'plot', 'data-state': 'waiting', role: 'img', 'aria-label': spec.caption });
  if (spec.height) plot.style.minHeight = `${spec.height}px`;
  const kinds = { steps, frames: frameFigure, threads: threadStates };
  const drawer = kinds[spec.kind] ? kinds[spec.kind](plot, spec, Boolean(next && kinds[next.kind])) : spec.plot.sought ? soughtBars(plot, spec) : spec.plot.data?.[0]?.type === 'icicle' ? searchedIcicle(plot, spec) : { draw: () => show(plot, spec.plot.data, spec.plot.layout, spec.height) };
  const figure = { plot, draw: drawer.draw, state: 'waiting' };
  figures.push(figure);
  seen.observe(plot);
  return make('figure', { class: kinds[spec.kind] ? 'over-time' : null, 'data-figure': spec.name || null }, make('figcaption', {}, prose(spec.caption)), drawer.before, plot, drawer.after);
}

function drawFigure(figure) {
  if (!library) return;
  figure.state = 'drawn';
  try {
    figure.draw();
    figure.plot.dataset.state = 'drawn';
  } catch (error) {
    figure.plot.dataset.state = 'failed';
    figure.plot.textContent = 'This figure could not be drawn; the table below has its numbers.';
    console.error(error);
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const figure = figures.find((f) => f.plot === entry.target);
    figure.near = entry.isIntersecting;
    if (figure.near && figure.state === 'waiting') drawFigure(figure);
  }
}, { rootMargin: '600px 0px' });

/** Loads the library once, then draws the figures on screen. */
async function loadLibrary() {
  const script = document.createElement('script');
  script.textContent = await unpack('library');
  document.head.append(script);
  library = window.Plotly;
  for (const figure of figures) if (figure.near) drawFigure(figure);
}

function redraw() {
  for (const figure of figures) if (figure.state === 'drawn') drawFigure(figure);
}

/** Draws again what was drawn in a part of the page that was closed. */
function redrawIn(part) {
  for (const figure of figures) if (figure.state === 'drawn' && part.contains(figure.plot)) drawFigure(figure);
}

const FOLDED = 'details.part, details.group, details.figures';
let unfolded = [];

function drawAll() {
  for (const figure of figures) drawFigure(figure);
}

window.addEventListener('beforeprint', () => {
  printing = true;
  document.documentElement.dataset.printTheme = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = 'light';
  unfolded = [...document.querySelectorAll(FOLDED)].filter((part) => !part.open);
  for (const part of unfolded) part.open = true;
  drawAll();
});
window.addEventListener('afterprint', () => {
  printing = false;
  document.documentElement.dataset.theme = document.documentElement.dataset.printTheme;
  drawAll();
  for (const part of unfolded) part.open = false;
});

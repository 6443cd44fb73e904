/* The two gzip blocks of the page, and the elements it is built from. */

/** Text of a gzip block in base64; the block is emptied to free its memory. */
async function unpack(id) {
  const block = document.getElementById(id);
  const packed = atob(block.textContent.trim());
  block.textContent = '';
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

/** An element; strings among the children become text nodes, never markup. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/** Announces to screen readers what just happened. */
function say(text) {
  document.getElementById('said').textContent = text;
}

/** Copies text; if the clipboard is not allowed, through a selection. */
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make('textarea', { class: 'unseen' });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  say(`${what} copied`);
}

/** A button that copies `text()` and briefly confirms it. */
function copyButton(label, what, text) {
  const button = make('button', { type: 'button', 'aria-label': `${label}: ${what}` }, label);
  button.addEventListener('click', async () => {
    await copy(text(), what);
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

/** Text with everything between backticks as code. */
function prose(text) {
  return text.split('`').map((part, i) => (i % 2 ? make('code', {}, part) : part));
}

/** SQL with its copy button. */
function sqlBlock(sql) {
  const text = `${sql};`;
  return make('div', { class: 'sql' }, make('pre', { tabindex: 0 }, make('code', {}, text)), copyButton('Copy', 'SQL', () => text));
}

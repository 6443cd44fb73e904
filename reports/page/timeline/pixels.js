/* Paints the shares of a lane as pixels: stacked colors, hatched where color is not enough. */

/** The number of a color as a canvas stores it. */
function pixelOf([r, g, b]) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

function rgbOf(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

function mixedColors(one, other, share) {
  return one.map((value, i) => Math.round(value * (1 - share) + other[i] * share));
}

/** The color of a pixel of a hatched color: lines in one or both diagonals, dots, or none. */
function hatched(entry, x, y) {
  const kind = entry.hatch;
  if (!kind) return entry.rgb;
  const rising = (x + y) % 8 < 2;
  const falling = (x - y + 4096) % 8 < 2;
  const on = kind === 'rising' ? rising : kind === 'falling' ? falling : kind === 'cross' ? rising || falling : x % 4 === 0 && y % 4 === 0;
  return on ? entry.line : entry.rgb;
}

/**
 * Paints a lane into an image of `pixels` columns: the colors stacked from the bottom, in the order
 * of the palette; the rest of a column is the background.
 */
function paintShares(image, sums, palette, pixels, height, perPixel, background) {
  const target = new Uint32Array(image.data.buffer);
  const colors = palette.length;
  const plain = palette.map((entry) => (entry.hatch ? 0 : pixelOf(entry.rgb)));
  for (let x = 0; x < pixels; x += 1) {
    let y = height;
    // The part of the pixel row at `y - 1` that is already painted, and its color so far.
    let filled = 0;
    let blend = [0, 0, 0];
    for (let color = 0; color < colors; color += 1) {
      const ns = sums[x * colors + color];
      if (ns <= 0) continue;
      const entry = palette[color];
      let left = Math.min((ns / perPixel) * height, y - filled);
      if (filled > 0) {
        const part = Math.min(1 - filled, left);
        const rgb = hatched(entry, x, y - 1);
        blend = blend.map((value, i) => value + rgb[i] * part);
        filled += part;
        left -= part;
        if (filled > 0.9999) { target[(y - 1) * pixels + x] = pixelOf(blend.map(Math.round)); y -= 1; filled = 0; blend = [0, 0, 0]; }
      }
      while (left >= 0.9999 && y > 0) {
        target[(y - 1) * pixels + x] = plain[color] || pixelOf(hatched(entry, x, y - 1));
        y -= 1;
        left -= 1;
      }
      if (left > 0.0001 && y > 0 && filled === 0) {
        filled = left;
        blend = hatched(entry, x, y - 1).map((value) => value * left);
      }
    }
    if (filled > 0 && y > 0) {
      const rest = hatched(background, x, y - 1);
      target[(y - 1) * pixels + x] = pixelOf(blend.map((value, i) => Math.round(value + rest[i] * (1 - filled))));
      y -= 1;
    }
    for (; y > 0; y -= 1) target[(y - 1) * pixels + x] = pixelOf(hatched(background, x, y - 1));
  }
}

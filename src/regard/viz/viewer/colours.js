// Colours of the current theme, read from the style sheet, for drawing on canvases.

const probe = element("span", { hidden: true });
document.body.append(probe);

function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

function headColour(head) {
  return colour(`head-${head % 8}`);
}

/** Line dash: neighbouring heads differ in colour and dash, and heads of the same colour in their dash. */
function headDash(head) {
  return [[], [7, 3], [1.5, 3], [8, 3, 1.5, 3]][(head + Math.floor(head / 8)) % 4];
}

/** Colour map of 256 RGBA values from 0 to the largest weight, of monotonic lightness. */
function colourMap() {
  const [low, middle, high] = ["heat-low", "heat-middle", "heat-high"].map((name) => colour(name).match(/[\d.]+/g).map(Number));
  const table = new Uint8ClampedArray(256 * 4);
  for (let step = 0; step < 256; step += 1) {
    const fraction = step / 255;
    const [from, to, mix] = fraction < 0.5 ? [low, middle, fraction * 2] : [middle, high, fraction * 2 - 1];
    for (let channel = 0; channel < 3; channel += 1) table[step * 4 + channel] = from[channel] + (to[channel] - from[channel]) * mix;
    table[step * 4 + 3] = 255;
  }
  return table;
}

/** A matrix as a canvas with one pixel per weight; downsampled to the maximum size by the maximum of each block. */
function matrixImage(matrix, colours, maxWidth = matrix.columns, maxHeight = matrix.rows) {
  const width = Math.min(maxWidth, matrix.columns);
  const height = Math.min(maxHeight, matrix.rows);
  const max = largest(matrix.values) || 1;
  const pooled = new Float32Array(width * height);
  for (let row = 0; row < matrix.rows; row += 1) {
    const start = Math.floor((row * height) / matrix.rows) * width;
    for (let column = 0; column < matrix.columns; column += 1) {
      const pixel = start + Math.floor((column * width) / matrix.columns);
      const weight = matrix.values[row * matrix.columns + column];
      if (weight > pooled[pixel]) pooled[pixel] = weight;
    }
  }
  const canvas = element("canvas", { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  pooled.forEach((weight, pixel) => {
    const step = Math.round((weight / max) * 255) * 4;
    image.data.set(colours.subarray(step, step + 4), pixel * 4);
  });
  context.putImageData(image, 0, 0);
  return { canvas, max };
}

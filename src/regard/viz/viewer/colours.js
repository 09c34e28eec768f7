// Colours as the style sheet has them just now, for drawing.

const probe = element("span", { hidden: true });
document.body.append(probe);

function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

function headColour(head) {
  return colour(`head-${head % 8}`);
}

/** More heads than colours: the second eight are dashed, the third dotted. */
function headDash(head) {
  return [[], [5, 4], [1.5, 3]][Math.floor(head / 8) % 3];
}

/** 256 colours from nothing to the strongest weight: three stops, told apart by lightness alone. */
function ramp() {
  const [low, middle, high] = ["heat-low", "heat-middle", "heat-high"].map((name) => colour(name).match(/[\d.]+/g).map(Number));
  const table = new Uint8ClampedArray(256 * 4);
  for (let step = 0; step < 256; step += 1) {
    const part = step / 255;
    const [from, to, way] = part < 0.5 ? [low, middle, part * 2] : [middle, high, part * 2 - 1];
    for (let channel = 0; channel < 3; channel += 1) table[step * 4 + channel] = from[channel] + (to[channel] - from[channel]) * way;
    table[step * 4 + 3] = 255;
  }
  return table;
}

/** A matrix as an image, one pixel a weight, or fewer where there is no room: then the strongest of each block. */
function picture(matrix, table, wide = matrix.columns, high = matrix.rows) {
  const width = Math.min(wide, matrix.columns);
  const height = Math.min(high, matrix.rows);
  const most = largest(matrix.values) || 1;
  const strongest = new Float32Array(width * height);
  for (let row = 0; row < matrix.rows; row += 1) {
    const to = Math.floor((row * height) / matrix.rows) * width;
    for (let column = 0; column < matrix.columns; column += 1) {
      const at = to + Math.floor((column * width) / matrix.columns);
      const weight = matrix.values[row * matrix.columns + column];
      if (weight > strongest[at]) strongest[at] = weight;
    }
  }
  const canvas = element("canvas", { width, height });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height);
  strongest.forEach((weight, at) => {
    const step = Math.round((weight / most) * 255) * 4;
    image.data.set(table.subarray(step, step + 4), at * 4);
  });
  pen.putImageData(image, 0, 0);
  return { canvas, most };
}

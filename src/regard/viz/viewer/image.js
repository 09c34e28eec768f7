// An image and, over it, the attention weights of a query: the class token, or the patch under the pointer.

const { image } = data;
const canvas = document.getElementById("image-canvas");
const WIDTH = 640; // pixels of the large image
let pinned = state.query; // the query without a pointer over the image

/** The image at its own size. */
const pixels = (() => {
  const bytes = atob(image.pixels);
  const original = element("canvas", { width: image.width, height: image.height });
  const context = original.getContext("2d");
  const content = context.createImageData(image.width, image.height);
  for (let pixel = 0; pixel < image.width * image.height; pixel += 1) {
    for (let channel = 0; channel < 3; channel += 1) content.data[pixel * 4 + channel] = bytes.charCodeAt(pixel * 3 + channel);
    content.data[pixel * 4 + 3] = 255;
  }
  context.putImageData(content, 0, 0);
  return original;
})();

/** Draws the image scaled to a width. */
function drawImage(target, width) {
  target.width = width;
  target.height = Math.round((width * image.height) / image.width);
  const context = target.getContext("2d");
  context.imageSmoothingEnabled = image.width > 128;
  context.drawImage(pixels, 0, 0, target.width, target.height);
  return context;
}

function boxOf(target, patch) {
  const row = Math.floor(patch / image.columns);
  const column = patch % image.columns;
  const left = Math.round((column * target.width) / image.columns);
  const top = Math.round((row * target.height) / image.rows);
  const right = Math.round(((column + 1) * target.width) / image.columns);
  return [left, top, right - left, Math.round(((row + 1) * target.height) / image.rows) - top];
}

/** Weights of all patches for a query token, or the mean over all queries if it is -1. */
function patchWeights(number, head, query) {
  const { rows, columns, values } = matrixOf(number, head);
  const weights = new Float32Array(columns - image.before);
  for (let row = 0; row < rows; row += 1) {
    if (query >= 0 && row !== query) continue;
    for (let patch = 0; patch < weights.length; patch += 1) {
      weights[patch] += values[row * columns + image.before + patch] / (query >= 0 ? 1 : rows);
    }
  }
  return weights;
}

/** Darkens the image and draws the weights over it, scaled so that the largest is opaque. */
function drawOverlay(target, context, weights) {
  const max = largest(weights) || 1;
  context.fillStyle = "rgb(0 0 0 / 35%)";
  context.fillRect(0, 0, target.width, target.height);
  weights.forEach((weight, patch) => {
    context.fillStyle = `rgb(255 140 20 / ${Math.round((weight / max) * 88)}%)`;
    context.fillRect(...boxOf(target, patch));
  });
}

function queryName(query) {
  if (query < 0) return "the mean of all patches";
  if (query < image.before) return "the class token";
  const patch = query - image.before;
  return `row ${Math.floor(patch / image.columns) + 1}, column ${(patch % image.columns) + 1}`;
}

function showImage() {
  const context = drawImage(canvas, WIDTH);
  const weights = patchWeights(state.layer, state.head, state.query);
  drawOverlay(canvas, context, weights);
  if (state.query >= image.before) {
    context.strokeStyle = colour("focus");
    context.lineWidth = 4;
    context.strokeRect(...boxOf(canvas, state.query - image.before));
  }
  document.getElementById("image-what").textContent = nameOf(state.layer, state.head);
  const strongest = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a]).slice(0, 3);
  const list = strongest.map((patch) => `${queryName(patch + image.before)} (${percent(weights[patch])})`).join("; ");
  document.getElementById("image-status").textContent = `${queryName(state.query)} attends most to ${list}`;
  canvas.setAttribute("aria-label", `${image.name}: attention of ${queryName(state.query)}`);
}

function patchAt(event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) / box.width) * image.columns);
  const row = Math.floor(((event.clientY - box.top) / box.height) * image.rows);
  const inside = row >= 0 && column >= 0 && row < image.rows && column < image.columns;
  return inside ? row * image.columns + column + image.before : pinned;
}

canvas.addEventListener("pointermove", (event) => { if (patchAt(event) !== state.query) select({ query: patchAt(event) }); });
canvas.addEventListener("pointerleave", () => select({ query: pinned }));
canvas.addEventListener("click", (event) => { pinned = patchAt(event); select({ query: pinned }); });
canvas.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -image.columns, ArrowDown: image.columns }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const from = state.query < image.before ? image.before - (step > 0 ? step : 0) : state.query;
  const to = from + step;
  if (to >= image.before && to < image.before + image.rows * image.columns) { pinned = to; select({ query: to }); }
});

const resetButton = document.getElementById("reset-query");
resetButton.textContent = image.before ? "Class token" : "All patches";
resetButton.addEventListener("click", () => { pinned = image.before ? 0 : -1; select({ query: pinned }); });

document.getElementById("image-title").textContent = image.title;

// Thumbnails of all heads.

const thumbs = createThumbs(() => {});

function showThumbs() {
  markSelected(thumbs);
  for (const { number, head, canvas: thumb } of thumbs) {
    drawOverlay(thumb, drawImage(thumb, THUMB), patchWeights(number, head, state.query));
  }
}

// Merged patches.

function drawMerged(groups, target) {
  const context = drawImage(target, WIDTH / 2);
  const tile = element("canvas", { width: image.columns, height: image.rows });
  const tileContext = tile.getContext("2d");
  tileContext.drawImage(pixels, 0, 0, image.columns, image.rows);
  const colours = tileContext.getImageData(0, 0, image.columns, image.rows).data;
  const sums = new Map();
  groups.forEach((group, patch) => {
    const sum = sums.get(group) ?? [0, 0, 0, 0];
    for (let channel = 0; channel < 3; channel += 1) sum[channel] += colours[patch * 4 + channel];
    sum[3] += 1;
    sums.set(group, sum);
  });
  groups.forEach((group, patch) => {
    const [red, green, blue, count] = sums.get(group);
    if (count > 1) {
      context.fillStyle = `rgb(${red / count} ${green / count} ${blue / count})`;
      context.fillRect(...boxOf(target, patch));
    }
  });
  context.fillStyle = "rgb(255 140 20)";
  groups.forEach((group, patch) => {
    const [left, top, width, height] = boxOf(target, patch);
    const column = patch % image.columns;
    if (column + 1 < image.columns && groups[patch + 1] !== group) context.fillRect(left + width - 1, top, 2, height);
    if (patch + image.columns < groups.length && groups[patch + image.columns] !== group) context.fillRect(left, top + height - 1, width, 2);
  });
}

if (data.groups.length) {
  document.getElementById("merged").hidden = false;
  data.groups.forEach((groups, number) => {
    const target = element("canvas", { role: "img", "aria-label": `merged patches after layer ${number}` });
    drawMerged(groups, target);
    const caption = `after layer ${number}: ${new Set(groups).size} of ${groups.length} patches`;
    document.getElementById("merged-list").append(element("figure", {}, target, element("figcaption", { textContent: caption })));
  });
}

drawImage(document.getElementById("plain-canvas"), WIDTH / 2);
views.push(showImage, showThumbs);
select(data.opened);

// An image, and laid over it what the chosen token looked at: the class token, or a patch that is pointed at.

const { image } = data;
const canvas = document.getElementById("image-canvas");
const WIDE = 640; // pixels of the large picture
let pinned = state.query; // what is shown when nothing is pointed at

/** The pixels as they are, one a pixel. */
const pixels = (() => {
  const bytes = atob(image.pixels);
  const drawn = element("canvas", { width: image.width, height: image.height });
  const pen = drawn.getContext("2d");
  const content = pen.createImageData(image.width, image.height);
  for (let at = 0; at < image.width * image.height; at += 1) {
    for (let channel = 0; channel < 3; channel += 1) content.data[at * 4 + channel] = bytes.charCodeAt(at * 3 + channel);
    content.data[at * 4 + 3] = 255;
  }
  pen.putImageData(content, 0, 0);
  return drawn;
})();

function sized(target, wide) {
  target.width = wide;
  target.height = Math.round((wide * image.height) / image.width);
  const pen = target.getContext("2d");
  pen.imageSmoothingEnabled = image.width > 128;
  pen.drawImage(pixels, 0, 0, target.width, target.height);
  return pen;
}

function boxOf(target, patch) {
  const row = Math.floor(patch / image.columns);
  const column = patch % image.columns;
  const left = Math.round((column * target.width) / image.columns);
  const top = Math.round((row * target.height) / image.rows);
  const right = Math.round(((column + 1) * target.width) / image.columns);
  return [left, top, right - left, Math.round(((row + 1) * target.height) / image.rows) - top];
}

/** What a token looked at, patch by patch; where the mean speaks for the image, what all of them did. */
function lookedAt(number, head, query) {
  const { rows, columns, values } = matrixOf(number, head);
  const found = new Float32Array(columns - image.before);
  for (let row = 0; row < rows; row += 1) {
    if (query >= 0 && row !== query) continue;
    for (let patch = 0; patch < found.length; patch += 1) {
      found[patch] += values[row * columns + image.before + patch] / (query >= 0 ? 1 : rows);
    }
  }
  return found;
}

function lay(target, pen, weights) {
  const most = largest(weights) || 1;
  pen.fillStyle = "rgb(0 0 0 / 35%)";
  pen.fillRect(0, 0, target.width, target.height);
  weights.forEach((weight, patch) => {
    pen.fillStyle = `rgb(255 140 20 / ${Math.round((weight / most) * 88)}%)`;
    pen.fillRect(...boxOf(target, patch));
  });
}

function named(query) {
  if (query < 0) return "the mean of all patches";
  if (query < image.before) return "the class token";
  const patch = query - image.before;
  return `row ${Math.floor(patch / image.columns) + 1}, column ${(patch % image.columns) + 1}`;
}

function showImage() {
  const pen = sized(canvas, WIDE);
  const weights = lookedAt(state.layer, state.head, state.query);
  lay(canvas, pen, weights);
  if (state.query >= image.before) {
    pen.strokeStyle = colour("focus");
    pen.lineWidth = 4;
    pen.strokeRect(...boxOf(canvas, state.query - image.before));
  }
  document.getElementById("image-what").textContent = nameOf(state.layer, state.head);
  const best = Array.from(weights.keys()).sort((one, other) => weights[other] - weights[one]).slice(0, 3);
  const told = best.map((patch) => `${named(patch + image.before)} (${percent(weights[patch])})`).join("; ");
  document.getElementById("image-told").textContent = `${named(state.query)} looked most at ${told}`;
  canvas.setAttribute("aria-label", `${image.name}: what ${named(state.query)} looked at`);
}

function patchAt(event) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) / box.width) * image.columns);
  const row = Math.floor(((event.clientY - box.top) / box.height) * image.rows);
  const inside = row >= 0 && column >= 0 && row < image.rows && column < image.columns;
  return inside ? row * image.columns + column + image.before : pinned;
}

canvas.addEventListener("pointermove", (event) => { if (patchAt(event) !== state.query) choose({ query: patchAt(event) }); });
canvas.addEventListener("pointerleave", () => choose({ query: pinned }));
canvas.addEventListener("click", (event) => { pinned = patchAt(event); choose({ query: pinned }); });
canvas.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -image.columns, ArrowDown: image.columns }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const from = state.query < image.before ? image.before - (step > 0 ? step : 0) : state.query;
  const to = from + step;
  if (to >= image.before && to < image.before + image.rows * image.columns) { pinned = to; choose({ query: to }); }
});

const whole = document.getElementById("whole");
whole.textContent = image.before ? "Class token" : "All patches";
whole.addEventListener("click", () => { pinned = image.before ? 0 : -1; choose({ query: pinned }); });

document.getElementById("image-title").textContent = image.title;

// All heads, small.

const thumbs = laidOut(() => {});

function showThumbs() {
  showOpened(thumbs);
  for (const { number, head, canvas: small } of thumbs) {
    lay(small, sized(small, THUMB), lookedAt(number, head, state.query));
  }
}

// Patches that became one.

function drawMerged(groups, target) {
  const pen = sized(target, WIDE / 2);
  const tile = element("canvas", { width: image.columns, height: image.rows });
  const small = tile.getContext("2d");
  small.drawImage(pixels, 0, 0, image.columns, image.rows);
  const colours = small.getImageData(0, 0, image.columns, image.rows).data;
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
      pen.fillStyle = `rgb(${red / count} ${green / count} ${blue / count})`;
      pen.fillRect(...boxOf(target, patch));
    }
  });
  pen.fillStyle = "rgb(255 140 20)";
  groups.forEach((group, patch) => {
    const [left, top, width, height] = boxOf(target, patch);
    const column = patch % image.columns;
    if (column + 1 < image.columns && groups[patch + 1] !== group) pen.fillRect(left + width - 1, top, 2, height);
    if (patch + image.columns < groups.length && groups[patch + image.columns] !== group) pen.fillRect(left, top + height - 1, width, 2);
  });
}

if (data.groups.length) {
  document.getElementById("merged").hidden = false;
  data.groups.forEach((groups, number) => {
    const target = element("canvas", { role: "img", "aria-label": `patches that are one after layer ${number}` });
    drawMerged(groups, target);
    const told = `after layer ${number}: ${new Set(groups).size} of ${groups.length} patches`;
    document.getElementById("merged-list").append(element("figure", {}, target, element("figcaption", { textContent: told })));
  });
}

sized(document.getElementById("plain-canvas"), WIDE / 2);
views.push(showImage, showThumbs);
choose(data.opened);

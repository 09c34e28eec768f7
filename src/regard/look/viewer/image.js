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

// The controls, light and dark.

const layerChoice = document.getElementById("layer");
const headChoice = document.getElementById("head");
layerChoice.append(...data.layers.map((layer, number) => new Option(layer.name, String(number))));
layerChoice.addEventListener("change", () => choose({ layer: Number(layerChoice.value), head: -1 }));
headChoice.addEventListener("change", () => choose({ head: Number(headChoice.value) }));
document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("image-title").textContent = image.title;

function showControls() {
  const { heads } = data.layers[state.layer];
  layerChoice.value = String(state.layer);
  const options = heads === 1 ? [new Option("the only one", "-1")]
    : [new Option("mean of all", "-1"), ...Array.from({ length: heads }, (_, head) => new Option(String(head), String(head)))];
  headChoice.replaceChildren(...options);
  headChoice.value = String(state.head);
  headChoice.disabled = heads === 1;
}

const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function showTheme() {
  const isDark = (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  theme.textContent = isDark ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark ? "switch to light colours" : "switch to dark colours");
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = theme.textContent.toLowerCase();
  redraw();
});
dark.addEventListener("change", redraw);

// All heads, small.

const THUMB = 64;
const thumbs = data.layers.flatMap((layer, number) => Array.from({ length: layer.heads }, (_, head) => {
  const small = element("canvas", { width: THUMB, height: THUMB });
  const button = element("button", { type: "button", className: "thumb", title: nameOf(number, head), "aria-label": nameOf(number, head) }, small);
  button.addEventListener("click", () => choose({ layer: number, head: layer.heads === 1 ? -1 : head }));
  return { number, head, small, button };
}));

function showThumbs() {
  for (const { number, head, small, button } of thumbs) {
    const open = number === state.layer && (state.head === head || data.layers[number].heads === 1);
    button.setAttribute("aria-pressed", String(open));
    lay(small, sized(small, THUMB), lookedAt(number, head, state.query));
  }
}

const grid = document.getElementById("grid-scroller");
grid.style.setProperty("--row", `${170 + 78 * Math.max(...data.layers.map((layer) => layer.heads))}px`);
data.layers.forEach((layer, number) => {
  const row = element("div", { className: "heads-row", role: "group", "aria-label": layer.name }, element("span", { className: "name", textContent: layer.name }));
  row.append(element("div", { className: "thumbs" }, ...thumbs.filter((each) => each.number === number).map((each) => each.button)));
  grid.append(row);
});

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
views.push(showControls, showTheme, showImage, showThumbs);
choose(data.opened);

// Controls of every page: layer and head selection, light and dark theme, thumbnails of all heads.

const layerSelect = document.getElementById("layer");
const headSelect = document.getElementById("head");

layerSelect.append(...data.layers.map((layer, number) => {
  const option = new Option(layer.title, String(number));
  option.title = layer.name;
  return option;
}));
layerSelect.addEventListener("change", () => select({ layer: Number(layerSelect.value), head: -1 }));
headSelect.addEventListener("change", () => select({ head: Number(headSelect.value) }));
document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());

function showControls() {
  const { heads } = data.layers[state.layer];
  layerSelect.value = String(state.layer);
  layerSelect.title = data.layers[state.layer].name;
  const options = heads === 1 ? [new Option("only head", "-1")]
    : [new Option("mean of all", "-1"), ...Array.from({ length: heads }, (_, head) => new Option(String(head), String(head)))];
  headSelect.replaceChildren(...options);
  headSelect.value = String(state.head);
  headSelect.disabled = heads === 1;
}

const theme = document.getElementById("theme");

// The dialog of the server's page has a title and a theme of its own.
const framed = /^#theme=(light|dark)$/.exec(location.hash);
if (framed) {
  document.documentElement.dataset.theme = framed[1];
  document.querySelector(".top").hidden = true;
  document.body.style.paddingTop = "0";
}

const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  return (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
}

function showTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark() ? "switch to the light theme" : "switch to the dark theme");
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
dark.addEventListener("change", redraw);

const THUMB = 64; // pixels

/** Creates a thumbnail for each head, one row per layer; calls `onSelect` after one was selected. */
function createThumbs(onSelect) {
  const thumbs = data.layers.flatMap((layer, number) => Array.from({ length: layer.heads }, (_, head) => {
    const canvas = element("canvas", { width: THUMB, height: THUMB });
    const button = element("button", { type: "button", className: "thumb", title: nameOf(number, head), "aria-label": nameOf(number, head) }, canvas);
    button.addEventListener("click", () => {
      select({ layer: number, head: layer.heads === 1 ? -1 : head });
      onSelect();
    });
    return { number, head, canvas, button };
  }));
  const grid = document.getElementById("grid-scroller");
  grid.style.setProperty("--row", `${170 + 78 * Math.max(...data.layers.map((layer) => layer.heads))}px`);
  data.layers.forEach((layer, number) => {
    const name = element("span", { className: "name", textContent: layer.title, title: layer.name });
    const row = element("div", { className: "thumbs" }, ...thumbs.filter((thumb) => thumb.number === number).map((thumb) => thumb.button));
    grid.append(element("div", { className: "heads-row", role: "group", "aria-label": layer.title }, name, row));
  });
  return thumbs;
}

function markSelected(thumbs) {
  for (const { number, head, button } of thumbs) {
    const selected = number === state.layer && (state.head === head || data.layers[number].heads === 1);
    button.setAttribute("aria-pressed", String(selected));
  }
}

views.push(showControls, showTheme);

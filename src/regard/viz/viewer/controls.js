// What every page has: a layer and a head to choose, light and dark, and all heads small.

const layerChoice = document.getElementById("layer");
const headChoice = document.getElementById("head");

layerChoice.append(...data.layers.map((layer, number) => new Option(layer.name, String(number))));
layerChoice.addEventListener("change", () => choose({ layer: Number(layerChoice.value), head: -1 }));
headChoice.addEventListener("change", () => choose({ head: Number(headChoice.value) }));
document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());

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

function isDark() {
  return (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
}

function showTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark() ? "switch to light colours" : "switch to dark colours");
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
dark.addEventListener("change", redraw);

const THUMB = 64;

/** A small picture for each head, in a row for each layer; `opened` is called after one was chosen. */
function laidOut(opened) {
  const found = data.layers.flatMap((layer, number) => Array.from({ length: layer.heads }, (_, head) => {
    const canvas = element("canvas", { width: THUMB, height: THUMB });
    const button = element("button", { type: "button", className: "thumb", title: nameOf(number, head), "aria-label": nameOf(number, head) }, canvas);
    button.addEventListener("click", () => {
      choose({ layer: number, head: layer.heads === 1 ? -1 : head });
      opened();
    });
    return { number, head, canvas, button };
  }));
  const grid = document.getElementById("grid-scroller");
  grid.style.setProperty("--row", `${170 + 78 * Math.max(...data.layers.map((layer) => layer.heads))}px`);
  data.layers.forEach((layer, number) => {
    const name = element("span", { className: "name", textContent: layer.name });
    const small = element("div", { className: "thumbs" }, ...found.filter((each) => each.number === number).map((each) => each.button));
    grid.append(element("div", { className: "heads-row", role: "group", "aria-label": layer.name }, name, small));
  });
  return found;
}

function showOpened(thumbs) {
  for (const { number, head, button } of thumbs) {
    const open = number === state.layer && (state.head === head || data.layers[number].heads === 1);
    button.setAttribute("aria-pressed", String(open));
  }
}

views.push(showControls, showTheme);

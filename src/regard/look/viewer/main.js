// The controls, light and dark, and printing.

const layerChoice = document.getElementById("layer");
const headChoice = document.getElementById("head");

layerChoice.append(...data.layers.map((layer, number) => new Option(layer.name, String(number))));
layerChoice.addEventListener("change", () => choose({ layer: Number(layerChoice.value), head: -1 }));
headChoice.addEventListener("change", () => choose({ head: Number(headChoice.value) }));
document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("in-words").addEventListener("change", () => choose({ words: true }));
document.getElementById("in-tokens").addEventListener("change", () => choose({ words: false }));

function showControls() {
  const { heads } = data.layers[state.layer];
  layerChoice.value = String(state.layer);
  const options = heads === 1 ? [new Option("the only one", "-1")]
    : [new Option("mean of all", "-1"), ...Array.from({ length: heads }, (_, head) => new Option(String(head), String(head)))];
  headChoice.replaceChildren(...options);
  headChoice.value = String(state.head);
  headChoice.disabled = heads === 1;
  document.getElementById(state.words ? "in-words" : "in-tokens").checked = true;
}

views.unshift(showControls);

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
matchMedia("print").addEventListener("change", redraw);
views.push(showTheme);

choose(data.opened);

// Table of the entropy and distance of every head, with bars.

function showStatistics() {
  const unit = state.words ? "words" : "tokens";
  document.getElementById("unit").textContent = unit;
  const max = { entropy: 1e-9, distance: 1e-9 };
  for (const layer of data.layers) {
    for (const statistic of ["entropy", "distance"]) max[statistic] = Math.max(max[statistic], ...layer[statistic][unit]);
  }
  const head = element("tr", {}, ...["layer", "head", "entropy", "distance"].map((name) => element("th", { scope: "col", textContent: name })));
  const rows = data.layers.flatMap((layer, number) => layer.rollout ? [] : layer.entropy[unit].map((_, index) => {
    const open = element("button", { type: "button", className: "quiet", textContent: String(index), "aria-label": `open ${nameOf(number, index)}` });
    open.addEventListener("click", () => { select({ layer: number, head: layer.heads === 1 ? -1 : index }); heat.view.canvas.focus(); });
    const current = number === state.layer && (index === state.head || layer.heads === 1);
    return element("tr", { className: current ? "current" : "" }, element("td", { textContent: layer.title, title: layer.name }), element("td", {}, open),
      cell(layer.entropy[unit][index], max.entropy), cell(layer.distance[unit][index], max.distance));
  }));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  document.getElementById("statistics-scroller").replaceChildren(table);
}

function cell(value, max) {
  const bar = element("span", { className: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--part", (value / max).toFixed(3));
  return element("td", {}, value.toFixed(2), bar);
}

views.push(showStatistics);

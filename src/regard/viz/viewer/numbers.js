// Entropy and distance of every head, as numbers with a bar each.

function showNumbers() {
  const kind = state.words ? "words" : "tokens";
  document.getElementById("unit").textContent = kind;
  const most = { entropy: 1e-9, distance: 1e-9 };
  for (const layer of data.layers) {
    for (const measure of ["entropy", "distance"]) most[measure] = Math.max(most[measure], ...layer[measure][kind]);
  }
  const head = element("tr", {}, ...["layer", "head", "entropy", "distance"].map((name) => element("th", { scope: "col", textContent: name })));
  const rows = data.layers.flatMap((layer, number) => layer.rollout ? [] : layer.entropy[kind].map((_, nth) => {
    const open = element("button", { type: "button", className: "quiet", textContent: String(nth), "aria-label": `open ${nameOf(number, nth)}` });
    open.addEventListener("click", () => { choose({ layer: number, head: layer.heads === 1 ? -1 : nth }); heat.view.canvas.focus(); });
    const current = number === state.layer && (nth === state.head || layer.heads === 1);
    return element("tr", { className: current ? "current" : "" }, element("td", { textContent: layer.name }), element("td", {}, open),
      cell(layer.entropy[kind][nth], most.entropy), cell(layer.distance[kind][nth], most.distance));
  }));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  document.getElementById("numbers-scroller").replaceChildren(table);
}

function cell(value, most) {
  const bar = element("span", { className: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--part", (value / most).toFixed(3));
  return element("td", {}, value.toFixed(2), bar);
}

views.push(showNumbers);

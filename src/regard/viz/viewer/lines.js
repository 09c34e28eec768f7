// Head view: query and key tokens in two columns, a line for each larger weight, a colour for each head.

const ROW = 25;
const HEADING = 26;
const MIN_WEIGHT = 0.04; // smaller weights are not drawn

const lines = { selected: null, label: 0 };

lines.view = new ScrollableCanvas("lines", (context, available) => {
  const { left, right } = sidesOf(state.layer);
  lines.label = Math.min(widest(context, [...left.labels, ...right.labels, left.name, right.name], 170), available * 0.34) + 12;
  const rows = Math.max(left.labels.length, right.labels.length);
  return { width: Math.min(available, 2 * lines.label + 420), height: HEADING + rows * ROW + 6 };
}, drawLines);

function showLines() {
  const layer = data.layers[state.layer];
  lines.selected = null;
  document.getElementById("lines-what").textContent = layer.title;
  document.getElementById("lines-what").title = layer.name;
  document.getElementById("lines-status").textContent = "";
  lines.view.canvas.setAttribute("aria-label", `Lines from queries to keys, ${layer.title}; arrow keys select a token`);
  showHeadButtons();
  lines.view.show();
}

/** A button for each head, and two for all or none of them. */
function showHeadButtons() {
  const { heads } = data.layers[state.layer];
  const buttons = Array.from({ length: heads }, (_, head) => {
    const button = element("button", {
      type: "button", className: "head", textContent: String(head),
      "aria-label": `head ${head}`, "aria-pressed": String(state.enabled.has(head)),
    });
    button.style.setProperty("--colour", `var(--head-${head % 8})`);
    button.addEventListener("click", () => {
      if (!state.enabled.delete(head)) state.enabled.add(head);
      headsChanged();
    });
    return button;
  });
  const setAll = (label, heads) => {
    const button = element("button", { type: "button", className: "all quiet", textContent: label });
    button.addEventListener("click", () => { state.enabled = new Set(heads); headsChanged(); });
    return button;
  };
  const allHeads = buttons.map((_, head) => head);
  document.getElementById("heads").replaceChildren(...buttons, setAll("all", allHeads), setAll("none", []));
}

function headsChanged() {
  document.querySelectorAll("#heads .head").forEach((button, head) => button.setAttribute("aria-pressed", String(state.enabled.has(head))));
  showLineStatus();
  lines.view.paint();
}

function rowCentre(row, viewport) {
  return HEADING + (row + 0.5) * ROW - viewport.y;
}

function drawLines(context, viewport) {
  const { left, right } = sidesOf(state.layer);
  const weights = weightsOf(state.layer);
  context.clearRect(0, 0, viewport.width, viewport.height);
  const first = Math.max(0, Math.floor((viewport.y - HEADING) / ROW));
  const last = Math.ceil((viewport.y + viewport.height) / ROW);
  const heads = [...state.enabled].sort((a, b) => a - b);
  context.save();
  context.beginPath();
  context.rect(0, HEADING, viewport.width, viewport.height);
  context.clip();
  heads.forEach((head, index) => {
    const offset = (index - (heads.length - 1) / 2) * Math.min(2.5, 14 / heads.length);
    context.strokeStyle = headColour(head);
    context.setLineDash(headDash(head));
    forEachLine(weights, head, first, last, (row, column, weight) => drawLine(context, viewport, row, column, weight, offset));
  });
  context.setLineDash([]);
  context.globalAlpha = 1;
  drawTokens(context, viewport, "left", left.labels, first, last);
  drawTokens(context, viewport, "right", right.labels, first, last);
  context.restore();
  drawHeadings(context, viewport, left.name, right.name);
}

/** Calls `draw` for the lines of a head: those of the selected token, or all with an end in the visible rows. */
function forEachLine({ rows, columns, values }, head, first, last, draw) {
  const { selected } = lines;
  const visit = (row, column) => {
    const weight = values[(head * rows + row) * columns + column];
    if (weight >= MIN_WEIGHT) draw(row, column, weight);
  };
  if (selected?.side === "left") {
    for (let column = 0; column < columns; column += 1) visit(selected.index, column);
  } else if (selected) {
    for (let row = 0; row < rows; row += 1) visit(row, selected.index);
  } else {
    for (let row = 0; row < rows; row += 1) {
      const visible = row >= first && row < last;
      for (let column = visible ? 0 : first; column < (visible ? columns : Math.min(last, columns)); column += 1) visit(row, column);
    }
  }
}

function drawLine(context, viewport, row, column, weight, offset) {
  const from = { x: lines.label + 4, y: rowCentre(row, viewport) + offset };
  const to = { x: viewport.width - lines.label - 4, y: rowCentre(column, viewport) + offset };
  const bend = (to.x - from.x) * 0.4;
  context.globalAlpha = Math.min(1, 0.12 + weight * 0.88);
  context.lineWidth = 1 + weight * 2;
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
  context.stroke();
}

function drawTokens(context, viewport, side, labels, first, last) {
  const { selected } = lines;
  const weights = selected && selected.side !== side ? maxOverHeads(selected) : null;
  for (let index = first; index < Math.min(last, labels.length); index += 1) {
    const isSelected = selected?.side === side && selected.index === index;
    const weight = weights ? weights[index] : 1;
    context.textAlign = side === "left" ? "right" : "left";
    setTextStyle(context, isSelected);
    context.globalAlpha = isSelected || !selected || selected.side === side ? 1 : Math.min(1, 0.35 + weight);
    const x = side === "left" ? lines.label - 4 : viewport.width - lines.label + 4;
    context.fillText(shorten(context, labels[index], lines.label - 8), x, rowCentre(index, viewport));
  }
  context.globalAlpha = 1;
}

function drawHeadings(context, viewport, left, right) {
  context.font = font(600, 12);
  context.fillStyle = colour("soft");
  context.textAlign = "right";
  context.fillText(shorten(context, left, lines.label), lines.label - 4, 12);
  context.textAlign = "left";
  context.fillText(shorten(context, right, lines.label), viewport.width - lines.label + 4, 12);
}

/** Weights between the selected token and each token of the other side: the maximum over the enabled heads. */
function maxOverHeads(selected) {
  let max = null;
  for (const head of state.enabled) {
    const weights = weightsWith(selected, matrixOf(state.layer, head));
    max = max ? max.map((weight, index) => Math.max(weight, weights[index])) : Float32Array.from(weights);
  }
  return max ?? new Float32Array(0);
}

function selectToken(selected) {
  lines.selected = selected;
  showLineStatus();
  lines.view.paint();
}

function showLineStatus() {
  document.getElementById("lines-status").textContent = lines.selected ? lineSentence(lines.selected) : "";
}

function lineSentence(selected) {
  const sides = sidesOf(state.layer);
  const labels = sides[selected.side === "left" ? "right" : "left"].labels;
  const links = [];
  for (const head of state.enabled) {
    weightsWith(selected, matrixOf(state.layer, head)).forEach((weight, index) => {
      if (weight >= HIGHLIGHTED) links.push({ weight, index, head });
    });
  }
  links.sort((a, b) => b.weight - a.weight);
  const list = links.slice(0, 4).map((link) => `“${labels[link.index]}” ${percent(link.weight)} (head ${link.head})`).join(", ");
  return attentionSentence(selected, sides, list);
}

function selectTokenAt(event) {
  const { y, inViewport } = lines.view.positionOf(event);
  const side = inViewport.x < lines.label + 8 ? "left" : inViewport.x > lines.view.canvas.clientWidth - lines.label - 8 ? "right" : null;
  const index = Math.floor((y - HEADING) / ROW);
  const count = side && sidesOf(state.layer)[side].labels.length;
  selectToken(side && inViewport.y > HEADING && index < count ? { side, index } : null);
}

lines.view.canvas.addEventListener("pointermove", selectTokenAt);
lines.view.canvas.addEventListener("pointerdown", selectTokenAt);
lines.view.canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") selectToken(null); });
lines.view.canvas.addEventListener("keydown", (event) => {
  const { side, index } = lines.selected ?? { side: "left", index: -1 };
  const target = {
    ArrowUp: { side, index: index - 1 }, ArrowDown: { side, index: index + 1 }, ArrowLeft: { side: "left", index },
    ArrowRight: { side: "right", index }, Home: { side, index: 0 }, End: { side, index: Infinity },
  }[event.key];
  if (event.key === "Escape") selectToken(null);
  if (!target) return;
  event.preventDefault();
  const count = sidesOf(state.layer)[target.side].labels.length;
  target.index = Math.min(Math.max(target.index, 0), count - 1);
  selectToken(target);
  lines.view.reveal({ x: 0, y: HEADING + target.index * ROW, width: 1, height: ROW }, { left: 0, top: HEADING });
});

views.push(showLines);

// The head view: two columns of tokens, a line for every weight that counts, a colour for every head.

const ROW = 25;
const HEADING = 26;
const FAINT = 0.04; // weaker lines are not drawn

const lines = { chosen: null, label: 0 };

lines.view = new Scrolled("lines", (pen, room) => {
  const { left, right } = sidesOf(state.layer);
  lines.label = Math.min(widest(pen, [...left.labels, ...right.labels, left.name, right.name], 170), room * 0.34) + 12;
  const tall = Math.max(left.labels.length, right.labels.length);
  return { width: Math.min(room, 2 * lines.label + 420), height: HEADING + tall * ROW + 6 };
}, drawLines);

function showLines() {
  const layer = data.layers[state.layer];
  lines.chosen = null;
  document.getElementById("lines-what").textContent = layer.rollout ? nameOf(state.layer, -1) : layer.name;
  document.getElementById("lines-told").textContent = "";
  lines.view.canvas.setAttribute("aria-label", `Lines from those that look to those looked at, ${layer.name}; arrow keys choose a token`);
  showHeads();
  lines.view.show();
}

/** A button for each head, and two for all of them. */
function showHeads() {
  const { heads } = data.layers[state.layer];
  const buttons = Array.from({ length: heads }, (_, head) => {
    const button = element("button", {
      type: "button", className: "head", textContent: String(head),
      "aria-label": `head ${head}`, "aria-pressed": String(state.on.has(head)),
    });
    button.style.setProperty("--colour", `var(--head-${head % 8})`);
    button.addEventListener("click", () => {
      if (!state.on.delete(head)) state.on.add(head);
      switched();
    });
    return button;
  });
  const all = (label, chosen) => {
    const button = element("button", { type: "button", className: "all quiet", textContent: label });
    button.addEventListener("click", () => { state.on = new Set(chosen); switched(); });
    return button;
  };
  const every = buttons.map((_, head) => head);
  document.getElementById("heads").replaceChildren(...buttons, all("all", every), all("none", []));
}

function switched() {
  document.querySelectorAll("#heads .head").forEach((button, head) => button.setAttribute("aria-pressed", String(state.on.has(head))));
  tellLines();
  lines.view.paint();
}

function middleOf(place, seen) {
  return HEADING + (place + 0.5) * ROW - seen.y;
}

function drawLines(pen, seen) {
  const { left, right } = sidesOf(state.layer);
  const whole = weightsOf(state.layer);
  pen.clearRect(0, 0, seen.width, seen.height);
  const first = Math.max(0, Math.floor((seen.y - HEADING) / ROW));
  const last = Math.ceil((seen.y + seen.height) / ROW);
  const heads = [...state.on].sort((one, other) => one - other);
  pen.save();
  pen.beginPath();
  pen.rect(0, HEADING, seen.width, seen.height);
  pen.clip();
  heads.forEach((head, nth) => {
    const apart = (nth - (heads.length - 1) / 2) * Math.min(2.5, 14 / heads.length);
    pen.strokeStyle = headColour(head);
    pen.setLineDash(headDash(head));
    eachLine(whole, head, first, last, (row, column, weight) => drawLine(pen, seen, row, column, weight, apart));
  });
  pen.setLineDash([]);
  pen.globalAlpha = 1;
  drawTokens(pen, seen, "left", left.labels, first, last);
  drawTokens(pen, seen, "right", right.labels, first, last);
  pen.restore();
  drawNames(pen, seen, left.name, right.name);
}

/** The weights of a head to draw: those of the chosen token, or all with an end among the rows seen. */
function eachLine({ rows, columns, values }, head, first, last, draw) {
  const { chosen } = lines;
  const at = (row, column) => {
    const weight = values[(head * rows + row) * columns + column];
    if (weight >= FAINT) draw(row, column, weight);
  };
  if (chosen?.side === "left") {
    for (let column = 0; column < columns; column += 1) at(chosen.place, column);
  } else if (chosen) {
    for (let row = 0; row < rows; row += 1) at(row, chosen.place);
  } else {
    for (let row = 0; row < rows; row += 1) {
      const seen = row >= first && row < last;
      for (let column = seen ? 0 : first; column < (seen ? columns : Math.min(last, columns)); column += 1) at(row, column);
    }
  }
}

function drawLine(pen, seen, row, column, weight, apart) {
  const from = { x: lines.label + 4, y: middleOf(row, seen) + apart };
  const to = { x: seen.width - lines.label - 4, y: middleOf(column, seen) + apart };
  const bend = (to.x - from.x) * 0.4;
  pen.globalAlpha = Math.min(1, 0.12 + weight * 0.88);
  pen.lineWidth = 1 + weight * 2;
  pen.beginPath();
  pen.moveTo(from.x, from.y);
  pen.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
  pen.stroke();
}

function drawTokens(pen, seen, side, labels, first, last) {
  const { chosen } = lines;
  const lit = chosen && chosen.side !== side ? strongestOf(chosen) : null;
  for (let place = first; place < Math.min(last, labels.length); place += 1) {
    const picked = chosen?.side === side && chosen.place === place;
    const weight = lit ? lit[place] : 1;
    pen.textAlign = side === "left" ? "right" : "left";
    ink(pen, picked);
    pen.globalAlpha = picked || !chosen || chosen.side === side ? 1 : Math.min(1, 0.35 + weight);
    const x = side === "left" ? lines.label - 4 : seen.width - lines.label + 4;
    pen.fillText(fitted(pen, labels[place], lines.label - 8), x, middleOf(place, seen));
  }
  pen.globalAlpha = 1;
}

function drawNames(pen, seen, left, right) {
  pen.font = font(600, 12);
  pen.fillStyle = colour("soft");
  pen.textAlign = "right";
  pen.fillText(fitted(pen, left, lines.label), lines.label - 4, 12);
  pen.textAlign = "left";
  pen.fillText(fitted(pen, right, lines.label), seen.width - lines.label + 4, 12);
}

/** For each token of the other side the strongest weight of the heads switched on. */
function strongestOf(chosen) {
  let found = null;
  for (const head of state.on) {
    const weights = partners(chosen, matrixOf(state.layer, head));
    found = found ? found.map((weight, place) => Math.max(weight, weights[place])) : Float32Array.from(weights);
  }
  return found ?? new Float32Array(0);
}

function chooseToken(chosen) {
  lines.chosen = chosen;
  tellLines();
  lines.view.paint();
}

function tellLines() {
  document.getElementById("lines-told").textContent = lines.chosen ? lineSentence(lines.chosen) : "";
}

function lineSentence(chosen) {
  const sides = sidesOf(state.layer);
  const labels = sides[chosen.side === "left" ? "right" : "left"].labels;
  const found = [];
  for (const head of state.on) {
    partners(chosen, matrixOf(state.layer, head)).forEach((weight, place) => { if (weight >= LIT) found.push({ weight, place, head }); });
  }
  found.sort((one, other) => other.weight - one.weight);
  const list = found.slice(0, 4).map((each) => `“${labels[each.place]}” ${percent(each.weight)} (head ${each.head})`).join(", ");
  const word = `“${sides[chosen.side].labels[chosen.place]}”`;
  return `${word} ${chosen.side === "left" ? "looks at" : "is looked at by"} ${list || "nothing in particular"}`;
}

function tokenAt(event) {
  const { y, seen } = lines.view.place(event);
  const side = seen.x < lines.label + 8 ? "left" : seen.x > lines.view.canvas.clientWidth - lines.label - 8 ? "right" : null;
  const place = Math.floor((y - HEADING) / ROW);
  const count = side && sidesOf(state.layer)[side].labels.length;
  chooseToken(side && seen.y > HEADING && place < count ? { side, place } : null);
}

lines.view.canvas.addEventListener("pointermove", tokenAt);
lines.view.canvas.addEventListener("pointerdown", tokenAt);
lines.view.canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") chooseToken(null); });
lines.view.canvas.addEventListener("keydown", (event) => {
  const { side, place } = lines.chosen ?? { side: "left", place: -1 };
  const goal = {
    ArrowUp: { side, place: place - 1 }, ArrowDown: { side, place: place + 1 }, ArrowLeft: { side: "left", place },
    ArrowRight: { side: "right", place }, Home: { side, place: 0 }, End: { side, place: Infinity },
  }[event.key];
  if (event.key === "Escape") chooseToken(null);
  if (!goal) return;
  event.preventDefault();
  const count = sidesOf(state.layer)[goal.side].labels.length;
  goal.place = Math.min(Math.max(goal.place, 0), count - 1);
  chooseToken(goal);
  lines.view.reveal({ x: 0, y: HEADING + goal.place * ROW, width: 1, height: ROW }, { left: 0, top: HEADING });
});

views.push(showLines);

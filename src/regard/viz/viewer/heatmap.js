// The heat map of one head: those that look from top to bottom, those looked at from left to right.

const TILT = (55 * Math.PI) / 180; // of the labels on top
// cell: what the slider says, or null: as large as there is room for
const heat = { cell: null, cursor: null, matrix: null, image: null, edge: { left: 0, top: 0 } };

heat.view = new Scrolled("heat", (pen, room) => {
  const { left, right } = sidesOf(state.layer);
  const { rows, columns } = heat.matrix;
  const top = Math.ceil(widest(pen, right.labels, 150) * Math.sin(TILT)) + 16;
  const beside = widest(pen, left.labels, room < 480 ? 90 : 150) + 14;
  const leaning = Math.ceil(widest(pen, right.labels.slice(-4), 150) * Math.cos(TILT)) + 6;
  heat.edge = { left: beside, top };
  const fitting = ((printing() ? 640 : room) - beside - leaning) / columns;
  heat.drawn = printing() ? Math.min(fitting, 28) : heat.cell ?? Math.floor(Math.min(Math.max(fitting, 16), 32));
  if (!printing()) document.getElementById("zoom").value = String(heat.drawn);
  return { width: beside + columns * heat.drawn + leaning, height: top + rows * heat.drawn + 2 };
}, drawHeat);

function showHeat() {
  heat.matrix = matrixOf(state.layer, state.head);
  const table = ramp();
  heat.image = picture(heat.matrix, table);
  heat.cursor = null;
  document.getElementById("heat-what").textContent = nameOf(state.layer, state.head);
  document.getElementById("heat-told").textContent = "";
  document.getElementById("ramp-high").textContent = heat.image.most.toFixed(2);
  heat.view.canvas.setAttribute("aria-label", `Heat map of ${nameOf(state.layer, state.head)}; arrow keys go from weight to weight`);
  const image = new ImageData(table, 256, 1);
  const bar = element("canvas", { width: 256, height: 1 });
  bar.getContext("2d").putImageData(image, 0, 0);
  document.getElementById("ramp").getContext("2d").drawImage(bar, 0, 0, 96, 8);
  heat.view.show();
}

function drawHeat(pen, seen) {
  const { left, right } = sidesOf(state.layer);
  const { edge, drawn: cell, matrix, cursor } = heat;
  const x = edge.left - seen.x;
  const y = edge.top - seen.y;
  pen.clearRect(0, 0, seen.width, seen.height);
  pen.save();
  pen.beginPath();
  pen.rect(edge.left, edge.top, seen.width, seen.height);
  pen.clip();
  pen.imageSmoothingEnabled = false;
  pen.drawImage(heat.image.canvas, x, y, matrix.columns * cell, matrix.rows * cell);
  if (cell >= 12) drawGaps(pen, x, y);
  pen.strokeStyle = colour("line");
  pen.strokeRect(x + 0.5, y + 0.5, matrix.columns * cell - 1, matrix.rows * cell - 1);
  if (cursor) {
    pen.strokeStyle = colour("focus");
    pen.lineWidth = 2;
    pen.strokeRect(x + cursor.column * cell, y + cursor.row * cell, cell, cell);
  }
  pen.restore();
  drawRowLabels(pen, seen, left.labels, y);
  drawColumnLabels(pen, seen, right.labels, x);
}

function drawGaps(pen, x, y) {
  const { drawn: cell, matrix } = heat;
  pen.strokeStyle = colour("card");
  pen.beginPath();
  for (let column = 1; column < matrix.columns; column += 1) {
    pen.moveTo(x + column * cell, y);
    pen.lineTo(x + column * cell, y + matrix.rows * cell);
  }
  for (let row = 1; row < matrix.rows; row += 1) {
    pen.moveTo(x, y + row * cell);
    pen.lineTo(x + matrix.columns * cell, y + row * cell);
  }
  pen.stroke();
}

/** Which labels there is room for: every one, or every so manieth, and that of the cursor. */
function labelled(count, chosen) {
  const apart = Math.ceil(15 / heat.drawn);
  return Array.from({ length: count }, (_, place) => place)
    .filter((place) => (chosen === undefined || Math.abs(place - chosen) >= apart ? place % apart === 0 : place === chosen));
}

function drawRowLabels(pen, seen, labels, y) {
  const { edge, drawn: cell, cursor } = heat;
  pen.save();
  pen.beginPath();
  pen.rect(0, edge.top, edge.left, seen.height);
  pen.clip();
  pen.textAlign = "right";
  for (const row of labelled(labels.length, cursor?.row)) {
    const middle = y + (row + 0.5) * cell;
    if (middle < edge.top - cell || middle > seen.height + cell) continue;
    ink(pen, cursor?.row === row);
    pen.fillText(fitted(pen, labels[row], edge.left - 12), edge.left - 8, middle);
  }
  pen.restore();
}

function drawColumnLabels(pen, seen, labels, x) {
  const { edge, drawn: cell, cursor } = heat;
  pen.save();
  pen.beginPath();
  pen.rect(edge.left - 4, 0, seen.width, edge.top);
  pen.clip();
  pen.textAlign = "left";
  for (const column of labelled(labels.length, cursor?.column)) {
    const middle = x + (column + 0.5) * cell;
    if (middle < edge.left - 1 || middle > seen.width) continue;
    ink(pen, cursor?.column === column);
    pen.save();
    pen.translate(middle, edge.top - 6);
    pen.rotate(-TILT);
    pen.fillText(fitted(pen, labels[column], 150), 0, 0);
    pen.restore();
  }
  pen.restore();
}

function ink(pen, chosen) {
  pen.fillStyle = colour(chosen ? "focus" : "ink");
  pen.font = font(chosen ? 650 : 400);
}

function point(cursor) {
  heat.cursor = cursor;
  const { left, right } = sidesOf(state.layer);
  const weight = cursor && heat.matrix.values[cursor.row * heat.matrix.columns + cursor.column];
  document.getElementById("heat-told").textContent = cursor
    ? `“${left.labels[cursor.row]}” looks at “${right.labels[cursor.column]}”: ${weight.toFixed(3)}` : "";
  heat.view.paint();
}

function pointAt(event) {
  const { x, y, seen } = heat.view.place(event);
  const column = Math.floor((x - heat.edge.left) / heat.drawn);
  const row = Math.floor((y - heat.edge.top) / heat.drawn);
  const inside = seen.x >= heat.edge.left && seen.y >= heat.edge.top && row < heat.matrix.rows && column < heat.matrix.columns;
  point(inside ? { row, column } : null);
}

heat.view.canvas.addEventListener("pointermove", pointAt);
heat.view.canvas.addEventListener("pointerdown", pointAt);
heat.view.canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") point(null); });
heat.view.canvas.addEventListener("keydown", (event) => {
  const { row, column } = heat.cursor ?? { row: 0, column: 0 };
  const goal = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, heat.matrix.columns - 1], PageUp: [0, column], PageDown: [heat.matrix.rows - 1, column],
  }[event.key];
  if (event.key === "Escape") point(null);
  if (!goal) return;
  event.preventDefault();
  if (!heat.cursor) goal.splice(0, 2, 0, 0); // the first press shows where the cursor is
  const to = { row: Math.min(Math.max(goal[0], 0), heat.matrix.rows - 1), column: Math.min(Math.max(goal[1], 0), heat.matrix.columns - 1) };
  point(to);
  const { edge, drawn } = heat;
  heat.view.reveal({ x: edge.left + to.column * drawn, y: edge.top + to.row * drawn, width: drawn, height: drawn }, edge);
});

const zoom = document.getElementById("zoom");
zoom.addEventListener("input", () => { heat.cell = Number(zoom.value); heat.view.show(); });

views.push(showHeat);

// Heat map of one head: queries from top to bottom, keys from left to right.

const TILT = (55 * Math.PI) / 180; // of the column labels
// cell: the size set with the slider, or null to fit the width; drawn: the size used
const heat = { cell: null, cursor: null, matrix: null, image: null, edge: { left: 0, top: 0 } };

heat.view = new ScrollableCanvas("heat", (context, available) => {
  const { left, right } = sidesOf(state.layer);
  const { rows, columns } = heat.matrix;
  const top = Math.ceil(widest(context, right.labels, 150) * Math.sin(TILT)) + 16;
  const margin = widest(context, left.labels, available < 480 ? 90 : 150) + 14;
  const overhang = Math.ceil(widest(context, right.labels.slice(-4), 150) * Math.cos(TILT)) + 6;
  heat.edge = { left: margin, top };
  const fitting = ((printing() ? 640 : available) - margin - overhang) / columns;
  heat.drawn = printing() ? Math.min(fitting, 28) : heat.cell ?? Math.floor(Math.min(Math.max(fitting, 16), 32));
  if (!printing()) document.getElementById("zoom").value = String(heat.drawn);
  return { width: margin + columns * heat.drawn + overhang, height: top + rows * heat.drawn + 2 };
}, drawHeat);

function showHeat() {
  heat.matrix = matrixOf(state.layer, state.head);
  const colours = colourMap();
  heat.image = matrixImage(heat.matrix, colours);
  heat.cursor = null;
  document.getElementById("heat-what").textContent = nameOf(state.layer, state.head);
  document.getElementById("heat-what").title = data.layers[state.layer].name;
  document.getElementById("heat-status").textContent = "";
  document.getElementById("ramp-high").textContent = heat.image.max.toFixed(2);
  heat.view.canvas.setAttribute("aria-label", `Heat map of ${nameOf(state.layer, state.head)}; arrow keys move between weights`);
  const image = new ImageData(colours, 256, 1);
  const bar = element("canvas", { width: 256, height: 1 });
  bar.getContext("2d").putImageData(image, 0, 0);
  document.getElementById("ramp").getContext("2d").drawImage(bar, 0, 0, 96, 8);
  heat.view.show();
}

function drawHeat(context, viewport) {
  const { left, right } = sidesOf(state.layer);
  const { edge, drawn: cell, matrix, cursor } = heat;
  const x = edge.left - viewport.x;
  const y = edge.top - viewport.y;
  context.clearRect(0, 0, viewport.width, viewport.height);
  context.save();
  context.beginPath();
  context.rect(edge.left, edge.top, viewport.width, viewport.height);
  context.clip();
  context.imageSmoothingEnabled = false;
  context.drawImage(heat.image.canvas, x, y, matrix.columns * cell, matrix.rows * cell);
  if (cell >= 12) drawCellBorders(context, x, y);
  context.strokeStyle = colour("line");
  context.strokeRect(x + 0.5, y + 0.5, matrix.columns * cell - 1, matrix.rows * cell - 1);
  if (cursor) {
    context.strokeStyle = colour("focus");
    context.lineWidth = 2;
    context.strokeRect(x + cursor.column * cell, y + cursor.row * cell, cell, cell);
  }
  context.restore();
  drawRowLabels(context, viewport, left.labels, y);
  drawColumnLabels(context, viewport, right.labels, x);
}

function drawCellBorders(context, x, y) {
  const { drawn: cell, matrix } = heat;
  context.strokeStyle = colour("card");
  context.beginPath();
  for (let column = 1; column < matrix.columns; column += 1) {
    context.moveTo(x + column * cell, y);
    context.lineTo(x + column * cell, y + matrix.rows * cell);
  }
  for (let row = 1; row < matrix.rows; row += 1) {
    context.moveTo(x, y + row * cell);
    context.lineTo(x + matrix.columns * cell, y + row * cell);
  }
  context.stroke();
}

/** Indices of the labels to draw: every one or every n-th that fits, and that of the cursor. */
function labelIndices(count, selected) {
  const step = Math.ceil(15 / heat.drawn);
  return Array.from({ length: count }, (_, index) => index)
    .filter((index) => (selected === undefined || Math.abs(index - selected) >= step ? index % step === 0 : index === selected));
}

function drawRowLabels(context, viewport, labels, y) {
  const { edge, drawn: cell, cursor } = heat;
  context.save();
  context.beginPath();
  context.rect(0, edge.top, edge.left, viewport.height);
  context.clip();
  context.textAlign = "right";
  for (const row of labelIndices(labels.length, cursor?.row)) {
    const middle = y + (row + 0.5) * cell;
    if (middle < edge.top - cell || middle > viewport.height + cell) continue;
    setTextStyle(context, cursor?.row === row);
    context.fillText(shorten(context, labels[row], edge.left - 12), edge.left - 8, middle);
  }
  context.restore();
}

function drawColumnLabels(context, viewport, labels, x) {
  const { edge, drawn: cell, cursor } = heat;
  context.save();
  context.beginPath();
  context.rect(edge.left - 4, 0, viewport.width, edge.top);
  context.clip();
  context.textAlign = "left";
  for (const column of labelIndices(labels.length, cursor?.column)) {
    const middle = x + (column + 0.5) * cell;
    if (middle < edge.left - 1 || middle > viewport.width) continue;
    setTextStyle(context, cursor?.column === column);
    context.save();
    context.translate(middle, edge.top - 6);
    context.rotate(-TILT);
    context.fillText(shorten(context, labels[column], 150), 0, 0);
    context.restore();
  }
  context.restore();
}

function setTextStyle(context, selected) {
  context.fillStyle = colour(selected ? "focus" : "ink");
  context.font = font(selected ? 650 : 400);
}

function moveCursor(cursor) {
  heat.cursor = cursor;
  const { left, right } = sidesOf(state.layer);
  const weight = cursor && heat.matrix.values[cursor.row * heat.matrix.columns + cursor.column];
  document.getElementById("heat-status").textContent = cursor
    ? `“${left.labels[cursor.row]}” attends to “${right.labels[cursor.column]}”: ${weight.toFixed(3)}` : "";
  heat.view.paint();
}

function moveCursorTo(event) {
  const { x, y, inViewport } = heat.view.positionOf(event);
  const column = Math.floor((x - heat.edge.left) / heat.drawn);
  const row = Math.floor((y - heat.edge.top) / heat.drawn);
  const inside = inViewport.x >= heat.edge.left && inViewport.y >= heat.edge.top && row < heat.matrix.rows && column < heat.matrix.columns;
  moveCursor(inside ? { row, column } : null);
}

heat.view.canvas.addEventListener("pointermove", moveCursorTo);
heat.view.canvas.addEventListener("pointerdown", moveCursorTo);
heat.view.canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") moveCursor(null); });
heat.view.canvas.addEventListener("keydown", (event) => {
  const { row, column } = heat.cursor ?? { row: 0, column: 0 };
  const target = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, heat.matrix.columns - 1], PageUp: [0, column], PageDown: [heat.matrix.rows - 1, column],
  }[event.key];
  if (event.key === "Escape") moveCursor(null);
  if (!target) return;
  event.preventDefault();
  if (!heat.cursor) target.splice(0, 2, 0, 0); // the first key press shows the cursor
  const to = { row: Math.min(Math.max(target[0], 0), heat.matrix.rows - 1), column: Math.min(Math.max(target[1], 0), heat.matrix.columns - 1) };
  moveCursor(to);
  const { edge, drawn } = heat;
  heat.view.reveal({ x: edge.left + to.column * drawn, y: edge.top + to.row * drawn, width: drawn, height: drawn }, edge);
});

const zoom = document.getElementById("zoom");
zoom.addEventListener("input", () => { heat.cell = Number(zoom.value); heat.view.show(); });

views.push(showHeat);

// A drawing of any size in a window that scrolls: the canvas is as large as what is seen of it.

class Scrolled {
  /** `measure(pen, width)` gives the whole size; `draw(pen, seen)` draws the part at seen.x, seen.y. */
  constructor(name, measure, draw) {
    this.canvas = document.getElementById(`${name}-canvas`);
    this.extent = this.canvas.parentElement;
    this.window = this.extent.parentElement;
    this.pen = this.canvas.getContext("2d");
    this.measure = measure;
    this.draw = draw;
    this.window.addEventListener("scroll", () => this.paint(), { passive: true });
    new ResizeObserver(() => this.show()).observe(this.window.parentElement);
  }

  show() {
    const room = this.window.clientWidth;
    if (!room) return;
    this.pen.font = font();
    this.size = this.measure(this.pen, room);
    this.extent.style.width = `${this.size.width}px`;
    this.extent.style.height = `${this.size.height}px`;
    this.paint();
  }

  paint() {
    if (!this.size) return;
    const width = Math.min(this.size.width, this.window.clientWidth);
    const height = Math.min(this.size.height, this.window.clientHeight);
    const dense = Math.max(window.devicePixelRatio || 1, printing() ? 2 : 1);
    this.canvas.width = Math.round(width * dense);
    this.canvas.height = Math.round(height * dense);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.pen.setTransform(dense, 0, 0, dense, 0, 0);
    this.pen.font = font();
    this.pen.textBaseline = "middle";
    this.draw(this.pen, { x: this.window.scrollLeft, y: this.window.scrollTop, width, height });
  }

  /** Where a pointer is in the whole drawing, and in what is seen of it. */
  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const seen = { x: event.clientX - box.left, y: event.clientY - box.top };
    return { seen, x: seen.x + this.window.scrollLeft, y: seen.y + this.window.scrollTop };
  }

  /** Scroll so far that a box of the drawing is seen beside margins that do not scroll. */
  reveal(box, margin) {
    const { window: view } = this;
    view.scrollLeft = Math.max(Math.min(view.scrollLeft, box.x - margin.left), box.x + box.width - view.clientWidth);
    view.scrollTop = Math.max(Math.min(view.scrollTop, box.y - margin.top), box.y + box.height - view.clientHeight);
    this.paint();
  }
}

function font(weight = 400, size = 13) {
  return `${weight} ${size}px system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif`;
}

/** A label no wider than there is room for. */
function fitted(pen, label, room) {
  if (pen.measureText(label).width <= room) return label;
  const letters = Array.from(label);
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}

function widest(pen, labels, most) {
  let width = 0;
  for (const label of labels) width = Math.max(width, pen.measureText(label).width);
  return Math.min(Math.ceil(width), most);
}

function printing() {
  return matchMedia("print").matches;
}

// A canvas drawing of any size in a scrolling element; the canvas covers the visible part only.

class ScrollableCanvas {
  /** `measure(context, width)` returns the full size; `draw(context, viewport)` draws the visible part. */
  constructor(name, measure, draw) {
    this.canvas = document.getElementById(`${name}-canvas`);
    this.extent = this.canvas.parentElement;
    this.window = this.extent.parentElement;
    this.context = this.canvas.getContext("2d");
    this.measure = measure;
    this.draw = draw;
    this.window.addEventListener("scroll", () => this.paint(), { passive: true });
    new ResizeObserver(() => this.show()).observe(this.window.parentElement);
  }

  show() {
    const available = this.window.clientWidth;
    if (!available) return;
    this.context.font = font();
    this.size = this.measure(this.context, available);
    this.extent.style.width = `${this.size.width}px`;
    this.extent.style.height = `${this.size.height}px`;
    this.paint();
  }

  paint() {
    if (!this.size) return;
    const width = Math.min(this.size.width, this.window.clientWidth);
    const height = Math.min(this.size.height, this.window.clientHeight);
    const pixelRatio = Math.max(window.devicePixelRatio || 1, printing() ? 2 : 1);
    this.canvas.width = Math.round(width * pixelRatio);
    this.canvas.height = Math.round(height * pixelRatio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
    this.context.font = font();
    this.context.textBaseline = "middle";
    this.draw(this.context, { x: this.window.scrollLeft, y: this.window.scrollTop, width, height });
  }

  /** Position of a pointer in the full drawing (x, y) and in its visible part (inViewport). */
  positionOf(event) {
    const box = this.canvas.getBoundingClientRect();
    const inViewport = { x: event.clientX - box.left, y: event.clientY - box.top };
    return { inViewport, x: inViewport.x + this.window.scrollLeft, y: inViewport.y + this.window.scrollTop };
  }

  /** Scrolls until a box of the drawing is visible next to margins that do not scroll. */
  reveal(box, margin) {
    const { window: scroller } = this;
    scroller.scrollLeft = Math.max(Math.min(scroller.scrollLeft, box.x - margin.left), box.x + box.width - scroller.clientWidth);
    scroller.scrollTop = Math.max(Math.min(scroller.scrollTop, box.y - margin.top), box.y + box.height - scroller.clientHeight);
    this.paint();
  }
}

function font(weight = 400, size = 13) {
  return `${weight} ${size}px system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif`;
}

/** A label cut to a width in pixels. */
function shorten(context, label, maxWidth) {
  if (context.measureText(label).width <= maxWidth) return label;
  const letters = Array.from(label);
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > maxWidth) letters.pop();
  return `${letters.join("")}…`;
}

/** Width in pixels of the widest label, at most `max`. */
function widest(context, labels, max) {
  let width = 0;
  for (const label of labels) width = Math.max(width, context.measureText(label).width);
  return Math.min(Math.ceil(width), max);
}

function printing() {
  return matchMedia("print").matches;
}

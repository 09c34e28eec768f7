// Thumbnails of all heads of all layers, drawn when they scroll into view.

const drawn = new WeakMap(); // unit and theme in which each thumbnail is drawn

const visibility = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) drawThumb(entry.target);
}, { rootMargin: "300px" });

const thumbs = createThumbs(() => {
  document.getElementById("heat").scrollIntoView({ block: "start" });
  heat.view.canvas.focus({ preventScroll: true });
});

function drawThumb(button) {
  const thumb = thumbs.find((item) => item.button === button);
  const version = `${state.words} ${colour("heat-high")}`;
  if (drawn.get(button) === version) return;
  drawn.set(button, version);
  const context = thumb.canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(matrixImage(matrixOf(thumb.number, thumb.head), colourMap(), THUMB, THUMB).canvas, 0, 0, THUMB, THUMB);
}

function showGrid() {
  markSelected(thumbs);
  for (const { button } of thumbs) {
    visibility.unobserve(button);
    if (printing()) drawThumb(button);
    else visibility.observe(button);
  }
}

if (data.layers.some((layer) => layer.rollout)) {
  document.getElementById("grid-hint").append(" Rollout: attention over the input tokens through all layers of a stack (Abnar & Zuidema 2020).");
}

views.push(showGrid);

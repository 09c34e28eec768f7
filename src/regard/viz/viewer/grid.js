// All heads of all layers, small; those out of sight are drawn when they come into it.

const drawn = new WeakMap(); // what each small picture shows already

const coming = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) drawThumb(entry.target);
}, { rootMargin: "300px" });

const thumbs = laidOut(() => {
  document.getElementById("heat").scrollIntoView({ block: "start" });
  heat.view.canvas.focus({ preventScroll: true });
});

function drawThumb(button) {
  const thumb = thumbs.find((each) => each.button === button);
  const look = `${state.words} ${colour("heat-high")}`;
  if (drawn.get(button) === look) return;
  drawn.set(button, look);
  const pen = thumb.canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(picture(matrixOf(thumb.number, thumb.head), ramp(), THUMB, THUMB).canvas, 0, 0, THUMB, THUMB);
}

function showGrid() {
  showOpened(thumbs);
  for (const { button } of thumbs) {
    coming.unobserve(button);
    if (printing()) drawThumb(button);
    else coming.observe(button);
  }
}

if (data.layers.some((layer) => layer.rollout)) {
  document.getElementById("grid-hint").append(" Rollout: what reaches each token through all layers of a stack (Abnar & Zuidema 2020).");
}

views.push(showGrid);

// All heads of all layers, small; those out of sight are drawn when they come into it.

const THUMB = 64;
const drawn = new WeakMap(); // what each small picture shows already

const coming = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) drawThumb(entry.target);
}, { rootMargin: "300px" });

const thumbs = data.layers.flatMap((layer, number) => Array.from({ length: layer.heads }, (_, head) => {
  const canvas = element("canvas", { width: THUMB, height: THUMB });
  const button = element("button", { type: "button", className: "thumb", title: nameOf(number, head), "aria-label": nameOf(number, head) }, canvas);
  button.addEventListener("click", () => {
    choose({ layer: number, head: layer.heads === 1 ? -1 : head });
    document.getElementById("heat").scrollIntoView({ block: "start" });
    heat.view.canvas.focus({ preventScroll: true });
  });
  return { number, head, canvas, button };
}));

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
  for (const { number, head, button } of thumbs) {
    const open = number === state.layer && (state.head === head || data.layers[number].heads === 1);
    button.setAttribute("aria-pressed", String(open));
    coming.unobserve(button);
    if (printing()) drawThumb(button);
    else coming.observe(button);
  }
}

document.getElementById("grid-scroller").style.setProperty("--row", `${170 + 78 * Math.max(...data.layers.map((layer) => layer.heads))}px`);
data.layers.forEach((layer, number) => {
  const name = element("span", { className: "name", textContent: layer.name });
  const row = element("div", { className: "heads-row", role: "group", "aria-label": layer.name }, name);
  row.append(element("div", { className: "thumbs" }, ...thumbs.filter((each) => each.number === number).map((each) => each.button)));
  document.getElementById("grid-scroller").append(row);
});

if (data.layers.some((layer) => layer.rollout)) {
  document.getElementById("grid-hint").append(" Rollout: what reaches each token through all layers of a stack (Abnar & Zuidema 2020).");
}

views.push(showGrid);

// What is shown now, and who wants to know when it changes.

const state = {
  ...data.opened, // layer, head (-1: the mean of all), words
  on: new Set(), // heads drawn in the head view
};
const views = [];

function choose(change) {
  Object.assign(state, change);
  if ("layer" in change || "head" in change) {
    const { heads } = data.layers[state.layer];
    if (state.head >= heads) state.head = -1;
    state.on = new Set(state.head >= 0 ? [state.head] : Array.from({ length: heads }, (_, head) => head));
  }
  redraw();
}

function redraw() {
  for (const show of views) show();
}

function nameOf(number, head) {
  const layer = data.layers[number];
  if (layer.rollout) return `${layer.name}, all layers together`;
  return layer.heads === 1 ? layer.name : `${layer.name}, ${head < 0 ? `mean of ${layer.heads} heads` : `head ${head}`}`;
}

function element(kind, settings = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(settings)) {
    if (name in made && name !== "role") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

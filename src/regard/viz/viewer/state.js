// The current selection, and the views that are redrawn when it changes.

const state = {
  ...data.opened, // layer, head (-1: the mean of all), words (whether subwords are joined)
  enabled: new Set(), // heads enabled in the head view
};
const views = [];

function select(change) {
  Object.assign(state, change);
  if ("layer" in change || "head" in change) {
    const { heads } = data.layers[state.layer];
    if (state.head >= heads) state.head = -1;
    state.enabled = new Set(state.head >= 0 ? [state.head] : Array.from({ length: heads }, (_, head) => head));
  }
  redraw();
}

function redraw() {
  for (const show of views) show();
}

function nameOf(number, head) {
  const { title, heads } = data.layers[number];
  return heads === 1 ? title : `${title}, ${head < 0 ? `mean of ${heads} heads` : `head ${head}`}`;
}

function element(tag, settings = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) {
    if (name in created && name !== "role") created[name] = value;
    else created.setAttribute(name, value);
  }
  created.append(...children);
  return created;
}

// The words: point at one, and those it looked at, or that looked at it, light up.

const LIT = 0.05; // what is weaker is not told

const words = { pinned: null, blocks: {} };

function showWords() {
  const { left, right } = sidesOf(state.layer);
  const same = left.name === right.name;
  words.pinned = null;
  words.blocks = {
    right: textBlock("right", same ? `${right.name}: looked at` : right.name, right.labels),
    left: textBlock("left", same ? `${left.name}: looking` : left.name, left.labels),
  };
  document.getElementById("texts").replaceChildren(words.blocks.right.whole, words.blocks.left.whole);
  lightUp(null);
}

function textBlock(side, heading, labels) {
  const title = element("h3", { id: `text-${side}`, textContent: heading });
  const text = element("div", { className: "text", role: "listbox", dir: "auto", "aria-labelledby": title.id, "aria-orientation": "horizontal" });
  const spans = labels.map((label, place) => element("span", {
    className: /^<.{1,6}>$/.test(label) ? "word special" : "word", textContent: label, role: "option", "aria-selected": "false",
    tabIndex: place === 0 ? 0 : -1,
  }));
  spans.forEach((span, place) => text.append(span, place + 1 < spans.length ? " " : ""));
  const at = (event) => spans.indexOf(event.target.closest(".word"));
  text.addEventListener("pointerover", (event) => { if (at(event) >= 0) lightUp({ side, place: at(event) }); });
  text.addEventListener("pointerleave", () => lightUp(words.pinned));
  text.addEventListener("pointerdown", (event) => { if (at(event) >= 0) pin({ side, place: at(event) }); });
  text.addEventListener("focusin", (event) => { if (at(event) >= 0) pin({ side, place: at(event) }); });
  text.addEventListener("focusout", () => pin(null));
  text.addEventListener("keydown", (event) => step(event, side, spans));
  return { whole: element("div", {}, title, text), text, spans };
}

function pin(chosen) {
  words.pinned = chosen;
  lightUp(chosen);
}

/** Arrow keys go along the text as it is read; up and down to the other side. */
function step(event, side, spans) {
  const here = spans.indexOf(event.target);
  const forward = getComputedStyle(spans[0].parentElement).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const backward = forward === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
  const other = words.blocks[side === "left" ? "right" : "left"].spans;
  const goals = {
    [forward]: spans[here + 1], [backward]: spans[here - 1], Home: spans[0], End: spans.at(-1),
    ArrowUp: side === "left" ? other[Math.min(here, other.length - 1)] : undefined,
    ArrowDown: side === "right" ? other[Math.min(here, other.length - 1)] : undefined,
  };
  if (event.key === "Escape") event.target.blur();
  if (!(event.key in goals)) return;
  event.preventDefault();
  const goal = goals[event.key];
  if (!goal) return;
  (spans.includes(goal) ? spans : other).forEach((span) => { span.tabIndex = span === goal ? 0 : -1; });
  goal.focus();
}

/** Weights between a chosen word and every word of the other side. */
function partners(chosen, matrix) {
  const { rows, columns, values } = matrix;
  return chosen.side === "left"
    ? values.subarray(chosen.place * columns, (chosen.place + 1) * columns)
    : Float32Array.from({ length: rows }, (_, row) => values[row * columns + chosen.place]);
}

function lightUp(chosen) {
  for (const side of ["left", "right"]) {
    const other = chosen && chosen.side !== side;
    const weights = other ? partners(chosen, matrixOf(state.layer, state.head)) : null;
    words.blocks[side].spans.forEach((span, place) => {
      const strength = weights ? weights[place] : 0;
      const picked = Boolean(chosen) && !other && chosen.place === place;
      span.classList.toggle("lit", strength >= LIT);
      span.classList.toggle("strong", strength >= 0.5);
      span.classList.toggle("chosen", picked);
      span.setAttribute("aria-selected", String(picked));
      span.style.setProperty("--strength", strength.toFixed(3));
    });
  }
  document.getElementById("words-told").textContent = chosen ? sentence(chosen) : "";
}

function sentence(chosen) {
  const sides = sidesOf(state.layer);
  const weights = partners(chosen, matrixOf(state.layer, state.head));
  const labels = sides[chosen.side === "left" ? "right" : "left"].labels;
  const strongest = Array.from(weights, (weight, place) => ({ weight, place }))
    .filter((each) => each.weight >= LIT).sort((one, other) => other.weight - one.weight).slice(0, 4);
  const list = strongest.map((each) => `“${labels[each.place]}” ${percent(each.weight)}`).join(", ");
  const word = `“${sides[chosen.side].labels[chosen.place]}”`;
  if (chosen.side === "left") return `${word} looks at ${list || "nothing in particular"}`;
  return `${word} is looked at by ${list || "nothing in particular"}`;
}

views.push(showWords);

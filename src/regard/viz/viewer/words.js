// The text: pointing at a word highlights the words it attends to, or those that attend to it.

const HIGHLIGHTED = 0.05; // smaller weights are not highlighted or listed

const words = { pinned: null, blocks: {} };

function showWords() {
  const { left, right } = sidesOf(state.layer);
  const same = left.name === right.name;
  words.pinned = null;
  words.blocks = {
    right: textBlock("right", same ? `${right.name} (keys)` : right.name, right),
    left: textBlock("left", same ? `${left.name} (queries)` : left.name, left),
  };
  document.getElementById("texts").replaceChildren(words.blocks.right.block, words.blocks.left.block);
  highlight(clearestQuery(matrixOf(state.layer, state.head), left.labels, right.labels));
}

/** The query with the largest weight on a word that is not at its own position; punctuation and special tokens do not count. */
function clearestQuery({ rows, columns, values }, queries, keys) {
  const isWord = (label) => /[\p{L}\p{N}]/u.test(label) && !isSpecial(label);
  const keyWords = keys.map(isWord);
  let clearest = null;
  let max = HIGHLIGHTED;
  for (let row = 0; row < rows; row += 1) {
    if (!isWord(queries[row])) continue;
    const diagonal = (row * (columns - 1)) / Math.max(1, rows - 1);
    for (let column = 0; column < columns; column += 1) {
      const weight = values[row * columns + column];
      if (weight > max && keyWords[column] && Math.abs(column - diagonal) >= 1) {
        max = weight;
        clearest = { side: "left", index: row };
      }
    }
  }
  return clearest;
}

function isSpecial(label) {
  return /^(<.{1,6}>|\[[A-Z]+\])$/.test(label);
}

function textBlock(side, heading, { labels, unknown }) {
  const title = element("h3", { id: `text-${side}`, textContent: heading });
  const text = element("div", { className: "text", role: "listbox", dir: "auto", "aria-labelledby": title.id, "aria-orientation": "horizontal" });
  const spans = labels.map((label, index) => element("span", {
    className: unknown.has(index) ? "word unknown" : isSpecial(label) ? "word special" : "word", textContent: label, role: "option",
    "aria-selected": "false", tabIndex: index === 0 ? 0 : -1,
    title: unknown.has(index) ? `${unknown.get(index)}: not in the model's vocabulary` : "",
  }));
  spans.forEach((span, index) => text.append(span, index + 1 < spans.length ? " " : ""));
  const indexOf = (event) => spans.indexOf(event.target.closest(".word"));
  text.addEventListener("pointerover", (event) => { if (indexOf(event) >= 0) highlight({ side, index: indexOf(event) }); });
  text.addEventListener("pointerleave", () => highlight(words.pinned));
  text.addEventListener("pointerdown", (event) => { if (indexOf(event) >= 0) pin({ side, index: indexOf(event) }); });
  text.addEventListener("focusin", (event) => { if (indexOf(event) >= 0) pin({ side, index: indexOf(event) }); });
  text.addEventListener("focusout", () => pin(null));
  text.addEventListener("keydown", (event) => moveFocus(event, side, spans));
  return { block: element("div", {}, title, text), text, spans };
}

function pin(selected) {
  words.pinned = selected;
  highlight(selected);
}

/** Arrow keys move along the text in reading direction; up and down move to the other side. */
function moveFocus(event, side, spans) {
  const current = spans.indexOf(event.target);
  const forward = getComputedStyle(spans[0].parentElement).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const backward = forward === "ArrowRight" ? "ArrowLeft" : "ArrowRight";
  const other = words.blocks[side === "left" ? "right" : "left"].spans;
  const targets = {
    [forward]: spans[current + 1], [backward]: spans[current - 1], Home: spans[0], End: spans.at(-1),
    ArrowUp: side === "left" ? other[Math.min(current, other.length - 1)] : undefined,
    ArrowDown: side === "right" ? other[Math.min(current, other.length - 1)] : undefined,
  };
  if (event.key === "Escape") event.target.blur();
  if (!(event.key in targets)) return;
  event.preventDefault();
  const target = targets[event.key];
  if (!target) return;
  (spans.includes(target) ? spans : other).forEach((span) => { span.tabIndex = span === target ? 0 : -1; });
  target.focus();
}

/** Weights between the selected word and each word of the other side. */
function weightsWith(selected, matrix) {
  const { rows, columns, values } = matrix;
  return selected.side === "left"
    ? values.subarray(selected.index * columns, (selected.index + 1) * columns)
    : Float32Array.from({ length: rows }, (_, row) => values[row * columns + selected.index]);
}

function highlight(selected) {
  for (const side of ["left", "right"]) {
    const other = selected && selected.side !== side;
    const weights = other ? weightsWith(selected, matrixOf(state.layer, state.head)) : null;
    words.blocks[side].spans.forEach((span, index) => {
      const strength = weights ? weights[index] : 0;
      const isSelected = Boolean(selected) && !other && selected.index === index;
      span.classList.toggle("lit", strength >= HIGHLIGHTED);
      span.classList.toggle("strong", strength >= 0.5);
      span.classList.toggle("chosen", isSelected);
      span.setAttribute("aria-selected", String(isSelected));
      span.style.setProperty("--strength", strength.toFixed(3));
    });
  }
  document.getElementById("words-status").textContent = selected ? sentence(selected) : "";
}

function sentence(selected) {
  const sides = sidesOf(state.layer);
  const weights = weightsWith(selected, matrixOf(state.layer, state.head));
  const labels = sides[selected.side === "left" ? "right" : "left"].labels;
  const strongest = Array.from(weights, (weight, index) => ({ weight, index }))
    .filter((link) => link.weight >= HIGHLIGHTED).sort((a, b) => b.weight - a.weight).slice(0, 4);
  const list = strongest.map((link) => `“${labels[link.index]}” ${percent(link.weight)}`).join(", ");
  return attentionSentence(selected, sides, list);
}

/** "X attends to ..." for a query, "X receives attention from ..." for a key. */
function attentionSentence(selected, sides, list) {
  const verb = selected.side === "left" ? "attends to" : "receives attention from";
  const none = `no ${state.words ? "word" : "token"} with a weight of ${Math.round(HIGHLIGHTED * 100)}% or more`;
  return `“${sides[selected.side].labels[selected.index]}” ${verb} ${list || none}`;
}

document.getElementById("unknown-hint").hidden = data.sides.every((side) => side.unknown.length === 0);

views.push(showWords);

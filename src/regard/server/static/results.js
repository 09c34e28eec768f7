// Renders results: bars of probabilities, entities in colour, an answer in its paragraph. All of it is text, never markup.

import { element } from "./highlight.js";

// A fraction as a bar, with a label before it and a number after it.
function bar(label, fraction, number) {
  const row = element("div", "bar-row");
  const name = element("span", "label", label);
  name.dir = "auto";
  name.title = label;
  const track = element("span", "bar");
  track.style.setProperty("--fraction", Math.max(0, Math.min(1, fraction)));
  track.setAttribute("aria-hidden", "true");
  row.append(name, track, element("span", "score", number));
  return row;
}

function percent(fraction) {
  return `${(100 * fraction).toFixed(1)}%`;
}

// Adds a block for the result of one text, with a title unless it is null.
function addBlock(container, title) {
  const block = element("div", "result");
  if (title !== null) {
    const line = element("p", "result-title", title);
    line.dir = "auto";
    block.append(line);
  }
  container.append(block);
  return block;
}

export function renderLabels(container, texts, classifications) {
  container.replaceChildren();
  classifications.forEach(({ probabilities, note }, index) => {
    const block = addBlock(container, classifications.length > 1 ? texts[index] : null);
    for (const [label, probability] of Object.entries(probabilities)) block.append(bar(label, probability, percent(probability)));
    if (note) block.append(element("span", "note", note));
  });
}

// Each prompt, marked, with its continuation.
export function renderTexts(container, prompts, texts) {
  container.replaceChildren();
  texts.forEach(({ text }, index) => {
    const paragraph = element("p", "result");
    paragraph.dir = "auto";
    paragraph.style.whiteSpace = "pre-wrap";
    paragraph.append(element("mark", "", prompts[index]), text);
    container.append(paragraph);
  });
}

// Appends a text with marked spans, which count characters, not UTF-16 units; `decorate` is called with each mark.
function appendMarked(parent, text, spans) {
  const characters = Array.from(text);
  let end = 0;
  for (const { span: [from, to], decorate } of spans) {
    if (from < end || to <= from) continue; // an empty span: the words do not occur in the text
    parent.append(characters.slice(end, from).join(""));
    const mark = element("mark", "", characters.slice(from, to).join(""));
    decorate(mark);
    parent.append(mark);
    end = to;
  }
  parent.append(characters.slice(end).join(""));
}

export function renderEntities(container, texts, taggedTexts, labels) {
  container.replaceChildren();
  const kinds = [...new Set(labels.map((label) => label.replace(/^[BIESLU]-/, "")))].filter((kind) => kind !== "O").sort();
  taggedTexts.forEach(({ names }, index) => {
    const line = element("p", "entities");
    line.dir = "auto";
    const spans = names.map(({ place, kind, probability }) => ({
      span: place,
      decorate(mark) {
        mark.style.setProperty("--hue", (Math.max(0, kinds.indexOf(kind)) * 137.5) % 360);
        mark.title = `${kind}, ${percent(probability)}`;
        mark.append(element("span", "kind", kind));
      },
    }));
    appendMarked(line, texts[index], spans);
    container.append(line);
  });
  if (taggedTexts.every(({ names }) => names.length === 0)) container.append(element("p", "hint", "No named entities."));
}

export function renderAnswers(container, questions, paragraph, answers) {
  container.replaceChildren();
  answers.forEach(({ answer, place, probability }, index) => {
    const block = addBlock(container, answers.length > 1 ? questions[index] : null);
    block.append(bar(answer, probability, percent(probability)));
    const line = element("p", "answer-context");
    line.dir = "auto";
    appendMarked(line, paragraph, [{ span: place, decorate: () => {} }]);
    block.append(line);
  });
}

// The similarity of each text to the first one.
export function renderSimilarity(container, texts, embeddings) {
  container.replaceChildren();
  const [first, ...others] = embeddings.map(({ vector }) => vector);
  const block = addBlock(container, texts[0]);
  others.forEach((vector, index) => {
    const similarity = cosine(first, vector);
    block.append(bar(texts[index + 1], similarity, similarity.toFixed(3)));
  });
}

function dot(a, b) {
  return a.reduce((sum, value, index) => sum + value * b[index], 0);
}

function cosine(a, b) {
  return dot(a, b) / Math.max(1e-12, Math.sqrt(dot(a, a) * dot(b, b)));
}

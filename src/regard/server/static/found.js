// What a model found, as people read it: bars, names in colour, an answer in its paragraph. All of it is text, never markup.

import { element } from "./words.js";

// A share of one as a bar, with its name before it and its number after it.
function bar(name, share, told) {
  const row = element("div", "share");
  const label = element("span", "label", name);
  label.dir = "auto";
  label.title = name;
  const line = element("span", "bar");
  line.style.setProperty("--share", Math.max(0, Math.min(1, share)));
  line.setAttribute("aria-hidden", "true");
  row.append(label, line, element("span", "score", told));
  return row;
}

function percent(share) {
  return `${(100 * share).toFixed(1)}%`;
}

// A block for each text, which is named where there are several.
function block(place, title) {
  const made = element("div", "finding");
  if (title !== null) {
    const line = element("p", "of", title);
    line.dir = "auto";
    made.append(line);
  }
  place.append(made);
  return made;
}

export function putLabels(place, texts, found) {
  place.replaceChildren();
  found.forEach(({ probabilities, note }, number) => {
    const made = block(place, found.length > 1 ? texts[number] : null);
    for (const [label, share] of Object.entries(probabilities)) made.append(bar(label, share, percent(share)));
    if (note) made.append(element("span", "note", note));
  });
}

// A prompt, and what was written after it.
export function putTexts(place, prompts, found) {
  place.replaceChildren();
  found.forEach(({ text }, number) => {
    const made = element("p", "finding");
    made.dir = "auto";
    made.style.whiteSpace = "pre-wrap";
    made.append(element("mark", "", prompts[number]), text);
    place.append(made);
  });
}

// Puts a text with some stretches of it marked; the server counts characters, not UTF-16 units.
function putMarked(made, text, stretches) {
  const characters = Array.from(text);
  let end = 0;
  for (const { place: [from, to], dress } of stretches) {
    if (from < end || to <= from) continue; // a stretch that stands nowhere in the text
    made.append(characters.slice(end, from).join(""));
    const mark = element("mark", "", characters.slice(from, to).join(""));
    dress(mark);
    made.append(mark);
    end = to;
  }
  made.append(characters.slice(end).join(""));
}

export function putNames(place, texts, found, labels) {
  place.replaceChildren();
  const kinds = [...new Set(labels.map((label) => label.replace(/^[BIESLU]-/, "")))].filter((kind) => kind !== "O").sort();
  found.forEach(({ names }, number) => {
    const line = element("p", "named");
    line.dir = "auto";
    const stretches = names.map(({ place: where, kind, probability }) => ({
      place: where,
      dress(mark) {
        mark.style.setProperty("--hue", (Math.max(0, kinds.indexOf(kind)) * 137.5) % 360);
        mark.title = `${kind}, ${percent(probability)}`;
        mark.append(element("span", "kind", kind));
      },
    }));
    putMarked(line, texts[number], stretches);
    place.append(line);
  });
  if (found.every(({ names }) => names.length === 0)) place.append(element("p", "hint", "No names were found."));
}

export function putAnswers(place, questions, paragraph, found) {
  place.replaceChildren();
  found.forEach(({ answer, place: where, probability }, number) => {
    const made = block(place, found.length > 1 ? questions[number] : null);
    made.append(bar(answer, probability, percent(probability)));
    const line = element("p", "answered");
    line.dir = "auto";
    putMarked(line, paragraph, [{ place: where, dress: () => {} }]);
    made.append(line);
  });
}

export function putLikeness(place, texts, found) {
  place.replaceChildren();
  const [first, ...others] = found.map(({ vector }) => vector);
  const made = block(place, texts[0]);
  others.forEach((other, number) => {
    const alike = cosine(first, other);
    made.append(bar(texts[number + 1], alike, alike.toFixed(3)));
  });
}

function cosine(one, other) {
  const product = (a, b) => a.reduce((sum, each, place) => sum + each * b[place], 0);
  return product(one, other) / Math.max(1e-12, Math.sqrt(product(one, one) * product(other, other)));
}

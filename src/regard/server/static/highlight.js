// Texts as words that highlight the words they are aligned with. All of it becomes text nodes, never markup.

export function element(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Appends a text to `parent`, each word in a span of its own, unknown words underlined; returns the spans by index of
// `places`. Places count characters, not UTF-16 units.
function appendWords(parent, text, places, unknown = []) {
  const characters = Array.from(text);
  const overlap = ([from, to], [start, end]) => from < end && start < to;
  const words = places.map((place, index) => ({ place, index, isUnknown: unknown.some((other) => overlap(place, other)) }));
  for (const place of unknown) {
    if (!places.some((other) => overlap(place, other))) words.push({ place, index: null, isUnknown: true });
  }
  words.sort((a, b) => a.place[0] - b.place[0]);
  const spans = new Map();
  let end = 0;
  for (const { place: [from, to], index, isUnknown } of words) {
    if (from < end || to <= from) continue; // an empty span: the word does not occur in the text
    parent.append(characters.slice(end, from).join(""));
    const span = element("span", index === null ? "" : "word", characters.slice(from, to).join(""));
    span.classList.toggle("unknown", isUnknown);
    if (index !== null) spans.set(index, span);
    parent.append(span);
    end = to;
  }
  parent.append(characters.slice(end).join(""));
  return spans;
}

const MAX_LISTED = 3; // words in the status line

export class AlignmentHighlight {
  // `onLine` is called with the index of the line that is pointed at or focused.
  constructor(sourceWords, translation, status, onLine) {
    this.sourceWords = sourceWords;
    this.translation = translation;
    this.status = status;
    this.onLine = onLine;
    this.positions = new Map(); // span -> its line, the line's alignment, side and word index
    translation.addEventListener("pointerover", (event) => {
      const line = event.target.closest(".line");
      if (line) onLine([...translation.querySelectorAll(".line")].indexOf(line));
    });
    for (const type of ["pointerover", "pointerdown", "focusin"]) {
      translation.addEventListener(type, (event) => this.select(event.target));
    }
    translation.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.clear();
    });
    translation.addEventListener("focusout", () => this.clear());
    translation.addEventListener("keydown", (event) => this.moveFocus(event));
  }

  // The source without highlights, until its translation arrives.
  setSource(text) {
    this.clear();
    this.positions.clear();
    this.sourceWords.replaceChildren(text, "\u200b");
  }

  // `translations` has an entry per line of the source; null for an empty line.
  render(lines, translations) {
    this.setSource("");
    this.sourceWords.replaceChildren();
    this.translation.replaceChildren();
    lines.forEach((source, index) => {
      const translation = translations[index];
      if (index > 0) this.sourceWords.append("\n");
      const line = element("div", "line");
      line.dir = "auto";
      this.translation.append(line);
      const { links = [], source: from, target: to } = translation?.alignment ?? {};
      const unknown = translation?.unknown.map(({ place }) => place);
      const spans = {
        source: appendWords(this.sourceWords, source, from?.places ?? [], unknown),
        target: appendWords(line, translation?.text ?? "", to?.places ?? []),
      };
      const alignment = { links, spans };
      for (const side of ["source", "target"]) {
        for (const [word, span] of spans[side]) this.positions.set(span, { line: index, alignment, side, word });
      }
      if (translation) this.appendDetails(translation);
    });
    this.sourceWords.append("\u200b"); // so that an empty last line has its height
    const first = this.translation.querySelector(".word");
    if (first) first.tabIndex = 0;
  }

  // Below a line: a remark if it was cut or split, and the n-best list.
  appendDetails(translation) {
    if (translation.note) this.translation.append(element("span", "note", translation.note));
    if (!translation.others.length) return;
    const heading = element("p", "alternatives-heading", "log-prob per token");
    const list = element("ol", "alternatives");
    for (const [index, hypothesis] of [translation, ...translation.others].entries()) {
      const item = element("li");
      const text = element("span", "text", hypothesis.text);
      text.dir = "auto";
      item.append(element("span", "score", `${index + 1}.`), text, element("span", "score", hypothesis.score.toFixed(2)));
      list.append(item);
    }
    this.translation.append(heading, list);
  }

  // Selects the source word under a point; the words are behind the text area.
  selectAtPoint(x, y) {
    const span = [...this.sourceWords.querySelectorAll(".word")].find((word) =>
      [...word.getClientRects()].some((box) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom),
    );
    if (span) this.select(span);
    else this.clear();
  }

  // Selects the source word at an offset of the text area.
  selectAtCaret(offset) {
    let end = 0;
    for (const node of this.sourceWords.childNodes) {
      end += node.textContent.length;
      if (end >= offset && this.positions.has(node)) return this.select(node);
      if (end > offset) break;
    }
    return this.clear();
  }

  // Highlights the words that a word is aligned with, and lists the strongest in the status line.
  select(span) {
    this.clear();
    const position = this.positions.get(span);
    if (!position) return;
    const { line, alignment, side, word } = position;
    this.onLine(line);
    const [own, other] = side === "target" ? [0, 1] : [1, 0]; // a link is [target, source, weight]
    const spans = alignment.spans[side === "target" ? "source" : "target"];
    const links = alignment.links.filter((link) => link[own] === word && spans.has(link[other]));
    span.classList.add("selected");
    for (const link of links) spans.get(link[other]).style.setProperty("--strength", Math.sqrt(link[2]));
    const words = links
      .sort((a, b) => b[2] - a[2])
      .slice(0, MAX_LISTED)
      .map((link) => `${spans.get(link[other]).textContent} ${Math.round(100 * link[2])}%`);
    const verb = side === "target" ? "attends to" : "receives attention from";
    this.status.textContent = words.length ? `“${span.textContent}” ${verb} ${words.join(", ")}` : "";
  }

  // Highlights the word of the translation with the largest weight, if possible on a word at another position.
  selectClearest() {
    const isWord = (span) => span !== undefined && /[\p{L}\p{N}]/u.test(span.textContent);
    const candidates = [...this.positions].flatMap(([span, { alignment, side, word }]) => {
      if (side !== "target" || !isWord(span)) return [];
      const { source, target } = alignment.spans;
      return alignment.links
        .filter(([from, to]) => from === word && isWord(source.get(to)))
        .map(([from, to, weight]) => {
          const diagonal = (from * (source.size - 1)) / Math.max(1, target.size - 1);
          return { span, weight: weight + (Math.abs(to - diagonal) >= 1 ? 1 : 0) };
        });
    });
    const [clearest] = candidates.sort((a, b) => b.weight - a.weight);
    if (clearest) this.select(clearest.span);
  }

  clear() {
    for (const span of this.positions.keys()) {
      span.classList.remove("selected");
      span.style.removeProperty("--strength");
    }
    this.status.textContent = "";
  }

  // Arrow keys move the focus between the words of the translation.
  moveFocus(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const words = [...this.translation.querySelectorAll(".word")];
    const index = words.indexOf(document.activeElement);
    if (!step || index < 0) return;
    event.preventDefault();
    const next = words[Math.min(words.length - 1, Math.max(0, index + step))];
    words[index].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

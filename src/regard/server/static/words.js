// Texts as words that light each other up. Everything typed or translated becomes a text node, never markup.

export function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Puts a text into `place`, each word in a span of its own; the server counts characters, not UTF-16 units.
function putWords(place, text, side) {
  const characters = Array.from(text);
  const spans = new Map();
  let end = 0;
  side.places.forEach(([from, to], number) => {
    if (from < end || to <= from) return; // a word that stands nowhere in the text
    place.append(characters.slice(end, from).join(""));
    const span = element("span", "word", characters.slice(from, to).join(""));
    spans.set(number, span);
    place.append(span);
    end = to;
  });
  place.append(characters.slice(end).join(""));
  return spans;
}

const STRONGEST = 3; // words told of

export class Lights {
  constructor(behind, translation, told) {
    this.behind = behind;
    this.translation = translation;
    this.told = told;
    this.home = new Map(); // span -> its line, side and number
    this.lines = [];
    for (const kind of ["pointerover", "pointerdown", "focusin"]) {
      translation.addEventListener(kind, (event) => this.lightSpan(event.target));
    }
    translation.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.dark();
    });
    translation.addEventListener("focusout", () => this.dark());
    translation.addEventListener("keydown", (event) => this.walk(event));
  }

  // The words that are typed, without any light, until a translation of them comes.
  typed(text) {
    this.dark();
    this.home.clear();
    this.lines = [];
    this.behind.replaceChildren(text, "\u200b");
  }

  // `answers` holds for each line of the text its translation, or null for an empty line.
  show(sources, answers) {
    this.typed("");
    this.behind.replaceChildren();
    this.translation.replaceChildren();
    sources.forEach((source, number) => {
      const answer = answers[number];
      if (number > 0) this.behind.append("\n");
      const line = element("div", "line");
      line.dir = "auto";
      this.translation.append(line);
      if (!answer?.alignment) {
        this.behind.append(source);
        line.append(answer?.text ?? "");
      } else {
        const { links, ...sides } = answer.alignment;
        const spans = {
          source: putWords(this.behind, source, sides.source),
          target: putWords(line, answer.text, sides.target),
        };
        const both = { links, spans };
        this.lines.push(both);
        for (const side of ["source", "target"]) {
          for (const [word, span] of spans[side]) this.home.set(span, { both, side, word });
        }
      }
      if (answer) this.below(answer);
    });
    this.behind.append("\u200b"); // a line at the end has its height even when it is empty
    const first = this.translation.querySelector(".word");
    if (first) first.tabIndex = 0;
  }

  // What stands below a line: what was done to it, and the next best translations.
  below(answer) {
    if (answer.note) this.translation.append(element("span", "note", answer.note));
    if (!answer.others.length) return;
    const list = element("ol", "others");
    for (const [place, other] of answer.others.entries()) {
      const item = element("li");
      item.append(element("span", "score", `${place + 2}.`));
      const text = element("span", "text", other.text);
      text.dir = "auto";
      const score = element("span", "score", other.score.toFixed(2));
      score.title = "log probability over length";
      item.append(text, score);
      list.append(item);
    }
    this.translation.append(list);
  }

  // Whatever source word lies under a point; it lies behind the text area.
  lightPoint(x, y) {
    const span = [...this.behind.querySelectorAll(".word")].find((each) =>
      [...each.getClientRects()].some((box) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom),
    );
    if (span) this.lightSpan(span);
    else this.dark();
  }

  // The source word at a place of the typed text, where the caret is.
  lightCaret(place) {
    let end = 0;
    for (const node of this.behind.childNodes) {
      end += node.textContent.length;
      if (end >= place && this.home.has(node)) return this.lightSpan(node);
      if (end > place) break;
    }
    return this.dark();
  }

  lightSpan(span) {
    const found = this.home.get(span);
    if (!found) return this.dark();
    this.dark();
    const { both, side, word } = found;
    const [own, other] = side === "target" ? [0, 1] : [1, 0];
    const otherSide = side === "target" ? "source" : "target";
    const seen = both.links.filter((link) => link[own] === word && both.spans[otherSide].has(link[other]));
    span.classList.add("chosen");
    for (const link of seen) both.spans[otherSide].get(link[other]).style.setProperty("--strength", Math.sqrt(link[2]));
    const words = seen
      .sort((one, two) => two[2] - one[2])
      .slice(0, STRONGEST)
      .map((link) => `${both.spans[otherSide].get(link[other]).textContent} ${Math.round(100 * link[2])}%`);
    const verb = side === "target" ? "looked at" : "was looked at by";
    this.told.textContent = words.length ? `“${span.textContent}” ${verb} ${words.join(", ")}` : "";
    return undefined;
  }

  dark() {
    for (const span of this.home.keys()) {
      span.classList.remove("chosen");
      span.style.removeProperty("--strength");
    }
    this.told.textContent = "";
  }

  // Arrow keys go from word to word of the translation.
  walk(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const words = [...this.translation.querySelectorAll(".word")];
    const at = words.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = words[Math.min(words.length - 1, Math.max(0, at + step))];
    words[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

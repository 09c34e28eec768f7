// The translation panel: translations are updated while the user types; outdated requests are aborted.

import { delay, refuseLong, requestWithRetry, sentence, setText } from "./api.js";
import { AlignmentHighlight, element } from "./highlight.js";

const DEBOUNCE = 180; // milliseconds without a key before a request

export class TranslationPanel {
  constructor(choices, limits) {
    this.choices = choices;
    this.limits = limits;
    this.area = document.getElementById("source-text");
    this.translation = document.getElementById("translation");
    this.problem = document.getElementById("translation-problem");
    this.copy = document.getElementById("copy");
    this.attention = document.getElementById("show-attention");
    this.clear = document.getElementById("clear");
    this.highlight = new AlignmentHighlight(
      document.getElementById("source-words"),
      this.translation,
      document.getElementById("alignment-status"),
      (line) => this.setLine(line),
    );
    this.unknown = document.getElementById("unknown-words");
    this.hint = document.getElementById("alignment-hint");
    this.line = 0; // the line of the attention page: the last one that was pointed at or focused
    this.example = null; // the sentence shown first, until the text changes
    this.controller = new AbortController();
    this.current = null; // the lines on display and their translations
    this.area.addEventListener("input", () => this.changed());
    for (const type of ["focus", "click"]) this.area.addEventListener(type, () => this.selectExample(type));
    this.area.addEventListener("pointermove", (event) => this.highlight.selectAtPoint(event.clientX, event.clientY));
    this.area.addEventListener("pointerleave", () => this.highlight.clear());
    for (const type of ["click", "keyup"]) {
      this.area.addEventListener(type, () => {
        if (!this.current) return;
        this.setLine(this.caretLine());
        this.highlight.selectAtCaret(this.area.selectionStart);
      });
    }
    this.copy.addEventListener("click", () => this.copyText());
    this.clear.addEventListener("click", () => {
      this.setSource("");
      this.area.focus();
    });
  }

  // The translation of an example with one word highlighted, so that the page explains itself.
  showExample(text) {
    this.setSource(text);
    this.example = text;
  }

  // The first time that the text area is entered, typing replaces the example; a click would undo the selection of the focus.
  selectExample(type) {
    if (this.example !== null) this.area.select();
    if (type === "click") this.example = null;
  }

  setSource(text) {
    this.area.value = text;
    this.changed(0);
  }

  changed(debounce = DEBOUNCE) {
    this.controller.abort();
    this.controller = new AbortController();
    this.current = null;
    if (this.area.value !== this.example) this.example = null;
    this.hint.hidden = true;
    setText(this.unknown, null);
    this.copy.disabled = this.attention.disabled = true;
    this.clear.hidden = this.area.value === "";
    this.highlight.setSource(this.area.value);
    setText(this.problem, null);
    if (this.area.value.trim() === "") {
      this.translation.replaceChildren();
      this.translation.removeAttribute("aria-busy");
      return;
    }
    this.translate(this.area.value, debounce, this.controller.signal);
  }

  async translate(text, debounce, signal) {
    try {
      await delay(debounce, signal);
      this.translation.setAttribute("aria-busy", "true");
      const lines = text.split("\n");
      refuseLong(lines, this.limits.characters);
      const nonEmpty = lines.filter((line) => line.trim() !== "");
      const translations = [];
      const maxLines = Math.min(this.limits.texts, this.limits.queue);
      for (let first = 0; first < nonEmpty.length; first += maxLines) {
        const chunk = nonEmpty.slice(first, first + maxLines);
        const body = { ...this.choices.requestOptions(), text: chunk, attention: true };
        const response = await requestWithRetry("/translate", { body, signal }, (message) => setText(this.problem, message));
        translations.push(...(await response.json()).translations);
      }
      if (signal.aborted) return;
      this.render(lines, translations);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.translation.replaceChildren();
      setText(this.problem, sentence(problem));
    }
    if (!signal.aborted) this.translation.removeAttribute("aria-busy");
  }

  render(lines, translations) {
    const remaining = [...translations];
    const byLine = lines.map((line) => (line.trim() === "" ? null : remaining.shift()));
    this.current = { lines, translations: byLine };
    this.highlight.render(lines, byLine);
    this.copy.disabled = false;
    this.attention.disabled = !this.choices.model.attention;
    this.hint.hidden = this.translation.querySelector(".word") === null;
    showUnknownWords(this.unknown, translations, this.choices.model);
    this.line = byLine.findIndex((translation) => translation);
    this.setLine(this.caretLine());
    if (this.example !== null) this.highlight.selectClearest();
  }

  caretLine() {
    return this.area.value.slice(0, this.area.selectionStart).split("\n").length - 1;
  }

  // Chooses the line of the attention page, unless it is empty.
  setLine(index) {
    if (!this.current) return;
    const { translations } = this.current;
    if (translations[index]) this.line = index;
    const several = translations.filter((translation) => translation).length > 1;
    this.attention.textContent = several ? `Attention of line ${this.line + 1}` : "Show attention";
  }

  // The text for the attention page, and its translation.
  attentionRequest() {
    return { text: this.current.lines[this.line], target: this.current.translations[this.line].text };
  }

  async copyText() {
    const text = this.current.translations.map((translation) => translation?.text ?? "").join("\n");
    try {
      await navigator.clipboard.writeText(text);
      this.copy.textContent = "Copied";
      setTimeout(() => (this.copy.textContent = "Copy"), 1500);
    } catch {
      setText(this.problem, "The browser does not let this page copy; select the text instead.");
    }
  }
}

const MAX_LISTED = 8; // unknown words

// Shows how many words the model cannot read, and which; hides the element if there are none.
function showUnknownWords(target, translations, model) {
  const unknown = translations.flatMap((translation) => translation.unknown);
  target.hidden = unknown.length === 0;
  const total = translations.reduce((sum, { words }) => sum + words, 0);
  const distinct = [...new Set(unknown.map(({ text }) => text))];
  const verb = unknown.length === 1 ? "is" : "are";
  target.replaceChildren(`${unknown.length} of ${total} words ${verb} not in this model's vocabulary: `);
  distinct.slice(0, MAX_LISTED).forEach((word, index) => target.append(index ? ", " : "", element("bdi", "", word)));
  target.append(distinct.length > MAX_LISTED ? ", …" : ".");
  if (model.corpus === "picturebook") target.append(" It was trained on picture-book sentences; try an example.");
}

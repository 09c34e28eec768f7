// The translation panel: translations are updated while the user types; outdated requests are aborted.

import { delay, refuseLong, requestWithRetry, sentence, setText } from "./api.js";
import { AlignmentHighlight } from "./highlight.js";

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
    );
    this.controller = new AbortController();
    this.current = null; // the lines on display and their translations
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("pointermove", (event) => this.highlight.selectAtPoint(event.clientX, event.clientY));
    this.area.addEventListener("pointerleave", () => this.highlight.clear());
    for (const type of ["click", "keyup"]) {
      this.area.addEventListener(type, () => {
        if (this.current) this.highlight.selectAtCaret(this.area.selectionStart);
      });
    }
    this.copy.addEventListener("click", () => this.copyText());
    this.clear.addEventListener("click", () => {
      this.setSource("");
      this.area.focus();
    });
  }

  setSource(text) {
    this.area.value = text;
    this.changed(0);
  }

  changed(debounce = DEBOUNCE) {
    this.controller.abort();
    this.controller = new AbortController();
    this.current = null;
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
  }

  // The text for the attention page: the line of the caret, or the first non-empty one, with its translation.
  attentionRequest() {
    if (!this.current) return null;
    const { lines, translations } = this.current;
    const caretLine = this.area.value.slice(0, this.area.selectionStart).split("\n").length - 1;
    const index = translations[caretLine] ? caretLine : translations.findIndex((translation) => translation);
    return { text: lines[index], target: translations[index].text };
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

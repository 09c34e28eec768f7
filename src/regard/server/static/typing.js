// The translation appears while one types: late answers are dropped, earlier questions taken back.

import { askPatiently, pause, refuseLong, sentence, show } from "./server.js";
import { Lights } from "./words.js";

const REST = 180; // milliseconds without a key before the server is asked

export class Typing {
  constructor(choices, limits) {
    this.choices = choices;
    this.limits = limits;
    this.area = document.getElementById("typed");
    this.translation = document.getElementById("translation");
    this.problem = document.getElementById("translation-problem");
    this.copy = document.getElementById("copy");
    this.view = document.getElementById("view");
    this.clear = document.getElementById("clear");
    this.lights = new Lights(
      document.getElementById("behind"),
      this.translation,
      document.getElementById("told"),
    );
    this.asking = new AbortController();
    this.shown = null; // the lines that are shown, and their translations
    this.area.addEventListener("input", () => this.changed());
    this.area.addEventListener("pointermove", (event) => this.lights.lightPoint(event.clientX, event.clientY));
    this.area.addEventListener("pointerleave", () => this.lights.dark());
    for (const kind of ["click", "keyup"]) {
      this.area.addEventListener(kind, () => {
        if (this.shown) this.lights.lightCaret(this.area.selectionStart);
      });
    }
    this.copy.addEventListener("click", () => this.copyText());
    this.clear.addEventListener("click", () => {
      this.put("");
      this.area.focus();
    });
  }

  put(text) {
    this.area.value = text;
    this.changed(0);
  }

  changed(rest = REST) {
    this.asking.abort();
    this.asking = new AbortController();
    this.shown = null;
    this.copy.disabled = this.view.disabled = true;
    this.clear.hidden = this.area.value === "";
    this.lights.typed(this.area.value);
    show(this.problem, null);
    if (this.area.value.trim() === "") {
      this.translation.replaceChildren();
      this.translation.removeAttribute("aria-busy");
      return;
    }
    this.translate(this.area.value, rest, this.asking.signal);
  }

  async translate(text, rest, signal) {
    try {
      await pause(rest, signal);
      this.translation.setAttribute("aria-busy", "true");
      const lines = text.split("\n");
      refuseLong(lines, this.limits.characters);
      const full = lines.filter((line) => line.trim() !== "");
      const answers = [];
      const most = Math.min(this.limits.texts, this.limits.queue);
      for (let first = 0; first < full.length; first += most) {
        const some = full.slice(first, first + most);
        const body = { ...this.choices.asked(), text: some, attention: true };
        const answer = await askPatiently("/translate", { body, signal }, (words) => show(this.problem, words));
        answers.push(...(await answer.json()).translations);
      }
      if (signal.aborted) return;
      this.putAnswers(lines, answers);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.translation.replaceChildren();
      show(this.problem, sentence(problem));
    }
    if (!signal.aborted) this.translation.removeAttribute("aria-busy");
  }

  putAnswers(lines, answers) {
    const rest = [...answers];
    const each = lines.map((line) => (line.trim() === "" ? null : rest.shift()));
    this.shown = { lines, answers: each };
    this.lights.show(lines, each);
    this.copy.disabled = false;
    this.view.disabled = !this.choices.model.attention;
  }

  // The line in which the caret is, or the first that is not empty, with its translation.
  line() {
    if (!this.shown) return null;
    const { lines, answers } = this.shown;
    const at = this.area.value.slice(0, this.area.selectionStart).split("\n").length - 1;
    const place = answers[at] ? at : answers.findIndex((answer) => answer);
    return { text: lines[place], target: answers[place].text };
  }

  async copyText() {
    const text = this.shown.answers.map((answer) => answer?.text ?? "").join("\n");
    try {
      await navigator.clipboard.writeText(text);
      this.copy.textContent = "Copied";
      setTimeout(() => (this.copy.textContent = "Copy"), 1500);
    } catch {
      show(this.problem, "The browser does not let this page copy; select the text instead.");
    }
  }
}

// Models that read, or go on with a text: what they find appears while one types; late answers are dropped.

import { putAnswers, putLabels, putLikeness, putNames, putTexts } from "./found.js";
import { askPatiently, pause, refuseLong, sentence, show } from "./server.js";

const REST = 250; // milliseconds without a key before the server is asked

// For each thing a model can do: what the page calls its boxes and its answers.
const WAYS = {
  "/classify": { text: "Text", second: "Second text", found: "Labels", typed: "Type or paste; each line is labelled by itself." },
  "/tag": { text: "Text", found: "Names", typed: "Type or paste; each line is read by itself." },
  "/answer": { text: "Questions", second: "Paragraph", found: "Answers", typed: "A question a line." },
  "/generate": { text: "Prompts", found: "What comes next", typed: "A prompt a line; each is gone on with by itself." },
  "/embed": { text: "Texts", found: "How alike the lines are", typed: "Two lines or more; each is compared with the first." },
};

export class Reading {
  constructor(choices, limits) {
    this.choices = choices;
    this.limits = limits;
    const find = (name) => document.getElementById(name);
    [this.text, this.second, this.found, this.problem, this.view] = ["read-text", "read-second", "found", "found-problem", "found-view"].map(find);
    this.beside = find("read-beside");
    this.asking = new AbortController();
    for (const area of [this.text, this.second]) area.addEventListener("input", () => this.changed());
  }

  get way() {
    return this.choices.model.does[0];
  }

  // What the panel is called for the model that is chosen.
  introduce(model) {
    const { text, second, found, typed } = WAYS[this.way];
    const pairs = second !== undefined && model.pairs !== false;
    this.beside.hidden = !(pairs || this.way === "/answer");
    document.getElementById("read-title").textContent = text;
    document.getElementById("second-title").textContent = second ?? "";
    document.getElementById("found-title").textContent = found;
    this.text.placeholder = pairs ? "Type or paste." : typed;
    return { "/classify": "labels texts", "/tag": "finds names", "/answer": "answers questions", "/embed": "compares texts", "/generate": "goes on with texts" }[this.way];
  }

  changed(rest = REST) {
    this.asking.abort();
    this.asking = new AbortController();
    this.view.disabled = true;
    show(this.problem, null);
    if (!this.complete()) {
      this.found.replaceChildren();
      this.found.removeAttribute("aria-busy");
      return;
    }
    this.read(rest, this.asking.signal);
  }

  lines() {
    return this.text.value.split("\n").filter((line) => line.trim() !== "");
  }

  // Whether there is enough to ask about.
  complete() {
    const least = this.way === "/embed" ? 2 : 1;
    const needed = this.way === "/answer" || (this.way === "/classify" && this.choices.model.pairs === true);
    return this.lines().length >= least && (!needed || this.second.value.trim() !== "");
  }

  body() {
    const model = this.choices.model.name;
    const second = this.beside.hidden ? "" : whole(this.second.value);
    if (this.way === "/generate") return { model, prompt: this.lines() };
    if (this.way === "/answer") return { model, question: this.lines(), paragraph: this.second.value };
    if (this.way === "/classify" && second !== "") return { model, text: whole(this.text.value), pair: second };
    return { model, text: this.lines() };
  }

  async read(rest, signal) {
    const way = this.way;
    try {
      await pause(rest, signal);
      this.found.setAttribute("aria-busy", "true");
      refuseLong(this.text.value.split("\n"), this.limits.characters);
      const body = this.body();
      const answer = await askPatiently(way, { body, signal }, (words) => show(this.problem, words));
      const told = await answer.json();
      if (signal.aborted) return;
      this.put(way, body, told);
      this.view.disabled = false;
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.found.replaceChildren();
      show(this.problem, sentence(problem));
    }
    if (!signal.aborted) this.found.removeAttribute("aria-busy");
  }

  put(way, body, told) {
    const texts = [body.text ?? body.question ?? body.prompt].flat();
    if (way === "/classify") putLabels(this.found, texts, told.classifications);
    else if (way === "/tag") putNames(this.found, texts, told.texts, this.choices.model.labels);
    else if (way === "/answer") putAnswers(this.found, body.question, body.paragraph, told.answers);
    else if (way === "/generate") putTexts(this.found, texts, told.texts);
    else putLikeness(this.found, texts, told.embeddings);
  }

  // What the head view is asked to show: the line in which the caret is, or the first, and what stands beside it.
  line() {
    const at = this.text.value.slice(0, this.text.selectionStart).split("\n").length - 1;
    const chosen = this.text.value.split("\n")[at];
    const { pair, paragraph, text } = this.body();
    if (pair !== undefined) return { text, target: pair };
    const line = chosen.trim() === "" ? this.lines()[0] : chosen;
    return paragraph === undefined ? { text: line } : { text: line, target: paragraph };
  }
}

function whole(text) {
  return text.trim().replace(/\s*\n\s*/g, " ");
}

// The panel for models that classify, tag, answer, embed or generate: results are updated while the user types.

import { delay, refuseLong, requestWithRetry, sentence, setText } from "./api.js";
import { renderAnswers, renderEntities, renderLabels, renderSimilarity, renderTexts } from "./results.js";

const DEBOUNCE = 250; // milliseconds without a key before a request

// By route: titles of input and results, placeholder, and a summary of the model.
const ROUTES = {
  "/classify": {
    input: "Text",
    second: "Second text",
    results: "Labels",
    placeholder: "Type or paste; each line is classified separately.",
    summary: "classifies texts",
  },
  "/tag": {
    input: "Text",
    results: "Named entities",
    placeholder: "Type or paste; each line is tagged separately.",
    summary: "tags named entities",
  },
  "/answer": {
    input: "Questions",
    second: "Paragraph",
    results: "Answers",
    placeholder: "One question per line.",
    summary: "answers questions",
  },
  "/generate": {
    input: "Prompts",
    results: "Generated text",
    placeholder: "One prompt per line; each is continued separately.",
    summary: "generates text",
  },
  "/embed": {
    input: "Texts",
    results: "Similarity",
    placeholder: "Two lines or more; each is compared with the first.",
    summary: "compares texts",
  },
};

export class TextPanel {
  constructor(choices, limits) {
    this.choices = choices;
    this.limits = limits;
    const find = (id) => document.getElementById(id);
    [this.input, this.second, this.secondBox] = ["input-text", "input-second", "input-second-box"].map(find);
    [this.results, this.problem, this.attention] = ["results", "results-problem", "results-attention"].map(find);
    this.controller = new AbortController();
    for (const area of [this.input, this.second]) area.addEventListener("input", () => this.changed());
  }

  get route() {
    return this.choices.model.does[0];
  }

  // Sets titles and placeholder for the selected model; returns its summary.
  showModel(model) {
    const { input, second, results, placeholder, summary } = ROUTES[this.route];
    const pairs = second !== undefined && model.pairs !== false;
    this.secondBox.hidden = !(pairs || this.route === "/answer");
    document.getElementById("input-title").textContent = input;
    document.getElementById("second-title").textContent = second ?? "";
    document.getElementById("results-title").textContent = results;
    this.input.placeholder = pairs ? "Type or paste." : placeholder;
    return summary;
  }

  changed(debounce = DEBOUNCE) {
    this.controller.abort();
    this.controller = new AbortController();
    this.attention.disabled = true;
    setText(this.problem, null);
    if (!this.isComplete()) {
      this.results.replaceChildren();
      this.results.removeAttribute("aria-busy");
      return;
    }
    this.update(debounce, this.controller.signal);
  }

  lines() {
    return this.input.value.split("\n").filter((line) => line.trim() !== "");
  }

  // Whether there is enough input for a request.
  isComplete() {
    const minLines = this.route === "/embed" ? 2 : 1;
    const needsSecond = this.route === "/answer" || (this.route === "/classify" && this.choices.model.pairs === true);
    return this.lines().length >= minLines && (!needsSecond || this.second.value.trim() !== "");
  }

  body() {
    const model = this.choices.model.name;
    const second = this.secondBox.hidden ? "" : oneLine(this.second.value);
    if (this.route === "/generate") return { model, prompt: this.lines() };
    if (this.route === "/answer") return { model, question: this.lines(), paragraph: this.second.value };
    if (this.route === "/classify" && second !== "") return { model, text: oneLine(this.input.value), pair: second };
    return { model, text: this.lines() };
  }

  async update(debounce, signal) {
    const route = this.route;
    try {
      await delay(debounce, signal);
      this.results.setAttribute("aria-busy", "true");
      refuseLong(this.input.value.split("\n"), this.limits.characters);
      const body = this.body();
      const response = await requestWithRetry(route, { body, signal }, (message) => setText(this.problem, message));
      const content = await response.json();
      if (signal.aborted) return;
      this.render(route, body, content);
      this.attention.disabled = false;
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.results.replaceChildren();
      setText(this.problem, sentence(problem));
    }
    if (!signal.aborted) this.results.removeAttribute("aria-busy");
  }

  render(route, body, content) {
    const texts = [body.text ?? body.question ?? body.prompt].flat();
    if (route === "/classify") renderLabels(this.results, texts, content.classifications);
    else if (route === "/tag") renderEntities(this.results, texts, content.texts, this.choices.model.labels);
    else if (route === "/answer") renderAnswers(this.results, body.question, body.paragraph, content.answers);
    else if (route === "/generate") renderTexts(this.results, texts, content.texts);
    else renderSimilarity(this.results, texts, content.embeddings);
  }

  // The text for the attention page: the line of the caret, or the first one, and its second text.
  attentionRequest() {
    const index = this.input.value.slice(0, this.input.selectionStart).split("\n").length - 1;
    const caretLine = this.input.value.split("\n")[index];
    const { pair, paragraph, text } = this.body();
    if (pair !== undefined) return { text, target: pair };
    const line = caretLine.trim() === "" ? this.lines()[0] : caretLine;
    return paragraph === undefined ? { text: line } : { text: line, target: paragraph };
  }
}

function oneLine(text) {
  return text.trim().replace(/\s*\n\s*/g, " ");
}

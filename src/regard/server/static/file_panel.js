// Translates a file: reads it in the browser, sends it in chunks of lines, and offers the result for download.

import { jsonLines, refuseLong, requestWithRetry, sentence, setText } from "./api.js";

const LINES_PER_REQUEST = 64;
const MAX_BYTES = 20_000_000;

export class FilePanel {
  constructor(choices, limits) {
    this.choices = choices;
    this.limits = limits;
    const find = (id) => document.getElementById(id);
    [this.section, this.cancel, this.download] = ["file", "cancel", "download"].map(find);
    [this.input, this.bar, this.name] = ["input", "bar", "name"].map((name) => find(`file-${name}`));
    [this.progress, this.status, this.problem] = ["progress", "status", "problem"].map((name) => find(`file-${name}`));
    this.input.addEventListener("change", () => {
      if (this.input.files.length) this.translate(this.input.files[0]);
      this.input.value = ""; // so that the same file can be chosen again
    });
    this.cancel.addEventListener("click", () => this.controller.abort());
    this.section.addEventListener("dragover", (event) => {
      event.preventDefault();
      this.section.classList.add("over");
    });
    for (const type of ["dragleave", "drop"]) {
      this.section.addEventListener(type, () => this.section.classList.remove("over"));
    }
    this.section.addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files.length) this.translate(event.dataTransfer.files[0]);
    });
  }

  async translate(file) {
    this.controller?.abort();
    const controller = (this.controller = new AbortController());
    this.start(file.name);
    try {
      const lines = await this.read(file);
      const translated = await this.send(lines, controller.signal);
      if (controller.signal.aborted) return;
      this.offerDownload(file.name, translated);
    } catch (problem) {
      if (controller !== this.controller) return; // another file was chosen meanwhile
      if (problem.name === "AbortError") setText(this.problem, "Cancelled; nothing was kept.");
      else setText(this.problem, sentence(problem));
      this.progress.hidden = true;
    } finally {
      if (controller === this.controller) this.cancel.hidden = true;
    }
  }

  start(name) {
    setText(this.problem, null);
    this.name.textContent = name;
    this.download.hidden = true;
    if (this.download.href) URL.revokeObjectURL(this.download.href);
    this.bar.value = 0;
    this.status.textContent = "";
    this.progress.hidden = this.cancel.hidden = false;
  }

  async read(file) {
    if (file.size > MAX_BYTES) throw new Error("this file is larger than 20 MB; use `regard translate`, which has no limit");
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      throw new Error("this file is not UTF-8 text");
    }
    if (text === "") throw new Error("this file is empty");
    this.finalNewline = text.endsWith("\n");
    const lines = (this.finalNewline ? text.slice(0, -1) : text).split("\n").map((line) => line.replace(/\r$/, ""));
    refuseLong(lines, this.limits.characters);
    return lines;
  }

  async send(lines, signal) {
    const translated = [];
    const maxLines = Math.min(LINES_PER_REQUEST, this.limits.texts, this.limits.queue);
    for (const chunk of chunks(lines, maxLines, this.limits)) {
      const body = { ...this.choices.requestOptions(), nbest: 1, text: chunk };
      const options = { body, signal, accept: "application/x-ndjson" };
      const response = await requestWithRetry("/translate", options, (message) => (this.status.textContent = message ?? ""));
      for await (const line of jsonLines(response)) {
        if (line.error) throw new Error(line.error);
        translated.push(line.text.replace(/\s*\n\s*/g, " "));
        this.showProgress(translated.length, lines.length);
      }
    }
    if (translated.length !== lines.length) throw new Error("the server stopped before the end of the file");
    return translated;
  }

  showProgress(done, total) {
    this.bar.value = done / total;
    this.status.textContent = `${done.toLocaleString("en")} of ${total.toLocaleString("en")} lines`;
  }

  offerDownload(name, translated) {
    const text = translated.join("\n") + (this.finalNewline ? "\n" : "");
    const [, stem, suffix] = /^(.*?)(\.[^.]*)?$/s.exec(name);
    this.download.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
    this.download.download = `${stem}.${this.choices.model.target_language}${suffix ?? ".txt"}`;
    this.download.hidden = false;
    this.download.focus();
  }
}

// Consecutive lines, as many as fit one request.
export function* chunks(lines, maxLines, limits) {
  const encoder = new TextEncoder();
  let chunk = [];
  let bytes = 0;
  for (const line of lines) {
    const size = 2 * encoder.encode(line).length + 8; // JSON may escape a character as two
    if (chunk.length && (chunk.length === maxLines || bytes + size > limits.bytes / 2)) {
      yield chunk;
      chunk = [];
      bytes = 0;
    }
    chunk.push(line);
    bytes += size;
  }
  yield chunk;
}

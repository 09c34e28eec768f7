// A whole file: read here, sent piece by piece, and given back with as many lines as it had.

import { askPatiently, jsonLines, refuseLong, sentence, show } from "./server.js";

const PIECE = 64; // lines
const LARGEST = 20_000_000; // bytes

export class WholeFile {
  constructor(choices, limits) {
    this.choices = choices;
    this.limits = limits;
    const find = (name) => document.getElementById(name);
    [this.section, this.chosen, this.cancel, this.download, this.bar] = ["file", "chosen", "cancel", "download", "bar"].map(find);
    [this.name, this.progress, this.told, this.problem] = ["name", "progress", "told", "problem"].map((name) => find(`file-${name}`));
    this.chosen.addEventListener("change", () => {
      if (this.chosen.files.length) this.translate(this.chosen.files[0]);
      this.chosen.value = ""; // the same file may be chosen again
    });
    this.cancel.addEventListener("click", () => this.asking.abort());
    this.section.addEventListener("dragover", (event) => {
      event.preventDefault();
      this.section.classList.add("over");
    });
    for (const kind of ["dragleave", "drop"]) {
      this.section.addEventListener(kind, () => this.section.classList.remove("over"));
    }
    this.section.addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer.files.length) this.translate(event.dataTransfer.files[0]);
    });
  }

  async translate(file) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    this.begin(file.name);
    try {
      const lines = await this.read(file);
      const translated = await this.send(lines, asking.signal);
      if (asking.signal.aborted) return;
      this.offer(file.name, translated);
    } catch (problem) {
      if (asking !== this.asking) return; // another file was chosen meanwhile
      if (problem.name === "AbortError") show(this.problem, "Cancelled; nothing was kept.");
      else show(this.problem, sentence(problem));
      this.progress.hidden = true;
    } finally {
      if (asking === this.asking) this.cancel.hidden = true;
    }
  }

  begin(name) {
    show(this.problem, null);
    this.name.textContent = name;
    this.download.hidden = true;
    if (this.download.href) URL.revokeObjectURL(this.download.href);
    this.bar.value = 0;
    this.told.textContent = "";
    this.progress.hidden = this.cancel.hidden = false;
  }

  async read(file) {
    if (file.size > LARGEST) throw new Error("this file is larger than 20 MB; `regard translate` takes files of any size");
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      throw new Error("this file is not UTF-8 text");
    }
    if (text === "") throw new Error("this file is empty");
    this.ended = text.endsWith("\n");
    const lines = (this.ended ? text.slice(0, -1) : text).split("\n").map((line) => line.replace(/\r$/, ""));
    refuseLong(lines, this.limits.characters);
    return lines;
  }

  async send(lines, signal) {
    const translated = [];
    const most = Math.min(PIECE, this.limits.texts, this.limits.queue);
    for (const piece of pieces(lines, most, this.limits)) {
      const body = { ...this.choices.asked(), nbest: 1, text: piece };
      const asked = { body, signal, accept: "application/x-ndjson" };
      const answer = await askPatiently("/translate", asked, (words) => (this.told.textContent = words ?? ""));
      for await (const line of jsonLines(answer)) {
        if (line.error) throw new Error(line.error);
        translated.push(line.text.replace(/\s*\n\s*/g, " "));
        this.count(translated.length, lines.length);
      }
    }
    if (translated.length !== lines.length) throw new Error("the server stopped in the midst of the file");
    return translated;
  }

  count(done, all) {
    this.bar.value = done / all;
    this.told.textContent = `${done.toLocaleString("en")} of ${all.toLocaleString("en")} lines`;
  }

  offer(name, translated) {
    const text = translated.join("\n") + (this.ended ? "\n" : "");
    const [, stem, end] = /^(.*?)(\.[^.]*)?$/s.exec(name);
    this.download.href = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
    this.download.download = `${stem}.${this.choices.model.target_language}${end ?? ".txt"}`;
    this.download.hidden = false;
    this.download.focus();
  }
}

// Runs of lines, each short enough for one request.
export function* pieces(lines, most, limits) {
  const encoder = new TextEncoder();
  let piece = [];
  let bytes = 0;
  for (const line of lines) {
    const size = 2 * encoder.encode(line).length + 8; // JSON may write a character as two
    if (piece.length && (piece.length === most || bytes + size > limits.bytes / 2)) {
      yield piece;
      piece = [];
      bytes = 0;
    }
    piece.push(line);
    bytes += size;
  }
  yield piece;
}

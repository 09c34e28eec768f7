// Which model, how wide a beam, how many translations.

const BEAMS = [1, 2, 3, 5, 8, 12, 16];
const COUNTS = [1, 2, 3, 5, 10];

function option(value, text) {
  const made = document.createElement("option");
  made.value = value;
  made.textContent = text;
  return made;
}

export class Choices {
  constructor(models) {
    this.models = models;
    this.chosen = document.getElementById("model");
    this.beam = document.getElementById("beam");
    this.nbest = document.getElementById("nbest");
    this.chosen.replaceChildren(...models.map((model) => option(model.name, model.name)));
    this.nbest.replaceChildren(...COUNTS.map((count) => option(count, count)));
    this.offerBeams();
  }

  get model() {
    return this.models.find((model) => model.name === this.chosen.value);
  }

  // Whether the model writes translations; if not, it reads.
  get writes() {
    return this.model.task === "translation";
  }

  offerBeams() {
    if (!this.writes) return;
    const own = option("", `${this.model.beam} (the model's)`);
    this.beam.replaceChildren(own, ...BEAMS.map((beam) => option(beam, beam)));
  }

  // What a request says about them.
  asked() {
    const asked = { model: this.model.name, nbest: Number(this.nbest.value) };
    return this.beam.value === "" ? asked : { ...asked, beam: Number(this.beam.value) };
  }
}

export function language(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // a name that is no language code
  }
}

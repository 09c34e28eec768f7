// The controls: model, beam size, number of alternatives.

const BEAM_SIZES = [1, 2, 3, 5, 8, 12, 16];
const NBEST_SIZES = [1, 2, 3, 5, 10];

function option(value, text) {
  const item = document.createElement("option");
  item.value = value;
  item.textContent = text;
  return item;
}

export class Choices {
  constructor(models) {
    this.models = models;
    this.modelSelect = document.getElementById("model");
    this.beam = document.getElementById("beam");
    this.nbest = document.getElementById("nbest");
    this.modelSelect.replaceChildren(...models.map((model) => option(model.name, modelLabel(model))));
    this.nbest.replaceChildren(...NBEST_SIZES.map((size) => option(size, size)));
    this.updateBeam();
  }

  get model() {
    return this.models.find((model) => model.name === this.modelSelect.value);
  }

  get isTranslator() {
    return this.model.task === "translation";
  }

  updateBeam() {
    if (!this.isTranslator) return;
    const defaultBeam = option("", `${this.model.beam} (default)`);
    this.beam.replaceChildren(defaultBeam, ...BEAM_SIZES.map((size) => option(size, size)));
  }

  // The part of a request's body that the controls determine.
  requestOptions() {
    const options = { model: this.model.name, nbest: Number(this.nbest.value) };
    return this.beam.value === "" ? options : { ...options, beam: Number(this.beam.value) };
  }
}

function modelLabel(model) {
  if (model.task !== "translation") return model.name;
  return `${languageName(model.source_language)} → ${languageName(model.target_language)} (${model.name})`;
}

export function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // not a language code
  }
}

// The page: loads the models, then shows the translation panels or the panel for text models.

import { request, sentence, setText, setToken } from "./api.js";
import { renderCard } from "./card.js";
import { Choices, languageName } from "./choices.js";
import { FilePanel } from "./file_panel.js";
import { element } from "./highlight.js";
import { TextPanel } from "./text_panel.js";
import { isDark, setUpTheme } from "./theme.js";
import { TranslationPanel } from "./translation_panel.js";

const problem = document.getElementById("problem");

setUpTheme(document.getElementById("theme"));
loadModels();

async function loadModels() {
  try {
    const content = await (await request("/models")).json();
    setText(problem, null);
    start(content);
  } catch (error) {
    if (error.status === 401) showTokenForm();
    else setText(problem, sentence(error));
  }
}

function showTokenForm() {
  const form = document.getElementById("token");
  const input = document.getElementById("token-input");
  if (!form.hidden) setText(problem, "This is not the server's access token.");
  form.hidden = false;
  input.focus();
  form.onsubmit = (event) => {
    event.preventDefault();
    setToken(input.value);
    input.value = "";
    loadModels();
  };
}

function start({ models, limits }) {
  document.getElementById("token").hidden = true;
  document.getElementById("main").hidden = false;
  const choices = new Choices(models);
  const translationPanel = new TranslationPanel(choices, limits);
  const textPanel = new TextPanel(choices, limits);
  new FilePanel(choices, limits);
  const showModel = () => {
    document.querySelectorAll(".translator").forEach((part) => (part.hidden = !choices.isTranslator));
    document.querySelector(".text-model").hidden = choices.isTranslator;
    renderCard(document.getElementById("card-text"), choices.model.card);
    document.getElementById("card").hidden = choices.model.card === "";
    if (choices.isTranslator) showTranslator(choices.model, translationPanel);
    else showTextModel(choices.model, textPanel);
  };
  showModel();
  choices.modelSelect.addEventListener("change", () => {
    choices.updateBeam();
    showModel();
    (choices.isTranslator ? translationPanel : textPanel).changed(0);
  });
  for (const select of [choices.beam, choices.nbest]) select.addEventListener("change", () => translationPanel.changed(0));
  const [example] = choices.isTranslator ? choices.model.examples : [];
  if (example && translationPanel.area.value === "") translationPanel.showExample(example);
  else (choices.isTranslator ? translationPanel.area : textPanel.input).focus();
  document.getElementById("show-attention").addEventListener("click", () => openAttention(translationPanel, choices));
  document.getElementById("results-attention").addEventListener("click", () => openAttention(textPanel, choices));
  document.getElementById("attention-close").addEventListener("click", () => document.getElementById("attention").close());
}

function showTextModel(model, panel) {
  const summary = panel.showModel(model);
  document.title = `regard: ${model.name} ${summary}`;
  document.getElementById("model-summary").textContent = summary;
}

function showTranslator(model, panel) {
  const [source, target] = [languageName(model.source_language), languageName(model.target_language)];
  document.title = `regard: ${source} to ${target}`;
  document.getElementById("model-summary").textContent = `${source} to ${target}`;
  document.getElementById("source-title").textContent = source;
  document.getElementById("target-title").textContent = target;
  panel.area.lang = model.source_language;
  panel.area.placeholder = model.corpus === "picturebook"
    ? `Trained on picture-book ${source}; type a sentence or try an example. Each line is translated separately.`
    : "Type or paste; each line is translated separately.";
  panel.translation.lang = model.target_language;
  const examples = document.getElementById("examples");
  examples.hidden = model.examples.length === 0;
  examples.replaceChildren(
    ...model.examples.map((text) => {
      const button = element("button", "", text);
      button.type = "button";
      button.title = text;
      button.dir = "auto";
      button.addEventListener("click", () => panel.setSource(text));
      return button;
    }),
  );
}

// Opens the attention page of the current line in a sandboxed frame.
async function openAttention(panel, choices) {
  try {
    const body = { ...panel.attentionRequest(), model: choices.model.name };
    const response = await request("/attention", { body, accept: "text/html" });
    const address = response.headers.get("Content-Location");
    await response.body.cancel();
    document.getElementById("attention-title").textContent = `Attention: “${shorten(body.text)}”`;
    document.getElementById("attention-tab").href = address;
    document.getElementById("attention-frame").src = `${address}#theme=${isDark() ? "dark" : "light"}`;
    document.getElementById("attention").showModal();
  } catch (error) {
    setText(panel.problem, sentence(error));
  }
}

function shorten(text, maxCharacters = 60) {
  const characters = Array.from(text);
  return characters.length > maxCharacters ? `${characters.slice(0, maxCharacters - 1).join("")}…` : text;
}

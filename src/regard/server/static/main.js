// The page: asks for the models, then lets one type, look, and translate a file, or see what a model reads in a text.

import { putCard } from "./card.js";
import { Choices, language } from "./choices.js";
import { WholeFile } from "./file.js";
import { Reading } from "./reading.js";
import { ask, sentence, show, useToken } from "./server.js";
import { switchTheme } from "./theme.js";
import { Typing } from "./typing.js";
import { element } from "./words.js";

const problem = document.getElementById("problem");

switchTheme(document.getElementById("theme"));
begin();

async function begin() {
  try {
    const known = await (await ask("/models")).json();
    show(problem, null);
    open(known);
  } catch (refused) {
    if (refused.status === 401) askForToken();
    else show(problem, sentence(refused));
  }
}

function askForToken() {
  const form = document.getElementById("token");
  const word = document.getElementById("token-word");
  if (!form.hidden) show(problem, "This is not the token the server wants.");
  form.hidden = false;
  word.focus();
  form.onsubmit = (event) => {
    event.preventDefault();
    useToken(word.value);
    word.value = "";
    begin();
  };
}

function open({ models, limits }) {
  document.getElementById("token").hidden = true;
  document.getElementById("main").hidden = false;
  const choices = new Choices(models);
  const typing = new Typing(choices, limits);
  const reading = new Reading(choices, limits);
  new WholeFile(choices, limits);
  introduce(choices.model, typing, reading);
  choices.chosen.addEventListener("change", () => {
    choices.offerBeams();
    introduce(choices.model, typing, reading);
    (choices.writes ? typing : reading).changed(0);
  });
  for (const each of [choices.beam, choices.nbest]) each.addEventListener("change", () => typing.changed(0));
  document.getElementById("view").addEventListener("click", () => openHeads(typing, choices));
  document.getElementById("found-view").addEventListener("click", () => openHeads(reading, choices));
  document.getElementById("heads-close").addEventListener("click", () => document.getElementById("heads").close());
  (choices.writes ? typing.area : reading.text).focus();
}

// What the page says about the model that is chosen.
function introduce(model, typing, reading) {
  const { writes } = reading.choices;
  for (const each of document.querySelectorAll(".writes")) each.hidden = !writes;
  document.querySelector(".reads").hidden = writes;
  putCard(document.getElementById("card-text"), model.card);
  document.getElementById("card").hidden = model.card === "";
  if (!writes) {
    const does = reading.introduce(model);
    document.title = `regard: ${model.name} ${does}`;
    document.getElementById("what").textContent = does;
    return;
  }
  const [source, target] = [language(model.source_language), language(model.target_language)];
  document.title = `regard: ${source} to ${target}`;
  document.getElementById("what").textContent = `${source} to ${target}`;
  document.getElementById("source-title").textContent = source;
  document.getElementById("target-title").textContent = target;
  typing.area.lang = model.source_language;
  typing.translation.lang = model.target_language;
  const examples = document.getElementById("examples");
  examples.hidden = model.examples.length === 0;
  examples.replaceChildren(
    ...model.examples.map((text) => {
      const button = element("button", "", text);
      button.type = "button";
      button.title = text;
      button.dir = "auto";
      button.addEventListener("click", () => typing.put(text));
      return button;
    }),
  );
}

// The viewer's page for the line that is looked at, in a frame without any rights over this one.
async function openHeads(typing, choices) {
  try {
    const body = { ...typing.line(), model: choices.model.name };
    const answer = await ask("/attention", { body, accept: "text/html" });
    const place = answer.headers.get("Content-Location");
    await answer.body.cancel();
    document.getElementById("heads-tab").href = place;
    document.getElementById("heads-frame").src = place;
    document.getElementById("heads").showModal();
  } catch (refused) {
    show(typing.problem, sentence(refused));
  }
}

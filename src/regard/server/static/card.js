// Renders a model card: the subset of Markdown that regard writes (headings, tables, paragraphs, inline code).

import { element } from "./highlight.js";

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'", "#124": "|", "#96": "`", "#91": "[" };

function unescapeEntities(text) {
  return text.replace(/&(#?\w+);/g, (entity, name) => ENTITIES[name] ?? entity);
}

function appendInline(parent, text) {
  text.split("`").forEach((part, index) => {
    if (index % 2) parent.append(element("code", "", unescapeEntities(part)));
    else parent.append(unescapeEntities(part));
  });
}

export function renderCard(container, markdown) {
  container.replaceChildren();
  let table = null;
  for (const line of markdown.split("\n")) {
    const cells = /^\|(.*)\|\s*$/.exec(line)?.[1].split(/(?<!\\)\|/);
    if (!cells) table = null;
    if (cells) {
      if (cells.every((cell) => /^[\s:-]*$/.test(cell))) continue; // the rule below the header, or an empty header
      if (!table) container.append((table = element("table")));
      const row = table.insertRow();
      for (const cell of cells) appendInline(row.insertCell(), cell.trim().replaceAll("\\|", "|"));
    } else if (line.startsWith("#")) {
      container.append(element("h3", "", unescapeEntities(line.replace(/^#+\s*/, ""))));
    } else if (line.trim()) {
      const paragraph = element("p");
      appendInline(paragraph, line);
      container.append(paragraph);
    }
  }
}

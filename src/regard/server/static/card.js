// A model card in Markdown, as far as regard writes it: headings, tables, paragraphs, code.

import { element } from "./words.js";

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'", "#124": "|", "#96": "`", "#91": "[" };

function plain(text) {
  return text.replace(/&(#?\w+);/g, (whole, name) => ENTITIES[name] ?? whole);
}

function putInline(place, text) {
  text.split("`").forEach((part, number) => {
    if (number % 2) place.append(element("code", "", plain(part)));
    else place.append(plain(part));
  });
}

export function putCard(place, markdown) {
  place.replaceChildren();
  let table = null;
  for (const line of markdown.split("\n")) {
    const cells = /^\|(.*)\|\s*$/.exec(line)?.[1].split(/(?<!\\)\|/);
    if (!cells) table = null;
    if (cells) {
      if (cells.every((cell) => /^[\s:-]*$/.test(cell))) continue; // the rule below a heading, or a heading of nothing
      if (!table) place.append((table = element("table")));
      const row = table.insertRow();
      for (const cell of cells) putInline(row.insertCell(), cell.trim().replaceAll("\\|", "|"));
    } else if (line.startsWith("#")) {
      place.append(element("h3", "", plain(line.replace(/^#+\s*/, ""))));
    } else if (line.trim()) {
      const paragraph = element("p");
      putInline(paragraph, line);
      place.append(paragraph);
    }
  }
}

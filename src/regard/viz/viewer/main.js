// Switch between words and tokens, printing, and the first drawing.

document.getElementById("in-words").addEventListener("change", () => select({ words: true }));
document.getElementById("in-tokens").addEventListener("change", () => select({ words: false }));
// Of a vocabulary of whole words, words and tokens are the same.
if (data.sides.every((side) => side.groups.every((group) => group.length === 1))) {
  const unit = document.getElementById("unit-choice");
  unit.disabled = true;
  unit.title = "every token of this text is a whole word";
}

const reading = document.getElementById("reading");
document.getElementById("reading-close").addEventListener("click", () => {
  reading.remove();
  layerSelect.focus();
});

views.push(() => { document.getElementById(state.words ? "in-words" : "in-tokens").checked = true; });

matchMedia("print").addEventListener("change", redraw);

select(data.opened);

// Switch between words and tokens, printing, and the first drawing.

document.getElementById("in-words").addEventListener("change", () => select({ words: true }));
document.getElementById("in-tokens").addEventListener("change", () => select({ words: false }));
views.push(() => { document.getElementById(state.words ? "in-words" : "in-tokens").checked = true; });

matchMedia("print").addEventListener("change", redraw);

select(data.opened);

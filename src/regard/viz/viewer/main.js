// Words or tokens, printing, and the first look.

document.getElementById("in-words").addEventListener("change", () => choose({ words: true }));
document.getElementById("in-tokens").addEventListener("change", () => choose({ words: false }));
views.push(() => { document.getElementById(state.words ? "in-words" : "in-tokens").checked = true; });

matchMedia("print").addEventListener("change", redraw);

choose(data.opened);

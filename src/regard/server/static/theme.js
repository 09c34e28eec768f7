// Light or dark: as the system says, until one says otherwise.

const KEPT = "regard.theme";

export function switchTheme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const put = () => (button.textContent = isDark() ? "Light" : "Dark");
  if (kept()) root.dataset.theme = kept();
  button.addEventListener("click", () => {
    const wanted = isDark() ? "light" : "dark";
    root.dataset.theme = wanted;
    keep(wanted);
    put();
  });
  system.addEventListener("change", put);
  put();
}

// A browser may forbid a page to keep anything; then the choice lasts as long as the page.
function keep(theme) {
  try {
    localStorage.setItem(KEPT, theme);
  } catch {
    // nothing is kept
  }
}

function kept() {
  try {
    const found = localStorage.getItem(KEPT);
    return found === "light" || found === "dark" ? found : null;
  } catch {
    return null;
  }
}

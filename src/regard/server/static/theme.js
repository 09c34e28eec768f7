// Light or dark: follows the system until the user chooses.

const STORAGE_KEY = "regard.theme";

const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

export function isDark() {
  return (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
}

export function setUpTheme(button) {
  const updateButton = () => (button.textContent = isDark() ? "Light" : "Dark");
  const stored = storedTheme();
  if (stored) root.dataset.theme = stored;
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    root.dataset.theme = theme;
    storeTheme(theme);
    updateButton();
  });
  system.addEventListener("change", updateButton);
  updateButton();
}

// Without access to storage, the choice lasts as long as the page.
function storeTheme(theme) {
  try {
    localStorage.setItem(STORAGE_KEY, theme);
  } catch {
    // storage is not permitted
  }
}

function storedTheme() {
  try {
    const theme = localStorage.getItem(STORAGE_KEY);
    return theme === "light" || theme === "dark" ? theme : null;
  } catch {
    return null;
  }
}

// Light, dark, or as the system has it. Known before the first paint would be better; a flash is what CSP costs.
import { useEffect, useState } from "preact/hooks";
import { THEME_CHANGED } from "./theme_event";

export type Theme = "light" | "dark" | "system";
const KEPT = "trilens-theme";
const ORDER: Theme[] = ["system", "light", "dark"];

function kept(): Theme {
  const found = localStorage.getItem(KEPT);
  return ORDER.find((theme) => theme === found) ?? "system";
}

function apply(theme: Theme): void {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset["theme"] = theme;
  window.dispatchEvent(new Event(THEME_CHANGED));
}

apply(kept());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event(THEME_CHANGED)));

export function toggleTheme(): void {
  const next = ORDER[(ORDER.indexOf(kept()) + 1) % ORDER.length] ?? "system";
  localStorage.setItem(KEPT, next);
  apply(next);
}

export function useTheme(): Theme {
  const [theme, setTheme] = useState(kept);
  useEffect(() => {
    const changed = () => setTheme(kept());
    window.addEventListener(THEME_CHANGED, changed);
    return () => window.removeEventListener(THEME_CHANGED, changed);
  }, []);
  return theme;
}

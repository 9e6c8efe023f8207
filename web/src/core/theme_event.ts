/** Told to the window when colours have changed: what is drawn on canvas is drawn anew. */
export const THEME_CHANGED = "trilens-theme";

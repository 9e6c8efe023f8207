// The queries that were run in this browser, the latest first.
const KEY = "trilens-queries";
const KEPT = 50;

export function pastQueries(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return []; // somebody else's, or cut off
  }
}

export function remember(query: string): void {
  const rest = pastQueries().filter((one) => one !== query);
  try {
    localStorage.setItem(KEY, JSON.stringify([query, ...rest].slice(0, KEPT)));
  } catch {
    // no room, or not allowed to: the page works without
  }
}

export function forgetAll(): void {
  localStorage.removeItem(KEY);
}

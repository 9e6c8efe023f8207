// Whether the server answers at all, as the last asks found it: a page says it once, and all of it asks again when it is back.
import { Waiting, Watched } from "./watched";

/** Since when it does not answer; null while it does. */
export const awaySinceMs = new Watched<number | null>(null);
/** Asked again when the server is back, or when somebody does not want to wait. */
export const untilBack = new Waiting();
let lastHeardMs: number | null = null;

export function heardMs(): number | null {
  return lastHeardMs;
}

export function heard(): void {
  lastHeardMs = Date.now();
  if (awaySinceMs.now === null) return;
  awaySinceMs.set(null);
  untilBack.call();
}

export function missed(): void {
  if (awaySinceMs.now === null) awaySinceMs.set(Date.now());
}
window.addEventListener("online", () => untilBack.call());

// The token that a server may want. It is kept for this tab, until it is closed.
import { Waiting, Watched } from "./watched";

const KEPT = "trilens-token";

/** "refused": one was sent, and it is not (or no longer) the right one. */
export const tokenWish = new Watched<"none" | "wanted" | "refused">("none");
/** Asked again when there is another token to try. */
export const untilToken = new Waiting();

export function keptToken(): string {
  return sessionStorage.getItem(KEPT) ?? "";
}

/** Whether it can be sent at all. */
export function canBeToken(text: string): boolean {
  return /^[\x21-\x7e]+$/.test(text);
}

export function giveToken(token: string): void {
  sessionStorage.setItem(KEPT, token);
  tokenWish.set("none");
  untilToken.call();
}

export function forgetToken(): void {
  sessionStorage.removeItem(KEPT);
}

/** `sent` is what the ask carried: by now there may be a newer one. */
export function refused(sent: string): void {
  if (sent === keptToken()) tokenWish.set(sent === "" ? "wanted" : "refused");
}

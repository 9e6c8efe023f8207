// Who is logged in, and the ways to be.
import { get, post, type Data } from "./client";
import { forgetToken, tokenWish } from "./token";
import { Watched } from "./watched";

export type Me = Data<"/auth/me">;

/** Null until it is known. */
export const me = new Watched<Me | null>(null);

export async function askMe(): Promise<void> {
  try {
    me.set((await get("/auth/me")).data);
  } catch {
    // The page says itself what is wrong with the server.
  }
}

/** To the provider, and back to this page. */
export function wayIn(): string {
  return `/auth/login?next=${encodeURIComponent(location.pathname + location.search)}`;
}

/** Of a login everywhere; of a token in this tab. */
export async function logOut(): Promise<void> {
  await post("/auth/logout");
  forgetToken();
  location.reload();
}

/** A token that is given, and a login that has ended, make it somebody else. */
export function followMe(): () => void {
  void askMe();
  return tokenWish.watch(() => void askMe());
}


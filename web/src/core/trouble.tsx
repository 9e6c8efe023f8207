// What is wrong with all of the server, said once at the top of the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { awaySinceMs, heardMs, untilBack } from "../api/standing";
import { me, wayIn } from "../api/me";
import { canBeToken, giveToken, tokenWish } from "../api/token";
import { useWatched } from "../api/watched";
import { clock } from "../format/time";
import { Ago } from "../parts/time";

export function Trouble() {
  const sinceMs = useWatched(awaySinceMs);
  const wish = useWatched(tokenWish);
  if (sinceMs !== null) return <Away sinceMs={sinceMs} />;
  return wish === "none" ? null : <TokenForm isRefused={wish === "refused"} />;
}

function Away({ sinceMs }: { sinceMs: number }) {
  const atMs = heardMs();
  return (
    <section class="notice notice-warning trouble" aria-label="Trouble">
      <div role="alert">
        <h1>The server does not answer</h1>
        <p>
          Nothing was heard of it since {clock(atMs ?? sinceMs, true)}.{" "}
          {atMs !== null && (
            <>
              What is shown is from <Ago ms={atMs} />, or older.
            </>
          )}
        </p>
        <p class="soft">Is it running, and is there a way to it? The page goes on asking, and all of it comes back by itself.</p>
      </div>
      <button type="button" onClick={() => untilBack.call()}>
        Try now
      </button>
    </section>
  );
}

function TokenForm({ isRefused }: { isRefused: boolean }) {
  const [typed, setTyped] = useState("");
  const [isImpossible, setImpossible] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const byLogin = useWatched(me)?.ways.includes("oidc") ?? false;
  useEffect(() => (byLogin ? undefined : field.current?.focus()), [byLogin]);
  const give = (event: Event) => {
    event.preventDefault();
    const token = typed.trim();
    setImpossible(!canBeToken(token));
    if (canBeToken(token)) giveToken(token);
    else field.current?.focus();
  };
  return (
    <form class="notice notice-warning trouble" aria-label="Trouble" onSubmit={give}>
      <div>
        <div role="alert">
          <h1>{isRefused ? "The server does not take this token" : byLogin ? "You are not logged in" : "This server wants a token"}</h1>
          {isRefused && <p>It is another one, or it has been changed meanwhile.</p>}
          {isImpossible && <p>A token has letters, digits and signs only, and no space.</p>}
        </div>
        {byLogin ? (
          <p>
            <a class="main-action" href={wayIn()}>
              Log in
            </a>{" "}
            <span class="soft">or with a token, which is kept for this tab, until it is closed.</span>
          </p>
        ) : (
          <p class="soft">
            Whoever runs the server has it, or makes one for you: <code>trilens token create</code>. It is kept for this tab, until it is closed.
          </p>
        )}
      </div>
      <label>
        Token{" "}
        <input
          ref={field}
          type="password"
          autocomplete="current-password"
          required
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main-action">
        Go on
      </button>
    </form>
  );
}

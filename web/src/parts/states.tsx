import type { ComponentChildren } from "preact";
import type { ApiError } from "../api/client";
import type { Live } from "../api/use";
import { Ago } from "./time";

export function Loading({ what = "Loading", isSlow = false }: { what?: string; isSlow?: boolean }) {
  return (
    <div class="state" role="status">
      <span class="spinner" aria-hidden="true" /> {what}…
      {isSlow && <p>The server takes its time. It may be busy, or the span of time is long: a shorter one is quicker.</p>}
    </div>
  );
}

/** Nothing to show: says what that means, and what to do. */
export function Empty({ what, todo }: { what: string; todo?: ComponentChildren }) {
  return (
    <div class="state state-empty">
      <p>{what}</p>
      {todo !== undefined && <div class="state-todo">{todo}</div>}
    </div>
  );
}

/** What is wrong with all of the server is said at the top of the page: here only that this waits for it. */
export function Failed({ error, reload }: { error: ApiError; reload?: () => void }) {
  if (error.kind === "network" || error.kind === "auth") {
    return (
      <div class="state" role="status">
        Not known yet: {error.kind === "auth" ? "waiting for you to log in." : "waiting for the server."}
      </div>
    );
  }
  return (
    <div class="state state-failed" role="alert">
      <p>
        <strong>{error.message}</strong>
      </p>
      {error.hint !== "" && <p>{error.hint}</p>}
      {reload !== undefined && (
        <button type="button" onClick={reload}>
          Try again
        </button>
      )}
    </div>
  );
}

/** That an answer is an old one: why, and how old. */
export function Stale<T>({ live }: { live: Live<T> }) {
  const { error } = live;
  const isSaidAbove = error?.kind === "network" || error?.kind === "auth";
  if (isSaidAbove || (error === undefined && !live.isSlow)) return null;
  return (
    <div class="notice notice-warning" role={error === undefined ? "status" : "alert"}>
      <p>
        {error?.message ?? "The server takes its time."}{" "}
        {live.atMs !== null && (
          <>
            What is shown is from <Ago ms={live.atMs} />.
          </>
        )}
      </p>
      {error !== undefined && error.hint !== "" && <p>{error.hint}</p>}
    </div>
  );
}

/** What an answer comes to: its page, or why there is none. An old answer stays, and says how old it is. One to
 *  the question before is dimmed until there is one to this; where the heading names the question, it goes. */
export function Shown<T>({
  live,
  what,
  isNamed = false,
  children,
}: {
  live: Live<T>;
  what?: string;
  isNamed?: boolean;
  children: (data: T) => ComponentChildren;
}) {
  if (live.data === undefined || (isNamed && live.isOther)) {
    if (live.error !== undefined) return <Failed error={live.error} reload={live.reload} />;
    return <Loading what={what} isSlow={live.isSlow} />;
  }
  return (
    <div class="answer" aria-busy={live.isOther}>
      <Stale live={live} />
      {live.warnings.length > 0 && <Doubts lines={live.warnings} />}
      {children(live.data)}
    </div>
  );
}

const SHOWN = 3;

/** Why an answer may not be all, or not be right. */
export function Doubts({ lines }: { lines: string[] }) {
  const first = lines.slice(0, SHOWN);
  const rest = lines.slice(SHOWN);
  return (
    <div class="notice notice-doubt">
      {first.map((line) => (
        <p key={line}>{line}</p>
      ))}
      {rest.length > 0 && (
        <details>
          <summary>and {rest.length} more</summary>
          {rest.map((line) => (
            <p key={line}>{line}</p>
          ))}
        </details>
      )}
    </div>
  );
}

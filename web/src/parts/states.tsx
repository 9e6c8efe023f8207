import type { ComponentChildren } from "preact";
import type { ApiError } from "../api/client";
import type { Live } from "../api/use";
import { ago } from "../format/time";

export function Loading({ what = "Loading" }: { what?: string }) {
  return (
    <div class="state" role="status">
      <span class="spinner" aria-hidden="true" /> {what}…
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

export function Failed({ error, reload }: { error: ApiError; reload?: () => void }) {
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

/** What an answer comes to: its page, or why there is none. An old answer stays, and says how old it is. */
export function Shown<T>({
  live,
  what,
  children,
}: {
  live: Live<T>;
  what?: string;
  children: (data: T) => ComponentChildren;
}) {
  if (live.data === undefined) {
    return live.error !== undefined ? <Failed error={live.error} reload={live.reload} /> : <Loading what={what} />;
  }
  return (
    <>
      {live.error !== undefined && (
        <p class="notice notice-warning" role="alert">
          {live.error.message} What is shown is from {ago(live.atMs)}.
        </p>
      )}
      {live.warnings.length > 0 && <Doubts lines={live.warnings} />}
      {children(live.data)}
    </>
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

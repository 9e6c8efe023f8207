// Who is logged in, at the end of the top line; nothing where the server asks nobody.
import { useEffect, useRef, useState } from "preact/hooks";
import { followMe, logOut, me, wayIn, type Me } from "../api/me";
import { keptToken } from "../api/token";
import { useWatched } from "../api/watched";
import { moment } from "../format/time";
import { useParam } from "./route";
import { Terminal } from "./terminal";

export function Account() {
  const known = useWatched(me);
  const [isFailed, setFailed] = useState(false);
  const [terminal, setTerminal] = useParam("terminal");
  const menu = useRef<HTMLDivElement>(null);
  useEffect(followMe, []);
  if (known === null || known.ways.length === 0) return null;
  if (known.name === null) {
    return known.ways.includes("oidc") ? (
      <a class="account" href={wayIn()}>
        Log in
      </a>
    ) : null;
  }
  const isSession = known.how === "session";
  const take = () => {
    menu.current?.hidePopover(); // the dialog would be below it
    setTerminal("1");
  };
  return (
    <>
      <button type="button" class="account" popovertarget="account-menu">
        <span class="who">{known.name}</span> ▾
      </button>
      <div id="account-menu" ref={menu} popover="auto" aria-label="Account">
        <strong>{known.name}</strong>
        <p>{mayText(known)}</p>
        {isSession && (
          <button type="button" onClick={take}>
            Log in from a terminal
          </button>
        )}
        {(isSession || keptToken() !== "") && (
          <button type="button" onClick={() => void logOut().catch(() => setFailed(true))}>
            {isFailed ? "Not logged out: try again" : "Log out"}
          </button>
        )}
      </div>
      {isSession && terminal !== "" && <Terminal onClose={() => setTerminal("")} />}
    </>
  );
}

/** Who sees a part alone is told so: else a page with nothing on it looks as if nothing ran. */
function mayText(known: Me): string {
  const rights = [...new Set(known.grants.flatMap((grant) => grant.rights))].join(", ");
  const isWhole = known.grants.some((grant) => grant.teams === null && grant.clusters === null);
  const named = [...new Set(known.grants.flatMap((grant) => [...(grant.teams ?? []), ...(grant.clusters ?? [])]))];
  const until = known.ends_ms === null ? "" : `; logged in until ${moment(known.ends_ms)}`;
  return `May ${rights}${isWhole ? "" : ` of ${named.join(", ")} only`}${until}.`;
}

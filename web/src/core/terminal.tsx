// A login for commands: that of this browser, to be pasted into a terminal.
import { useState } from "preact/hooks";
import { post, type Data } from "../api/client";
import { moment } from "../format/time";
import { Dialog } from "./dialog";

type Login = Data<"/auth/terminal", "post">;

export function Terminal({ onClose }: { onClose: () => void }) {
  const [made, setMade] = useState<Login | null>(null);
  const [isCopied, setCopied] = useState(false);
  const [failure, setFailure] = useState("");
  const make = async () => {
    setFailure("");
    try {
      const login = (await post("/auth/terminal")).data;
      setMade(login);
      setCopied(await isInClipboard(login.token));
    } catch (e) {
      setFailure(String(e instanceof Error ? e.message : e));
    }
  };
  return (
    <Dialog class="terminal" label="Log in from a terminal" onClose={onClose}>
      {(close) => (
        <>
          <div class="spread">
            <h2>Log in from a terminal</h2>
            <button type="button" onClick={close}>
              Close
            </button>
          </div>
          <ol>
            <li>
              In the terminal: <code>trilens login --server {location.origin}</code>
            </li>
            <li>
              <button type="button" class="main-action" autoFocus onClick={() => void make()}>
                Copy a login
              </button>{" "}
              and paste it there.
            </li>
          </ol>
          <div role="status">
            {failure !== "" && <p class="notice notice-warning">{failure}</p>}
            {made !== null && (
              <>
                <p>
                  {isCopied ? "It is copied." : "Copy it from here."} It ends at {moment(made.ends_ms)}, or when you log out.
                </p>
                <input aria-label="Login" readOnly value={made.token} onFocus={(event) => event.currentTarget.select()} />
              </>
            )}
          </div>
          <p class="soft">It may do what you may, and no more. Who has it can do that in your name: keep it as you keep a password.</p>
        </>
      )}
    </Dialog>
  );
}

/** Browsers let a page do that over https, or on this machine. */
async function isInClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

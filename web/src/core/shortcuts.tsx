// The keys that work on every page, and the list of them.
import { useEffect } from "preact/hooks";
import { pages } from "../pages";
import { Dialog } from "./dialog";
import { go, hrefOf } from "./route";

const CHORD_MS = 3000; // long enough for who types slowly

/** g and a letter opens a page, / jumps to the search, Ctrl K opens the palette, ? lists the keys. */
export function useShortcuts(find: () => void, help: () => void): void {
  useEffect(() => {
    let chordUntil = 0;
    const pressed = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        find();
        return;
      }
      const target = event.target;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (target instanceof Element && target.closest("input, textarea, select, dialog, [contenteditable]")) return;
      if (event.timeStamp < chordUntil) {
        chordUntil = 0;
        const page = pages.find((one) => one.key === event.key);
        if (page !== undefined) go(hrefOf(page.path));
      } else if (event.key === "g") chordUntil = performance.now() + CHORD_MS; // a page that was busy took no time of whoever types
      else if (event.key === "?") help();
      else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("[data-shortcut='/']");
        if (search !== null) {
          event.preventDefault();
          search.focus();
        }
      }
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
}

const ELSEWHERE: [string, string][] = [
  ["Ctrl K", "find a page, a workload or an incident"],
  ["/", "jump to the search of the page"],
  ["↑ ↓ Enter", "move in a table, open a row"],
  ["?", "this list"],
  ["Esc", "close what is open"],
];

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog class="keys" label="Keys" onClose={onClose}>
      {(close) => (
        <>
          <div class="spread">
            <h2>Keys</h2>
            <button type="button" autoFocus onClick={close}>
              Close
            </button>
          </div>
          <dl>
            {[...ELSEWHERE, ...ofPages()].map(([key, does]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </Dialog>
  );
}

function ofPages(): [string, string][] {
  return pages.filter((page) => page.key !== undefined).map((page) => [`g ${page.key ?? ""}`, page.title]);
}

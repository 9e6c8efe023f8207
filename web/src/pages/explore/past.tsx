// What was asked before, in this browser.
import { useEffect, useRef, useState } from "preact/hooks";
import { forgetAll, pastQueries } from "./history";

export function Past({ onPick }: { onPick: (query: string) => void }) {
  const box = useRef<HTMLDetailsElement>(null);
  const [queries, setQueries] = useState<string[]>([]);
  const close = () => {
    if (box.current !== null) box.current.open = false;
  };
  useEffect(() => {
    const elsewhere = (event: MouseEvent) => {
      if (!box.current?.contains(event.target as Node)) close();
    };
    document.addEventListener("click", elsewhere);
    return () => document.removeEventListener("click", elsewhere);
  }, []);
  return (
    <details
      ref={box}
      class="past"
      onToggle={() => setQueries(pastQueries())}
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      <summary>History</summary>
      <div class="past-list">
        {queries.length === 0 && <p class="soft">Nothing was asked yet.</p>}
        <ul>
          {queries.map((query) => (
            <li key={query}>
              <button
                type="button"
                onClick={() => {
                  close();
                  onPick(query);
                }}
              >
                <code>{query}</code>
              </button>
            </li>
          ))}
        </ul>
        {queries.length > 0 && (
          <button
            type="button"
            class="forget"
            onClick={() => {
              forgetAll();
              setQueries([]);
            }}
          >
            Forget them
          </button>
        )}
      </div>
    </details>
  );
}

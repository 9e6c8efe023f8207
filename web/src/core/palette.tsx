// Ctrl K: every page, workload and incident by a few letters of its name.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, type Data } from "../api/client";
import { useAnswer } from "../api/use";
import { pages } from "../pages";
import { Dialog } from "./dialog";
import { go, hrefOf, workloadPath } from "./route";
import { toggleTheme } from "./theme";

interface Entry {
  key: string;
  title: string;
  note: string;
  act: () => void;
}

const SHOWN = 12;

export function Palette({ onClose, onKeys }: { onClose: () => void; onKeys: () => void }) {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const workloads = useAnswer("palette-workloads", (signal) => get("/api/workload-table", { query: { state: "running" } }, signal));
  const incidents = useAnswer("palette-incidents", (signal) => get("/api/incidents", {}, signal));
  const entries = useMemo(
    () => [...ofPages(), ...ofShell(onKeys), ...ofIncidents(incidents.data ?? []), ...ofWorkloads(workloads.data)],
    [workloads.data, incidents.data],
  );
  const found = useMemo(() => matching(entries, typed).slice(0, SHOWN), [entries, typed]);
  const at = Math.min(chosen, found.length - 1);
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);

  const take = (entry: Entry | undefined, close: () => void) => {
    if (entry === undefined) return;
    close();
    entry.act();
  };
  const pressed = (event: KeyboardEvent, close: () => void) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setChosen((at + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter" && !event.isComposing) take(found[at], close);
  };
  const isAsking = workloads.data === undefined || incidents.data === undefined;
  const trouble = workloads.error ?? incidents.error;
  return (
    <Dialog class="palette" label="Find" onClose={onClose}>
      {(close) => (
        <>
          <input
            type="text"
            role="combobox"
            aria-expanded="true"
            aria-controls="palette-list"
            aria-activedescendant={at >= 0 ? `palette-${at}` : undefined}
            aria-label="A page, a workload, an incident"
            placeholder="A page, a workload, an incident…"
            autoFocus
            value={typed}
            onKeyDown={(event) => pressed(event, close)}
            onInput={(event) => {
              setTyped(event.currentTarget.value);
              setChosen(0);
            }}
          />
          <ul id="palette-list" role="listbox" aria-label="Found" ref={list}>
            {found.map((entry, i) => (
              <li
                key={entry.key}
                id={`palette-${i}`}
                role="option"
                aria-selected={i === at}
                onMouseMove={() => setChosen(i)}
                onClick={() => take(entry, close)}
              >
                <span>{entry.title}</span> <small>{entry.note}</small>
              </li>
            ))}
          </ul>
          <p class="soft" role="status">
            {found.length === 0 && !isAsking && "Nothing of that name. "}
            {trouble !== undefined
              ? `Only pages can be found now. ${trouble.message}`
              : isAsking && "Asking for workloads and incidents…"}
          </p>
        </>
      )}
    </Dialog>
  );
}

function ofPages(): Entry[] {
  return pages
    .filter((page) => page.inNav)
    .map((page) => ({ key: page.path, title: page.title, note: `page · g ${page.key ?? ""}`, act: () => go(hrefOf(page.path)) }));
}

function ofShell(keys: () => void): Entry[] {
  return [
    { key: "theme", title: "Change the theme", note: "light, dark, system", act: toggleTheme },
    { key: "keys", title: "Keys", note: "what the keyboard does · ?", act: keys },
  ];
}

function ofIncidents(incidents: Data<"/api/incidents">): Entry[] {
  return incidents.map((one) => ({
    key: `incident ${one.id}`,
    title: one.title,
    note: one.state === "resolved" ? "incident, over" : "incident",
    act: () => go(hrefOf(`/incidents/${encodeURIComponent(one.id)}`)),
  }));
}

function ofWorkloads(table: Data<"/api/workload-table"> | undefined): Entry[] {
  return (table?.name ?? []).map((name, i) => {
    const at = { cluster: table?.cluster[i] ?? "", namespace: table?.namespace[i] ?? "", kind: table?.kind[i] ?? "", name };
    const team = table?.team[i] ?? null;
    // A run whose workload nobody knows has no page of its own.
    const isRun = at.cluster === "";
    return {
      key: `workload ${Object.values(at).join("/")} ${table?.run[i] ?? ""}`,
      title: name,
      note: isRun ? "run" : `${at.kind} in ${at.namespace}${team ? ` · ${team}` : ""}`,
      act: () => go(isRun ? hrefOf("/experiments", { runs: table?.run[i] ?? "" }) : hrefOf(workloadPath(at))),
    };
  });
}

/** Those that have all words, those that begin with them first. */
function matching(entries: Entry[], typed: string): Entry[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return entries;
  const first = words[0] ?? "";
  const found = entries.filter((entry) => {
    const text = `${entry.title} ${entry.note}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  return found.sort((a, b) => Number(b.title.toLowerCase().startsWith(first)) - Number(a.title.toLowerCase().startsWith(first)));
}

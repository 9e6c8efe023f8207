// Ctrl K: every page, workload and incident by a few letters of its name.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import { useAnswer } from "../api/use";
import { pages } from "../pages";
import { go, hrefOf, workloadPath } from "./route";
import { toggleTheme } from "./theme";

interface Entry {
  key: string;
  title: string;
  note: string;
  act: () => void;
}

const SHOWN = 12;

export function Palette({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const workloads = useAnswer("palette-workloads", (signal) => get("/api/workloads", {}, signal));
  const incidents = useAnswer("palette-incidents", (signal) => get("/api/incidents", {}, signal));
  useEffect(() => dialog.current?.showModal(), []);

  const entries = useMemo<Entry[]>(() => {
    const ofPages = pages
      .filter((page) => page.inNav)
      .map((page) => ({
        key: page.path,
        title: page.title,
        note: `page · g ${page.key ?? ""}`,
        act: () => go(hrefOf(page.path)),
      }));
    const ofWorkloads = (workloads.data ?? []).map((one) => ({
      key: one.uid,
      title: one.name,
      note: `${one.kind} in ${one.namespace}${one.team ? ` · ${one.team}` : ""}`,
      act: () => go(hrefOf(workloadPath(one))),
    }));
    const ofIncidents = (incidents.data ?? []).map((one) => ({
      key: one.id,
      title: one.title,
      note: "incident",
      act: () => go(hrefOf(`/incidents/${encodeURIComponent(one.id)}`)),
    }));
    return [...ofPages, { key: "theme", title: "Change the theme", note: "light, dark, system", act: toggleTheme }, ...ofIncidents, ...ofWorkloads];
  }, [workloads.data, incidents.data]);

  const found = useMemo(() => matching(entries, typed).slice(0, SHOWN), [entries, typed]);
  const take = (entry: Entry | undefined) => {
    if (entry === undefined) return;
    onClose();
    entry.act();
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setChosen((chosen + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter") take(found[chosen]);
  };
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Find"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
      onKeyDown={pressed}
    >
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length > 0 ? `palette-${chosen}` : undefined}
        aria-label="A page, a workload, an incident"
        placeholder="A page, a workload, an incident…"
        autoFocus
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setChosen(0);
        }}
      />
      <ul id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, i) => (
          <li
            key={entry.key}
            id={`palette-${i}`}
            role="option"
            aria-selected={i === chosen}
            onMouseMove={() => setChosen(i)}
            onClick={() => take(entry)}
          >
            <span>{entry.title}</span> <small>{entry.note}</small>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="soft">Nothing of that name.</p>}
    </dialog>
  );
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

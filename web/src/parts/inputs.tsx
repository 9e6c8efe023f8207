import { useEffect, useRef, useState } from "preact/hooks";

const SETTLE_MS = 120;

/** Tells what was typed when the typing pauses. "/" jumps to it. */
export function Search({
  value,
  onChange,
  label,
}: {
  value: string;
  onChange: (value: string) => void;
  label: string;
}) {
  const [typed, setTyped] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setTyped(value), [value]);
  const type = (text: string) => {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onChange(text), SETTLE_MS);
  };
  return (
    <input
      type="search"
      class="search"
      data-shortcut="/"
      aria-label={label}
      placeholder={`${label}  ( / )`}
      value={typed}
      onInput={(event) => type(event.currentTarget.value)}
    />
  );
}

export interface Choice {
  value: string;
  label: string;
}

export function Select({
  label,
  value,
  choices,
  onChange,
}: {
  label: string;
  value: string;
  choices: Choice[];
  onChange: (value: string) => void;
}) {
  return (
    <label class="select">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A few choices of which one holds. */
export function Tabs({
  label,
  value,
  choices,
  onChange,
}: {
  label: string;
  value: string;
  choices: Choice[];
  onChange: (value: string) => void;
}) {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          onClick={() => onChange(choice.value)}
        >
          {choice.label}
        </button>
      ))}
    </div>
  );
}

/** Something to type elsewhere, with a button that copies it. */
export function Copied({ text }: { text: string }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      setDone(false); // no permission: the text is there to be marked by hand
    }
  };
  return (
    <div class="copied">
      <code tabIndex={0}>{text}</code>
      <button type="button" onClick={() => void copy()} aria-label={`Copy: ${text}`}>
        {isDone ? "Copied" : "Copy"}
      </button>
    </div>
  );
}

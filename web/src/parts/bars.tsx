import type { ComponentChildren } from "preact";

export interface Part {
  label: string;
  value: number;
  text?: string; // the value as it is said
  colour: string; // a CSS colour, as var(--series-1)
  pattern?: boolean; // hatched, where colour alone would not tell it from its neighbours
}

/** One bar of several parts, with a legend that says each in words. */
export function Bar({ parts, label, legend = true }: { parts: Part[]; label: string; legend?: boolean }) {
  const total = parts.reduce((sum, part) => sum + Math.max(0, part.value), 0);
  const said = parts.map((part) => `${part.label} ${part.text ?? part.value}`).join(", ");
  return (
    <div class="bar">
      <div class="bar-track" role="img" aria-label={`${label}: ${said}`}>
        {total > 0 &&
          parts
            .filter((part) => part.value > 0)
            .map((part) => (
              <span
                key={part.label}
                class={part.pattern ? "bar-part bar-hatched" : "bar-part"}
                style={{ width: `${(part.value / total) * 100}%`, backgroundColor: part.colour }}
                title={`${part.label}: ${part.text ?? part.value}`}
              />
            ))}
      </div>
      {legend && (
        <ul class="legend">
          {parts
            .filter((part) => part.value > 0)
            .map((part) => (
              <li key={part.label}>
                <span
                  class={part.pattern ? "swatch bar-hatched" : "swatch"}
                  style={{ backgroundColor: part.colour }}
                  aria-hidden="true"
                />
                {part.label} <b>{part.text ?? part.value}</b>
              </li>
            ))}
        </ul>
      )}
    </div>
  );
}

/** Rows of one figure each, longest first: who or what took most. */
export function Ranking({
  rows,
  most,
}: {
  rows: { key: string; label: ComponentChildren; value: number; text: string; note?: ComponentChildren; colour?: string }[];
  most?: number;
}) {
  const largest = most ?? Math.max(0, ...rows.map((row) => row.value));
  return (
    <ol class="ranking">
      {rows.map((row) => (
        <li key={row.key}>
          <span class="ranking-label">{row.label}</span>
          <span class="ranking-value">{row.text}</span>
          <span class="ranking-track" aria-hidden="true">
            <span
              style={{
                width: `${largest > 0 ? Math.max(0.5, (row.value / largest) * 100) : 0}%`,
                backgroundColor: row.colour ?? "var(--series-1)",
              }}
            />
          </span>
          {row.note !== undefined && <span class="ranking-note">{row.note}</span>}
        </li>
      ))}
    </ol>
  );
}

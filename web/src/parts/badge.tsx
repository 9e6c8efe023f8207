import type { ComponentChildren } from "preact";

export type Tone = "plain" | "good" | "info" | "warning" | "critical" | "muted";

const SIGNS: Record<Tone, string> = { plain: "", good: "✓", info: "i", warning: "▲", critical: "●", muted: "–" };

/** A sign and a word, so that it can be told without its colour. */
export function Badge({ tone = "plain", children }: { tone?: Tone; children?: ComponentChildren }) {
  return (
    <span class={`badge tone-${tone}`}>
      {SIGNS[tone] !== "" && (
        <span class="badge-sign" aria-hidden="true">
          {SIGNS[tone]}
        </span>
      )}
      {children}
    </span>
  );
}

export function severityTone(severity: string | null | undefined): Tone {
  switch (severity) {
    case "critical":
    case "page":
      return "critical";
    case "warning":
      return "warning";
    case "info":
      return "info";
    case undefined:
    case null:
    case "":
    case "ok":
      return "good";
    default:
      return "plain";
  }
}

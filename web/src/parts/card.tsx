import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Tone } from "./badge";

interface CardProps {
  title: string;
  note?: ComponentChildren;
  actions?: ComponentChildren;
  class?: string;
  children?: ComponentChildren;
}

export function Card({ title, note, actions, class: extra = "", children }: CardProps) {
  const id = useId();
  return (
    <section class={`card ${extra}`} aria-labelledby={id}>
      <header class="card-head">
        <h2 id={id}>{title}</h2>
        {note !== undefined && <span class="card-note">{note}</span>}
        {actions !== undefined && <span class="card-actions">{actions}</span>}
      </header>
      {children}
    </section>
  );
}

interface StatProps {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  tone?: Tone;
}

export function Stat({ label, value, note, tone = "plain" }: StatProps) {
  return (
    <div class={`stat tone-${tone}`}>
      <div class="stat-label">{label}</div>
      <div class="stat-value">{value}</div>
      {note !== undefined && <div class="stat-note">{note}</div>}
    </div>
  );
}

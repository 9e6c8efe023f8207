// Columns over time, each a stack of parts: what went into every hour or day.
import { useRef } from "preact/hooks";
import type { Part } from "./bars";
import "./stacks.css";

export interface Stack {
  key: string;
  label: string; // of its time
  tick: string; // the same, short; empty where the axis has no room
  parts: Part[];
  isOpen?: boolean; // not over yet
  untold?: string | undefined; // why it has no sum
}

/** Colours and hatching are those of the parts; their legend is the caller's, once for several pictures. */
export function Stacks({
  stacks,
  label,
  say,
  height = 180,
}: {
  stacks: Stack[];
  label: string;
  say: (value: number) => string;
  height?: number;
}) {
  const tip = useRef<HTMLDivElement>(null);
  const sums = stacks.map((stack) => stack.parts.reduce((sum, part) => sum + Math.max(0, part.value), 0));
  const top = niceAbove(Math.max(0, ...sums));
  const show = (event: MouseEvent, stack: Stack | null, total: number) => {
    const sum = stack?.untold ?? say(total);
    const element = tip.current;
    if (element === null) return;
    element.hidden = stack === null;
    if (stack === null) return;
    const parts = stack.parts.filter((part) => part.value > 0).map((part) => `${part.label}: ${part.text ?? say(part.value)}`);
    element.textContent = [`${stack.label}${stack.isOpen ? " (not over yet)" : ""}: ${sum}`, ...parts].join("\n");
    const box = element.parentElement?.getBoundingClientRect();
    if (box === undefined) return;
    const x = event.clientX - box.left;
    element.style.transform = `translate(${x > box.width / 2 ? x - element.offsetWidth - 12 : x + 12}px, 8px)`;
  };
  const largest = sums.indexOf(Math.max(...sums));
  const said = `${label}; most in ${stacks[largest]?.label ?? "none"} with ${say(sums[largest] ?? 0)}`;
  return (
    <div class="stacks">
      <div class="stacks-scale" aria-hidden="true" style={{ height: `${height}px` }}>
        <span>{say(top)}</span>
        <span>{say(top / 2)}</span>
        <span>0</span>
      </div>
      <div class="stacks-plot" role="img" aria-label={said} style={{ height: `${height}px` }}>
        {stacks.map((stack, i) => (
          <div
            key={stack.key}
            class={stack.untold === undefined ? "stacks-column" : "stacks-column is-untold"}
            onMouseMove={(event) => show(event, stack, sums[i] ?? 0)}
            onMouseLeave={(event) => show(event, null, 0)}
          >
            {stack.parts.map((part) =>
              part.value > 0 ? (
                <span
                  key={part.label}
                  class={part.pattern ? "bar-hatched" : ""}
                  style={{ height: `${(part.value / top) * 100}%`, backgroundColor: part.colour }}
                />
              ) : null,
            )}
          </div>
        ))}
        <div class="heat-tip" ref={tip} hidden />
      </div>
      <div class="stacks-ticks" aria-hidden="true">
        {stacks.map((stack) => (
          <span key={stack.key}>{stack.tick}</span>
        ))}
      </div>
    </div>
  );
}

/** The next number above that halves well. */
function niceAbove(value: number): number {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return size * ([1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * size >= value) ?? 10);
}

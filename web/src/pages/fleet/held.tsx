// Who held a GPU when: one lane for each that held it at the same time.
import { Link, workloadPath } from "../../core/route";
import { moment } from "../../format/time";
import type { Data } from "../../api/client";

export type Life = Data<"/api/gpus/{uuid}/life">;
type Held = Life["held"][number];

const COLOURS = 8;

export function HeldLanes({ life }: { life: Life }) {
  const { from_ms: fromMs, to_ms: toMs } = life;
  const share = (ms: number) => `${Math.min(100, Math.max(0, ((ms - fromMs) / (toMs - fromMs)) * 100))}%`;
  const colours = coloursOf(life.held);
  const lanes = lanesOf(life.held, toMs);
  if (lanes.length === 0) return <p class="soft">Nobody held it in this time.</p>;
  return (
    <div class="gpu-held">
      {lanes.map((lane, i) => (
        <div key={i} class="gpu-lane">
          {silencesOf(life).map(([a, b]) => (
            <span key={a} class="gpu-silent" title="It did not report" style={{ left: share(a), right: `calc(100% - ${share(b)})` }} />
          ))}
          {lane.map((one) => (
            <Span
              key={`${one.pod} ${one.from_ms}`}
              held={one}
              colour={colours.get(nameOf(one)) ?? "var(--series-7)"}
              left={share(one.from_ms)}
              right={`calc(100% - ${share(one.to_ms ?? toMs)})`}
            />
          ))}
        </div>
      ))}
    </div>
  );
}

function Span({ held, colour, left, right }: { held: Held; colour: string; left: string; right: string }) {
  const name = nameOf(held);
  const rank = held.rank === null ? "" : `, rank ${held.rank}`;
  const title = `${name}${rank}: ${moment(held.from_ms)} to ${held.to_ms === null ? "now" : moment(held.to_ms)}`;
  const style = { left, right, "--colour": colour } as Record<string, string>;
  return (
    <span class="gpu-span" style={style} title={title}>
      {held.workload === null ? name : <Link to={workloadPath(held.workload)}>{name}</Link>}
      {rank}
    </span>
  );
}

export function nameOf(held: Held): string {
  return held.workload?.name ?? held.pod;
}

function coloursOf(held: Held[]): Map<string, string> {
  const names = [...new Set(held.map(nameOf))];
  return new Map(names.map((name, i) => [name, `var(--series-${(i % COLOURS) + 1})`]));
}

/** Those that held it together stand below each other. */
function lanesOf(held: Held[], toMs: number): Held[][] {
  const lanes: Held[][] = [];
  for (const one of held) {
    const free = lanes.find((lane) => (lane.at(-1)?.to_ms ?? toMs) <= one.from_ms);
    if (free === undefined) lanes.push([one]);
    else free.push(one);
  }
  return lanes;
}

/** Between two times of reporting it was silent: reset, lost, or nobody asked it. */
export function silencesOf(life: Life): [number, number][] {
  const found: [number, number][] = [];
  const spans = [...life.reporting].sort((a, b) => a.from_ms - b.from_ms);
  let until = spans[0]?.from_ms ?? life.to_ms;
  for (const span of spans) {
    if (span.from_ms > until) found.push([Math.max(until, life.from_ms), span.from_ms]);
    until = Math.max(until, span.to_ms ?? life.to_ms);
  }
  if (until < life.to_ms) found.push([Math.max(until, life.from_ms), life.to_ms]);
  return found.filter(([a, b]) => b > a);
}

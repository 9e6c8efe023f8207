// The runs of an experiment, as the page speaks of them.
import type { Data } from "../../api/client";
import { money } from "../../format/money";
import { figure } from "../../format/numbers";
import type { Tone } from "../../parts/badge";

export type Experiment = Data<"/api/experiments">[number];
export type Run = Experiment["runs"][number];
export type Courses = Data<"/api/experiments/courses">;
export type Course = Courses["runs"][number];
export type Against = "money" | "hours" | "steps";

export const NAMELESS = "(without a name)"; // runs that name no experiment

export function keyOf(run: Run): string {
  const first = run.trackers[0];
  return run.run ?? (first === undefined ? (run.name ?? "") : `${first.system}/${first.run}`);
}

export function nameOf(run: Run): string {
  return run.name ?? run.run ?? run.trackers[0]?.run ?? "unknown";
}

export function amountOf(run: Run): number | null {
  return run.cost?.amount == null ? null : Number(run.cost.amount);
}

export function costText(run: Run): string {
  return run.cost?.amount == null ? "–" : money(run.cost.amount, run.cost.currency ?? undefined);
}

/** The best value where it is known, else the last that a tracker told. */
export function valueOf(run: Run): number | null {
  return run.metric?.best ?? run.metric?.final ?? null;
}

export function valueText(value: number | null | undefined): string {
  return value == null ? "–" : figure(value, 4);
}

/** The best of all, by the metric that they are compared by. */
export function bestOf(runs: Run[]): Run | null {
  const known = runs.filter((run) => valueOf(run) !== null);
  const first = known[0];
  if (first === undefined) return null;
  const sign = first.metric?.maximize ? -1 : 1;
  return known.reduce((best, run) => (sign * (valueOf(run) ?? 0) < sign * (valueOf(best) ?? 0) ? run : best), first);
}

export function stateTone(state: string | null): Tone {
  switch (state) {
    case "running":
      return "info";
    case "finished":
      return "good";
    case "stalled":
    case "lost":
      return "warning";
    case "failed":
    case "dead":
    case "crashed":
      return "critical";
    default:
      return "muted";
  }
}

/** Money where it is known, else time, else steps. */
export function bestAgainst(courses: Courses | undefined): Against {
  const runs = courses?.runs ?? [];
  if (runs.length === 0 || runs.some((course) => course.spent.length > 0)) return "money";
  return runs.some((course) => course.gpu_hours.length > 0) ? "hours" : "steps";
}

const COLOURS = 8;

export function colourOf(i: number): string {
  return `var(--series-${(i % COLOURS) + 1})`;
}

const DASHES = ["", "6 3", "2 3", "8 3 2 3"];

/** After eight colours the strokes differ. */
export function dashOf(i: number): string {
  return DASHES[Math.floor(i / COLOURS) % DASHES.length] ?? "";
}

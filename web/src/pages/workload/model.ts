// What the page asks, and what it makes of the answers.
import type { Data } from "../../api/client";
import { clock, duration } from "../../format/time";
import { count, rate } from "../../format/numbers";
import { severityTone, type Tone } from "../../parts/badge";
import type { ChartMark } from "../../parts/chart";
import { byGravity } from "../../parts/gravity";

export type Detail = Data<"/api/workloads/{cluster}/{namespace}/{kind}/{name}">;
export type Timeline = Data<"/api/workloads/{cluster}/{namespace}/{kind}/{name}/timeline">;
export type Ranks = Data<"/api/workloads/{cluster}/{namespace}/{kind}/{name}/ranks">;
export type Run = Data<"/api/runs">["runs"][number];
export type Trouble = Timeline["troubles"][number];
export type Whose = Pick<Detail["workload"], "kind" | "namespace" | "name">;
export type Mark = Timeline["platform"]["marks"][number];

export const SYNC = "workload"; // the name by which its charts share their cursor

/** The middle of each slot of the grid. */
export function timesOf(one: { from_ms: number; step_ms: number; points: number }): number[] {
  return Array.from({ length: one.points }, (_, i) => one.from_ms + (i + 0.5) * one.step_ms);
}

export function endOf(one: Timeline): number {
  return one.from_ms + one.points * one.step_ms;
}

/** Incidents, and findings that are in none of them. */
export function troublesOf(one: Timeline): Trouble[] {
  const incidents = one.troubles.filter((trouble) => trouble.what === "incident");
  const isTold = (finding: Trouble) =>
    incidents.some(
      (incident) =>
        incident.name === finding.name &&
        incident.from_ms <= (finding.to_ms ?? Infinity) &&
        finding.from_ms <= (incident.to_ms ?? Infinity),
    );
  const alone = one.troubles.filter((trouble) => trouble.what === "finding" && !isTold(trouble));
  return [...incidents, ...alone].sort((a, b) => a.from_ms - b.from_ms);
}

export function marksOf(one: Timeline): ChartMark[] {
  return troublesOf(one).map((trouble) => ({
    atMs: Math.max(trouble.from_ms, one.from_ms),
    toMs: trouble.to_ms ?? endOf(one),
    label: trouble.title,
    tone: severityTone(trouble.severity),
  }));
}

export interface Health {
  tone: Tone;
  word: string;
  sentence: string;
  trouble?: Trouble;
}

const STALE_S = 120;

/** One sentence that says how it is, from what is known; the gravest trouble that lasts comes first. `troubles` are
 *  those of now: as long as nobody has told of them, nothing is said to be well. */
export function healthOf(detail: Detail, run: Run | undefined, troubles: Trouble[] | undefined): Health {
  const open = (troubles ?? []).filter((one) => one.to_ms === null);
  open.sort((a, b) => byGravity(a, b) || Number(a.what === "finding") - Number(b.what === "finding") || a.from_ms - b.from_ms);
  const worst = open[0];
  const isKnown = troubles !== undefined;
  const found = isKnown ? "Nothing is found to be wrong." : "Whether anything is wrong is not known yet.";
  const { workload } = detail;
  if (workload.gone !== null) {
    const how = workload.gone.phase ?? "gone";
    const tone = how === "failed" ? "critical" : how === "succeeded" ? "good" : "muted";
    const reason = workload.gone.reason ? `: ${workload.gone.reason}` : "";
    return { tone, word: how, sentence: `It ended at ${clock(workload.gone.at_ms)} as ${how}${reason}.` };
  }
  if (worst !== undefined) {
    return { tone: severityTone(worst.severity), word: worst.severity, sentence: worst.title, trouble: worst };
  }
  if (run?.state === "stalled") {
    return { tone: "critical", word: "stalled", sentence: `No step since ${clock(run.since_ms)}.` };
  }
  if (run?.state === "failed") {
    return { tone: "critical", word: "failed", sentence: run.error ?? "Its program failed." };
  }
  if (run?.state === "running" && run.step !== null) {
    const pace = run.step_seconds === null ? "" : `, a step every ${duration(run.step_seconds)}`;
    const goes = run.samples_per_second === null ? "" : `, ${rate(run.samples_per_second, "samples")}`;
    return {
      tone: isKnown ? "good" : "muted",
      word: isKnown ? "healthy" : "running",
      sentence: `It trains: step ${count(run.step)}${pace}${goes}. ${found}`,
    };
  }
  const phase = workload.phase;
  if (phase === null) return { tone: "muted", word: "unknown", sentence: "Nothing is known of what it is at." };
  if (phase.phase === "running") {
    return { tone: isKnown ? "good" : "muted", word: "running", sentence: `It has run for ${duration(phase.seconds)}. ${found}` };
  }
  const reason = phase.reason ? `: ${phase.reason}` : "";
  return {
    tone: phase.seconds > STALE_S ? "warning" : "info",
    word: phase.phase,
    sentence: `It has been ${phase.phase} for ${duration(phase.seconds)}${reason}.`,
  };
}

// What is said of a GPU beside its name.
import { celsius, percent, watts } from "../../format/numbers";
import { findingOf, holderOf, type Fleet } from "./gpus";

const STATES: Record<string, string> = {
  silent: "held by a pod, and does not report",
  lost: "its node should have it, and it does not report",
  blind: "no GPU of this node reports: its exporter may be what is missing",
};

export function tellOf(fleet: Fleet, gpu: number): string[] {
  const { gpus, nodes } = fleet;
  const lines: string[] = [];
  const state = STATES[gpus.state[gpu] ?? ""];
  if (state !== undefined) lines.push(state);
  const node = gpus.node[gpu] ?? -1;
  const of = nodes.state[node];
  if (of === "cordoned" || of === "not-ready") {
    const reason = nodes.reason[node];
    lines.push(`node is ${of === "cordoned" ? "cordoned" : "not ready"}${reason == null ? "" : `: ${reason}`}`);
  }
  const finding = findingOf(fleet, gpu);
  if (finding !== null) lines.push(finding.text);
  lines.push(...readingsOf(fleet, gpu));
  const holder = holderOf(fleet, gpu);
  if (holder !== null) {
    lines.push(`held by ${holder.namespace}/${holder.name}${holder.team === null ? "" : ` (${holder.team})`}`);
    if (holder.health_text !== null && holder.health_text !== finding?.text) lines.push(holder.health_text);
  } else {
    const holders = gpus.holders[gpu] ?? 0;
    lines.push(holders === 0 ? "free" : holders === 1 ? "held by something that is in no workload" : `shared by ${holders}`);
  }
  const model = gpus.model[gpu];
  if (model != null) lines.push(fleet.models[model] ?? "");
  return lines;
}

function readingsOf({ gpus }: Fleet, gpu: number): string[] {
  const known = [
    said(gpus.utilization[gpu], (value) => `${percent(value)} busy`),
    said(gpus.temperature_celsius[gpu], celsius),
    said(gpus.power_watts[gpu], watts),
    said(gpus.memory_used[gpu], (value) => `memory ${percent(value)}`),
  ].filter((one) => one !== "");
  return known.length === 0 ? [] : [known.join(" · ")];
}

function said(value: number | null | undefined, as: (value: number) => string): string {
  return value == null ? "" : as(value);
}

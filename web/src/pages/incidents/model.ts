// What the pages of incidents and alerts say in words.
import type { components } from "../../api/schema";
import { workloadPath } from "../../core/route";
import { money } from "../../format/money";
import { plural } from "../../format/numbers";
import { duration } from "../../format/time";

export type Incident = components["schemas"]["IncidentAnswer"];
export type Symptom = components["schemas"]["SymptomAnswer"];
export type Finding = components["schemas"]["FindingAnswer"];
export type Silence = components["schemas"]["SilenceAnswer"];
export type Receiver = components["schemas"]["ReceiverAnswer"];

const CENT = 0.01;

export function isOpen(incident: Incident): boolean {
  return incident.resolved_ms === null;
}

export function lasted(incident: Incident, nowMs = Date.now()): string {
  return duration(((incident.resolved_ms ?? nowMs) - incident.onset_ms) / 1000);
}

/** "$1,638", or several where currencies differ; empty where nothing is known to be lost. */
export function lostOf(incidents: Incident[]): string {
  const sums = new Map<string, number>();
  for (const { lost, currency } of incidents) {
    if (lost !== null && currency !== null) sums.set(currency, (sums.get(currency) ?? 0) + Number(lost));
  }
  return [...sums]
    .filter(([, sum]) => sum >= CENT)
    .map(([currency, sum]) => money(sum, currency))
    .join(" and ");
}

export function headline(incidents: Incident[]): string {
  const open = incidents.filter(isOpen);
  const lost = lostOf(open);
  if (open.length === 0) {
    const before = lostOf(incidents);
    return incidents.length === 0
      ? "Nothing is wrong, and nothing was."
      : `Nothing is wrong now. ${plural(incidents.length, "incident is", "incidents are")} over${before ? `, which cost ${before}` : ""}.`;
  }
  const critical = open.filter((one) => one.severity === "critical").length;
  const grave = critical > 0 && critical < open.length ? ` (${critical} critical)` : "";
  const cost = lost ? `, and ${open.length === 1 ? "has" : "have"} cost ${lost} so far` : "";
  return `${plural(open.length, "incident is", "incidents are")} open${grave}${cost}.`;
}

/** Everybody's teams and nodes that an incident touches. */
export function teamsOf(incident: Incident): string[] {
  return distinct(incident.symptoms.map((one) => one.subject.team));
}

export function nodesOf(incident: Incident): string[] {
  return distinct([incident.subject.node, ...incident.symptoms.map((one) => one.subject.node)]);
}

export function distinct(values: (string | null)[]): string[] {
  return [...new Set(values.filter((one): one is string => one !== null && one !== ""))].sort();
}

export interface Suffering {
  name: string;
  namespace: string;
  path: string | null; // null where the cluster is not known
}

/** NAMESPACE/KIND/NAME, as an incident names them, with where they are. */
export function sufferingOf(incident: Incident): Suffering[] {
  const clusters = new Map<string, string>();
  for (const { subject } of [incident, ...incident.symptoms]) {
    const one = subject.workload;
    if (one !== null) clusters.set(`${one.namespace}/${one.kind}/${one.name}`, one.cluster);
  }
  return incident.workloads.map((written) => {
    const [namespace = "", kind = "", ...rest] = written.split("/");
    const name = rest.join("/");
    const cluster = clusters.get(written) ?? incident.subject.cluster;
    return { name, namespace, path: cluster === null ? null : workloadPath({ cluster, namespace, kind, name }) };
  });
}

/** Commands that a text names in backticks. */
export function commandsIn(text: string): string[] {
  return [...text.matchAll(/`(trilens [^`]+|kubectl [^`]+|nvidia-smi[^`]*)`/g)].flatMap((found) => found[1] ?? []);
}

/** Labels by which a silence of this incident is made: as narrow as its root. */
export function matchersOf(incident: Incident): string[] {
  const { subject, symptoms } = incident;
  const root = symptoms[0];
  const found: string[] = [];
  if (root !== undefined) found.push(root.kind === "finding" ? `code="${root.name}"` : `alertname="${root.name}"`);
  if (subject.workload !== null) {
    found.push(`namespace="${subject.workload.namespace}"`, `workload="${subject.workload.name}"`);
  } else if (subject.node !== null) found.push(`node="${subject.node}"`);
  return found;
}

const NAME = "trilens-name";

/** Who acts here: asked once, and kept in this browser. */
export function ownName(): string {
  return localStorage.getItem(NAME) ?? "";
}

export function keepName(name: string): void {
  localStorage.setItem(NAME, name);
}

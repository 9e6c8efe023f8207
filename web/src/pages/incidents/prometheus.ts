// Rules and alerts as Prometheus's API tells them, which is not in our schema.
import { getPrometheus } from "../../api/client";

export interface Alert {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  state: "pending" | "firing";
  activeAt: string;
  value: string;
}

export interface Rule {
  name: string;
  query: string;
  labels: Record<string, string>;
  health: string;
  lastError?: string;
  state: "inactive" | "pending" | "firing";
  duration: number;
  annotations: Record<string, string>;
  blind?: { missing: string[]; inputs: string[]; remedy: string };
}

export interface RuleGroup {
  name: string;
  file: string;
  rules: Rule[];
}

export function askAlerts(signal: AbortSignal) {
  return getPrometheus<{ alerts: Alert[] }>("/api/v1/alerts", {}, signal);
}

export function askRules(signal: AbortSignal) {
  return getPrometheus<{ groups: RuleGroup[] }>("/api/v1/rules", { type: "alert", exclude_alerts: "true" }, signal);
}

const NAMES = ["workload", "service", "job_name", "run", "pod", "node", "UUID", "job"];

/** Whom an alert is about: the first two of the labels that name somebody. */
export function subjectOf(labels: Record<string, string>): string {
  const named = NAMES.flatMap((name) => labels[name] || []).slice(0, 2);
  return [...new Set(named)].join(" · ");
}

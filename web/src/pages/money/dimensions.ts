// What cost can be divided by, and how the parts are called.
import type { components } from "../../api/schema";
import { moment } from "../../format/time";
import { bucketOf } from "./buckets";

export type Key = components["schemas"]["CostLine"]["keys"][string];
type Workload = components["schemas"]["WorkloadName"];

const FLEET = "(fleet)"; // as the server writes what nobody held

export const dimensions = [
  { value: "team", label: "team" },
  { value: "bucket", label: "what it went to" },
  { value: "cause", label: "cause" },
  { value: "workload", label: "workload" },
  { value: "run", label: "run" },
  { value: "experiment", label: "experiment" },
  { value: "namespace", label: "namespace" },
  { value: "cost-centre", label: "cost centre" },
  { value: "queue", label: "queue" },
  { value: "cluster", label: "cluster" },
  { value: "node", label: "node" },
  { value: "gpu", label: "GPU" },
  { value: "gpu-model", label: "GPU model" },
  { value: "purchase", label: "purchase" },
  { value: "region", label: "region" },
  { value: "hour", label: "hour" },
  { value: "day", label: "day (UTC)" },
  { value: "basis", label: "how it is known" },
];

export function dimensionLabel(name: string): string {
  return dimensions.find((one) => one.value === name)?.label ?? name;
}

export function isWorkload(key: Key): key is Workload {
  return typeof key === "object" && key !== null;
}

export function keyLabel(dimension: string, key: Key): string {
  if (key === null) return `no ${dimensionLabel(dimension)} known`;
  if (isWorkload(key)) return key.name;
  if (key === FLEET) return "nobody (free or broken)";
  if (dimension === "bucket") return bucketOf(String(key)).label;
  if (dimension === "hour") return moment(Number(key));
  if (dimension === "day") return new Date(Number(key)).toISOString().slice(0, 10);
  return String(key).replaceAll("_", " ");
}

/** As `where` takes it; null where a part cannot be asked for alone. */
export function whereOf(dimension: string, key: Key): string | null {
  if (dimension === "hour" || dimension === "day" || key === FLEET) return null;
  if (key === null) return `${dimension}=`;
  if (isWorkload(key)) return `${dimension}=${[key.cluster, key.namespace, key.kind, key.name].join("/")}`;
  return `${dimension}=${key}`;
}

export function textOf(key: Key): string {
  return isWorkload(key) ? [key.cluster, key.namespace, key.kind, key.name].join("/") : String(key ?? "");
}

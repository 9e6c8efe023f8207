// The fleet's columns, and what can be asked of one GPU of them.
import type { Data } from "../../api/client";

export type Fleet = Data<"/api/fleet">;

export type Grouping = "rack" | "model" | "cluster" | "none";

export interface Group {
  title: string;
  nodes: { node: number; gpus: number[] }[];
  gpus: number; // devices
}

export function nodeName(fleet: Fleet, gpu: number): string {
  return fleet.nodes.name[fleet.gpus.node[gpu] ?? -1] ?? "";
}

export function gpuName(fleet: Fleet, gpu: number): string {
  const number = fleet.gpus.number[gpu];
  const part = fleet.gpus.instance[gpu];
  return `${number == null ? "A GPU" : `GPU ${number}`}${part == null ? "" : `, instance ${part}`} of ${nodeName(fleet, gpu)}`;
}

/** Rows that are a device each: of one that MIG divides, the first instance stands for it. */
export function devicesOf(fleet: Fleet, rows: Iterable<number>): number[] {
  const known = new Set<string>();
  const found: number[] = [];
  for (const gpu of rows) {
    const uuid = fleet.gpus.uuid[gpu];
    if (uuid != null && fleet.gpus.instance[gpu] != null) {
      if (known.has(uuid)) continue;
      known.add(uuid);
    }
    found.push(gpu);
  }
  return found;
}

export function holderOf(fleet: Fleet, gpu: number) {
  const at = fleet.gpus.workload[gpu];
  return at == null ? null : (fleet.workloads[at] ?? null);
}

export function findingOf(fleet: Fleet, gpu: number) {
  const at = fleet.gpus.finding[gpu];
  return at == null ? null : (fleet.findings[at] ?? null);
}

/** Nodes with their GPUs, by what they have in common. Answers come by cluster, node and number. */
export function groupsOf(fleet: Fleet, by: Grouping): Group[] {
  const { nodes } = fleet;
  const ofNode: number[][] = nodes.name.map(() => []);
  for (const [gpu, node] of fleet.gpus.node.entries()) ofNode[node]?.push(gpu);
  const several = new Set(nodes.cluster).size > 1;
  const groups = new Map<string, Group>();
  for (const [node, gpus] of ofNode.entries()) {
    if (gpus.length === 0) continue;
    const title = titleOf(fleet, node, by, several);
    let group = groups.get(title);
    if (group === undefined) groups.set(title, (group = { title, nodes: [], gpus: 0 }));
    group.nodes.push({ node, gpus });
    group.gpus += devicesOf(fleet, gpus).length;
  }
  const isUnknown = (group: Group) => Number(group.title.endsWith("unknown"));
  return [...groups.values()].sort(
    (a, b) => isUnknown(a) - isUnknown(b) || a.title.localeCompare(b.title, undefined, { numeric: true }),
  );
}

function titleOf(fleet: Fleet, node: number, by: Grouping, several: boolean): string {
  const { nodes } = fleet;
  const cluster = nodes.cluster[node] || "no cluster";
  const within = several && by !== "cluster" && by !== "none" ? `${cluster} · ` : "";
  if (by === "rack") return within + (nodes.rack[node] ?? "rack unknown");
  if (by === "model") return within + (nodes.model[node] ?? "model unknown");
  return by === "cluster" ? cluster : "";
}

/** Which GPUs a search means: by node, holder, team, model or uuid; null where all are meant. */
export function meant(fleet: Fleet, q: string): boolean[] | null {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  return fleet.gpus.node.map((node, gpu) => {
    const holder = holderOf(fleet, gpu);
    const model = fleet.gpus.model[gpu];
    const text = [
      fleet.nodes.name[node],
      fleet.nodes.rack[node],
      fleet.nodes.cluster[node],
      fleet.gpus.uuid[gpu],
      model == null ? "" : fleet.models[model],
      fleet.gpus.state[gpu],
      holder === null ? "" : `${holder.namespace} ${holder.name} ${holder.team ?? ""}`,
    ]
      .join(" ")
      .toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

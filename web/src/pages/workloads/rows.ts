// The table's columns as rows, and what of them is shown.
import type { Data } from "../../api/client";

export type Columns = Data<"/api/workload-table">;

export interface Row {
  key: string;
  cluster: string;
  namespace: string;
  kind: string;
  name: string;
  team: string | null;
  phase: string | null;
  sinceMs: number | null;
  goneMs: number | null;
  gpus: number;
  health: string | null;
  healthText: string | null;
  incident: string | null;
  goodput: number | null;
  cost: number | null;
  perHour: number | null;
  run: string | null;
  runName: string | null;
  step: number | null;
  totalSteps: number | null;
  secondsLeft: number | null;
  text: string; // what a search looks through
}

export function rowsOf(table: Columns): Row[] {
  return table.name.map((name, i) => {
    const row = {
      cluster: table.cluster[i] ?? "",
      namespace: table.namespace[i] ?? "",
      kind: table.kind[i] ?? "",
      name,
      team: table.team[i] ?? null,
      phase: table.phase[i] ?? null,
      sinceMs: table.since_ms[i] ?? null,
      goneMs: table.gone_ms[i] ?? null,
      gpus: table.gpus[i] ?? 0,
      health: table.health[i] ?? null,
      healthText: table.health_text[i] ?? null,
      incident: table.incident[i] ?? null,
      goodput: table.goodput[i] ?? null,
      cost: table.cost[i] ?? null,
      perHour: table.cost_per_hour[i] ?? null,
      run: table.run[i] ?? null,
      runName: table.run_name[i] ?? null,
      step: table.step[i] ?? null,
      totalSteps: table.total_steps[i] ?? null,
      secondsLeft: table.seconds_left[i] ?? null,
    };
    const words = [name, row.namespace, row.kind, row.team, row.cluster, row.runName, row.run, row.healthText];
    return {
      ...row,
      key: [row.cluster, row.namespace, row.kind, name, row.run, row.goneMs].join("/"),
      text: words.join(" ").toLowerCase(),
    };
  });
}

export interface Filters {
  q: string;
  team: string;
  phase: string;
  health: string;
  cluster: string;
}

export const NO_TEAM = "(none)";

export function kept(rows: Row[], { q, team, phase, health, cluster }: Filters): Row[] {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(
    (row) =>
      (team === "" || (row.team ?? NO_TEAM) === team) &&
      (phase === "" || row.phase === phase) &&
      (health === "" || (health === "trouble" ? isInTrouble(row) : row.health === health)) &&
      (cluster === "" || row.cluster === cluster) &&
      words.every((word) => row.text.includes(word)),
  );
}

export function isInTrouble(row: Row): boolean {
  return row.health === "critical" || row.health === "warning";
}

export interface Sums {
  workloads: number;
  gpus: number;
  perHour: number | null; // null where none of them has a price
  unpriced: number; // workloads with GPUs whose price nobody knows
  trouble: number;
  troubled: number | null; // money an hour of those
}

export function sumsOf(rows: Row[]): Sums {
  const sums: Sums = { workloads: rows.length, gpus: 0, perHour: null, unpriced: 0, trouble: 0, troubled: null };
  for (const row of rows) {
    sums.gpus += row.gpus;
    sums.perHour = plus(sums.perHour, row.perHour);
    if (row.gpus > 0 && row.perHour === null) sums.unpriced += 1;
    if (isInTrouble(row)) {
      sums.trouble += 1;
      sums.troubled = plus(sums.troubled, row.perHour);
    }
  }
  return sums;
}

function plus(sum: number | null, one: number | null): number | null {
  return one === null ? sum : (sum ?? 0) + one;
}

/** The values that rows have, the commonest first, as choices of a filter. */
export function choicesOf(rows: Row[], of: (row: Row) => string | null, every: string) {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const value = of(row);
    if (value !== null && value !== "") counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const found = [...counts].sort(([a, n], [b, m]) => m - n || a.localeCompare(b));
  return [{ value: "", label: every }, ...found.map(([value, n]) => ({ value, label: `${value} (${n.toLocaleString("en-US")})` }))];
}

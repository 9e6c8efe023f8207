// Who money went to, and over what time, as a person says it.
import { Link, workloadPath, type Range } from "../../core/route";
import { moment } from "../../format/time";
import type { components } from "../../api/schema";

type Schemas = components["schemas"];
export type Cause = Schemas["CauseAnswer"];
export type NowAnswer = Schemas["NowPageAnswer"];
export type Workload = Schemas["WorkloadName"];

export function WorkloadLink({ workload }: { workload: Workload }) {
  return <Link to={workloadPath(workload)}>{workload.name}</Link>;
}

/** A team's or the fleet's name; a workload as a link to its page. */
export function Whose({
  workload,
  team,
  isFleet,
}: {
  workload: Workload | null;
  team: string | null;
  isFleet: boolean;
}) {
  if (workload !== null) return <WorkloadLink workload={workload} />;
  if (isFleet) return <>Nobody (free or broken)</>;
  return <>{team ?? "No team known"}</>;
}

/** "stalled at step 8,320 since 01:12": the server has it without the time, which is of the viewer's zone. */
export function happened(cause: Cause): string {
  const times = cause.times > 1 ? `, ${cause.times.toLocaleString("en-US")} times` : "";
  const since = cause.since_ms !== null && cause.bucket !== "recompute" ? ` since ${moment(cause.since_ms)}` : "";
  return `${cause.what}${times}${since}`;
}

const LONG: Record<string, string> = { m: "minutes", h: "hours", d: "days", w: "weeks" };

/** "in the last 12 hours", or between which moments. */
export function spanText(range: Range): string {
  if (!range.isLive) return `between ${moment(range.fromMs)} and ${moment(range.toMs)}`;
  const found = /^(\d+)([mhdw])$/.exec(range.text);
  const [, many, unit] = found ?? [];
  if (many === undefined || unit === undefined) return `in the last ${range.text}`;
  const name = LONG[unit] ?? unit;
  return many === "1" ? `in the last ${name.slice(0, -1)}` : `in the last ${many} ${name}`;
}

const HOUR_MS = 3_600_000;

/** The ledger has whole hours: those that lie in the span, and the one that runs. In seconds, as it is asked. */
export function wholeHours(range: Range): { from: number; to: number } {
  const toMs = Math.ceil(range.toMs / HOUR_MS) * HOUR_MS;
  const fromMs = Math.min(Math.ceil(range.fromMs / HOUR_MS) * HOUR_MS, toMs - HOUR_MS);
  return { from: fromMs / 1000, to: toMs / 1000 };
}

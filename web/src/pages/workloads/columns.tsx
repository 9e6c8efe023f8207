// What the table shows of a workload.
import { Link, workloadPath } from "../../core/route";
import { withoutName } from "../../format/names";
import { money, perHour } from "../../format/money";
import { count, percent } from "../../format/numbers";
import { duration, fullMoment } from "../../format/time";
import { Badge, severityTone, type Tone } from "../../parts/badge";
import { gravityOf } from "../../parts/gravity";
import type { Column } from "../../parts/table";
import type { Row } from "./rows";

const UNKNOWN = "–";

export function columnsOf(currency: string): Column<Row>[] {
  return [
    { key: "name", title: "Workload", cell: (row) => <Name row={row} />, sort: (row) => row.name },
    {
      key: "health",
      title: "Health",
      cell: (row) => <Health row={row} />,
      // Of those that are as ill, the dearest first.
      sort: (row) => (row.health === null ? null : (row.perHour ?? 0) - gravityOf(row.health) * 1e9),
    },
    { key: "team", title: "Team", cell: (row) => row.team ?? UNKNOWN, sort: (row) => row.team, isWide: true },
    { key: "phase", title: "Phase", cell: (row) => <Phase row={row} />, sort: (row) => row.phase, isWide: true },
    {
      key: "for",
      title: "For",
      align: "end",
      help: "How long it is in this phase",
      cell: (row) => <Lasts row={row} />,
      sort: lastsMs,
      isWide: true,
    },
    {
      key: "gpus",
      title: "GPUs",
      align: "end",
      cell: (row) => (row.gpus > 0 ? count(row.gpus) : UNKNOWN),
      sort: (row) => row.gpus,
    },
    {
      key: "goodput",
      title: "Goodput",
      align: "end",
      help: "The useful share of its GPU time of the last 24 hours",
      cell: (row) => <Goodput share={row.goodput} />,
      sort: (row) => row.goodput,
      isWide: true,
    },
    {
      key: "rate",
      title: "Per hour",
      align: "end",
      help: "What its GPUs cost an hour now",
      cell: (row) => (row.perHour === null ? UNKNOWN : perHour(row.perHour, currency).replace("/h", "")),
      sort: (row) => row.perHour,
    },
    {
      key: "cost",
      title: "Cost, 30 d",
      align: "end",
      help: "What it has cost in the last 30 days",
      cell: (row) => (row.cost === null ? UNKNOWN : money(row.cost, currency)),
      sort: (row) => row.cost,
      isWide: true,
    },
    {
      key: "progress",
      title: "Progress",
      help: "Steps done of all its steps",
      cell: (row) => <Progress row={row} />,
      sort: progressOf,
      isWide: true,
    },
    {
      key: "left",
      title: "Time left",
      align: "end",
      help: "If it goes on as its last steps did",
      cell: (row) => <Left seconds={row.secondsLeft} />,
      sort: (row) => row.secondsLeft,
      isWide: true,
    },
  ];
}

function Name({ row }: { row: Row }) {
  const where = [row.namespace, row.kind].filter(Boolean).join(" · ");
  const title = row.runName !== null && row.runName !== row.name ? `Run ${row.runName}` : undefined;
  return (
    <span class="wl-name" title={title}>
      {row.cluster === "" ? (
        <Link to="/experiments" params={{ runs: row.run ?? "" }}>
          {row.name}
        </Link>
      ) : (
        <Link to={workloadPath(row)}>{row.name}</Link>
      )}{" "}
      <small class="soft">{where}</small>
    </span>
  );
}

function Health({ row }: { row: Row }) {
  if (row.health === null) return <span class="soft">gone</span>;
  if (row.health === "ok") return <span class="soft">✓ ok</span>;
  const said = withoutName(row.healthText ?? "", row);
  return (
    <span class="wl-health" title={row.healthText ?? ""}>
      <Badge tone={severityTone(row.health)}>{row.health}</Badge>
      {said !== "" &&
        (row.incident === null ? (
          <span class="wl-said">{said}</span>
        ) : (
          <Link class="wl-said" to={`/incidents/${encodeURIComponent(row.incident)}`}>
            {said}
          </Link>
        ))}
    </span>
  );
}

const PHASES: Record<string, Tone> = {
  failed: "critical",
  restarting: "warning",
  preempted: "warning",
  evicted: "warning",
  "spot-reclaimed": "warning",
};

function Phase({ row }: { row: Row }) {
  if (row.phase === null) return <>{UNKNOWN}</>;
  const tone = PHASES[row.phase];
  return tone === undefined ? <>{row.phase}</> : <Badge tone={tone}>{row.phase}</Badge>;
}

function lastsMs(row: Row): number | null {
  return row.sinceMs === null ? null : (row.goneMs ?? Date.now()) - row.sinceMs;
}

function Lasts({ row }: { row: Row }) {
  const ms = lastsMs(row);
  if (ms === null || row.sinceMs === null) return <>{UNKNOWN}</>;
  return <span title={`${duration(ms / 1000)}, since ${fullMoment(row.sinceMs)}`}>{roughly(ms)}</span>;
}

function Left({ seconds }: { seconds: number | null }) {
  if (seconds === null) return <>{UNKNOWN}</>;
  return <span title={duration(seconds)}>{roughly(seconds * 1000)}</span>;
}

const MINUTE_MS = 60_000;

/** In its largest unit: enough to tell an hour from a week. */
function roughly(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / MINUTE_MS));
  if (minutes < 100) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} d`;
}

const LITTLE = 0.5;

function Goodput({ share }: { share: number | null }) {
  if (share === null) return <>{UNKNOWN}</>;
  return <span class={share < LITTLE ? "wl-little" : ""}>{percent(share)}</span>;
}

function progressOf(row: Row): number | null {
  return row.step === null || !row.totalSteps ? null : Math.min(1, row.step / row.totalSteps);
}

function Progress({ row }: { row: Row }) {
  const share = progressOf(row);
  if (row.step === null) return <>{UNKNOWN}</>;
  if (share === null) return <span class="soft">step {count(row.step)}</span>;
  return (
    <span class="wl-progress" title={`step ${count(row.step)} of ${count(row.totalSteps)}`}>
      <span class="wl-track" aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      {percent(share)}
    </span>
  );
}

// The runs of an experiment, each with what it reached and what it cost.
import { useMemo } from "preact/hooks";
import { useParam } from "../../core/route";
import { money } from "../../format/money";
import { count, figure, percent } from "../../format/numbers";
import { Badge } from "../../parts/badge";
import { Table, type Column } from "../../parts/table";
import { Time } from "../../parts/time";
import { amountOf, colourOf, costText, dashOf, keyOf, nameOf, stateTone, valueOf, valueText, type Run } from "./model";

interface RunTableProps {
  runs: Run[];
  metric: string | null;
  chosen: Set<string>;
  onChoose: (key: string) => void;
}

export function RunTable({ runs, metric, chosen, onChoose }: RunTableProps) {
  const [sort, setSort] = useParam("sort", "best");
  const columns = useMemo((): Column<Run>[] => {
    const places = new Map(runs.map((run, i) => [keyOf(run), i]));
    const sign = runs.some((run) => run.metric?.maximize) ? -1 : 1;
    return [
      {
        key: "name",
        title: "Run",
        sort: nameOf,
        cell: (run) => <Name run={run} place={places.get(keyOf(run)) ?? 0} chosen={chosen} onChoose={onChoose} />,
      },
      {
        key: "state",
        title: "State",
        sort: (run) => run.state,
        cell: (run) => <Badge tone={stateTone(run.state)}>{run.state ?? "unknown"}</Badge>,
      },
      {
        key: "best",
        title: `Best ${metric ?? "value"}`,
        align: "end",
        help: "best first",
        sort: (run) => scaled(valueOf(run), sign),
        cell: (run) => (
          <>
            <b>{valueText(valueOf(run))}</b>
            {run.metric?.best_step != null && <span class="soft"> at {count(run.metric.best_step)}</span>}
          </>
        ),
      },
      {
        key: "cost",
        title: "Cost",
        align: "end",
        sort: amountOf,
        cell: (run) => <span title={doubtful(run)}>{costText(run)}</span>,
      },
      {
        key: "hours",
        title: "GPU-hours",
        align: "end",
        isWide: true,
        sort: (run) => run.gpu_hours,
        cell: (run) => (run.gpu_hours === null ? "–" : figure(run.gpu_hours)),
      },
      { key: "step", title: "Step", align: "end", sort: (run) => run.step, cell: (run) => (run.step === null ? "–" : count(run.step)) },
      {
        key: "goodput",
        title: "Goodput",
        align: "end",
        isWide: true,
        help: "the share of its GPU time that was work",
        sort: (run) => run.cost?.goodput,
        cell: (run) => (run.cost?.goodput == null ? "–" : percent(run.cost.goodput)),
      },
      {
        key: "busy",
        title: "GPUs busy",
        align: "end",
        isWide: true,
        sort: (run) => run.utilization,
        cell: (run) => (run.utilization === null ? "–" : percent(run.utilization)),
      },
      {
        key: "stopped",
        title: "Stopped improving",
        isWide: true,
        help: "and what was spent after that",
        sort: (run) => (run.stopped?.cost?.amount == null ? run.stopped?.step : Number(run.stopped.cost.amount)),
        cell: (run) => <Stopped run={run} />,
      },
      {
        key: "started",
        title: "Started",
        isWide: true,
        sort: (run) => run.started_ms,
        cell: (run) => (run.started_ms === null ? "–" : <Time ms={run.started_ms} />),
      },
      {
        key: "from",
        title: "Told by",
        isWide: true,
        cell: (run) => [run.run === null ? "" : "SDK", ...run.trackers.map((one) => one.system)].filter(Boolean).join(", "),
      },
    ];
  }, [runs, metric, chosen, onChoose]);
  return (
    <Table
      label="Runs"
      columns={columns}
      rows={runs}
      rowKey={keyOf}
      sort={sort}
      onSort={setSort}
      onOpen={(run) => onChoose(keyOf(run))}
    />
  );
}

function scaled(value: number | null, sign: number): number | null {
  return value === null ? null : sign * value;
}

function Name({ run, place, chosen, onChoose }: { run: Run; place: number; chosen: Set<string>; onChoose: (key: string) => void }) {
  const key = keyOf(run);
  return (
    <label class="run-name">
      <input type="checkbox" checked={chosen.has(key)} onChange={() => onChoose(key)} />
      <svg width="16" height="8" aria-hidden="true">
        <line x1="0" y1="4" x2="16" y2="4" stroke={colourOf(place)} stroke-width="3" stroke-dasharray={dashOf(place)} />
      </svg>
      <span title={run.run ?? undefined}>{nameOf(run)}</span>
      {run.on_front && (
        <span class="run-front" title="No other run is as good and as cheap">
          <span aria-hidden="true">◆</span>
          <span class="hidden">on the Pareto front</span>
        </span>
      )}
    </label>
  );
}

function Stopped({ run }: { run: Run }) {
  const { stopped } = run;
  if (stopped === null) return <span class="soft">–</span>;
  const after = stopped.cost?.amount;
  return (
    <span title={`No value after it was better by more than ${percent(stopped.least_gain)}`}>
      at step {count(stopped.step)}
      {after != null && Number(after) > 0 && (
        <>
          , <b class="run-wasted">{money(after, stopped.cost?.currency ?? undefined)}</b> after it
        </>
      )}
    </span>
  );
}

function doubtful(run: Run): string | undefined {
  if (run.cost === null) return "The ledger does not have the whole run";
  return run.cost.unpriced_gpu_ms > 0 ? "A part of its GPU time has no price" : undefined;
}

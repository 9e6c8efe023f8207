// From a point on the loss curve to what went into it: the batches of one step, rank by rank.
import { get, type Data } from "../../api/client";
import { useAnswer } from "../../api/use";
import { count, figure } from "../../format/numbers";
import { duration } from "../../format/time";
import { Badge } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Shown } from "../../parts/states";
import { Table, type Column } from "../../parts/table";
import { Time } from "../../parts/time";

type Step = Data<"/api/runs/{run}/steps/{step}">;
type OfRank = Step["ranks"][number];
type Batch = OfRank["batches"][number];

export function StepOfRun({ run, step, onClose }: { run: string; step: string; onClose: () => void }) {
  const live = useAnswer(`step ${run} ${step}`, (signal) => get("/api/runs/{run}/steps/{step}", { path: { run, step } }, signal));
  return (
    <Card
      title={`Step ${step}`}
      note="what each rank saw in it"
      actions={
        <button type="button" onClick={onClose}>
          Close
        </button>
      }
    >
      <Shown live={live} what="Looking the step up" isNamed>
        {(found) => (
          <>
            <p>
              <Sum ranks={found.ranks} />
            </p>
            <Table label={`Ranks in step ${step}`} columns={COLUMNS} rows={found.ranks} rowKey={(one) => `${one.rank}/${one.attempt}`} maxHeight="22rem" />
            {found.next !== null && <p class="soft">The first {count(found.ranks.length)} ranks are listed.</p>}
          </>
        )}
      </Shown>
    </Card>
  );
}

function Sum({ ranks }: { ranks: OfRank[] }) {
  const samples = ranks.reduce((sum, one) => sum + (one.samples ?? 0), 0);
  const datasets = [...new Set(ranks.flatMap((one) => one.batches.map((batch) => batch.dataset)))];
  const first = ranks[0];
  const isKept = ranks.every((one) => one.kept);
  return (
    <>
      {first !== undefined && <Time ms={first.start_us / 1000} />}: {count(ranks.length)} ranks
      {samples > 0 && `, ${count(samples)} samples`}
      {datasets.length > 0 && ` of ${datasets.join(", ")}`}.{" "}
      {!isKept && <Badge tone="warning">thrown away: the run went back behind it</Badge>}
    </>
  );
}

const COLUMNS: Column<OfRank>[] = [
  { key: "rank", title: "Rank", align: "end", cell: (one) => one.rank, sort: (one) => one.rank },
  { key: "loss", title: "Loss", align: "end", cell: (one) => value(one.values["loss"]), sort: (one) => Number(one.values["loss"] ?? NaN) },
  { key: "took", title: "Took", align: "end", cell: (one) => duration(one.duration_us / 1e6), sort: (one) => one.duration_us },
  { key: "samples", title: "Samples", align: "end", cell: (one) => (one.samples === null ? "–" : count(one.samples)), sort: (one) => one.samples, isWide: true },
  { key: "batches", title: "Batches", cell: (one) => one.batches.map(said).join("; ") || "–" },
  { key: "node", title: "Node", cell: (one) => one.node ?? "–", sort: (one) => one.node, isWide: true },
];

function value(told: number | string | undefined): string {
  if (told === undefined) return "–";
  return typeof told === "number" ? figure(told, 4) : told;
}

/** Which samples, as they were told. */
function said(batch: Batch): string {
  const from = batch.shard === null ? batch.dataset : `${batch.dataset}/${batch.shard}`;
  if (batch.range !== null) {
    const [first, size, stride] = batch.range as [number, number, number];
    const every = stride > 1 ? `, every ${stride}th` : "";
    return `${from}: ${count(size)} samples from ${first}${every}`;
  }
  const names = [...batch.ids.map(String), ...batch.names];
  if (names.length > 0) return `${from}: ${names.slice(0, 6).join(", ")}${names.length > 6 ? ` and ${names.length - 6} more` : ""}`;
  return `${from}: ${batch.unknown ?? "not told"}`;
}

// Members, attempts and checkpoints: the tables under the charts.
import { useMemo } from "preact/hooks";
import { get, type Data } from "../../api/client";
import { useAnswer } from "../../api/use";
import { Link, useParam } from "../../core/route";
import { bytes, count, percent, watts } from "../../format/numbers";
import { duration } from "../../format/time";
import { Badge } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Tabs } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import { Table, type Column } from "../../parts/table";
import { Time } from "../../parts/time";
import type { Detail } from "./model";

type Gpu = Detail["gpus"][number];
type Member = Detail["members"][number];
type Attempt = Detail["attempts"][number];
type Checkpoint = Data<"/api/runs/{run}/checkpoints">[number];

interface DetailsProps {
  detail: Detail;
  run: string | null;
  chosenRank: string;
  onRank: (rank: string) => void;
  onWhole: () => void; // to have all members and GPUs
}

export function Details({ detail, run, chosenRank, onRank, onWhole }: DetailsProps) {
  const [shown, setShown] = useParam("show", "gpus");
  const gpus = useMemo(() => detail.gpus.filter((one) => one.to_ms === null), [detail]);
  const members = useMemo(() => [...detail.members].sort((a, b) => Number(a.to_ms !== null) - Number(b.to_ms !== null)), [detail]);
  return (
    <Card
      title="Members"
      actions={
        <Tabs
          label="What is listed"
          value={shown}
          choices={[
            { value: "gpus", label: `Ranks and GPUs ${detail.gpus_held}` },
            { value: "pods", label: `Pods ${detail.members_known}` },
            { value: "attempts", label: `Attempts ${detail.attempts.length}` },
            { value: "checkpoints", label: "Checkpoints" },
          ]}
          onChange={setShown}
        />
      }
    >
      {shown === "pods" ? (
        <>
          <Table label="Pods" columns={PODS} rows={members} rowKey={(one) => `${one.uid}/${one.from_ms}`} maxHeight="28rem" empty={<Empty what="It has no pods, and had none." />} />
          <Rest shown={members.length} known={detail.members_known} onWhole={onWhole} />
        </>
      ) : shown === "attempts" ? (
        <Table label="Attempts" columns={ATTEMPTS} rows={detail.attempts} rowKey={(one) => String(one.attempt)} />
      ) : shown === "checkpoints" ? (
        <Checkpoints run={run} />
      ) : (
        <>
          <Table
            label="Ranks and GPUs"
            columns={GPUS}
            rows={gpus}
            rowKey={(one) => `${one.uuid}/${one.instance ?? ""}/${one.pod}`}
            onOpen={(one) => one.rank !== null && onRank(String(one.rank) === chosenRank ? "" : String(one.rank))}
            maxHeight="28rem"
            empty={<Empty what="It holds no GPU now." todo="Its pods are under the next tab." />}
          />
          <Rest shown={gpus.length} known={detail.gpus_held} onWhole={onWhole} />
        </>
      )}
    </Card>
  );
}

function Rest({ shown, known, onWhole }: { shown: number; known: number; onWhole: () => void }) {
  if (shown >= known) return null;
  return (
    <p class="soft">
      The first {count(shown)} of {count(known)}: sorting sorts these.{" "}
      <button type="button" onClick={onWhole}>
        Show all {count(known)}
      </button>
    </p>
  );
}

const GPUS: Column<Gpu>[] = [
  { key: "rank", title: "Rank", align: "end", cell: (one) => one.rank ?? "–", sort: (one) => one.rank },
  { key: "pod", title: "Pod", cell: (one) => one.pod, sort: (one) => one.pod, isWide: true },
  { key: "node", title: "Node", cell: (one) => one.node ?? "–", sort: (one) => one.node },
  {
    key: "gpu",
    title: "GPU",
    cell: (one) => <Link to={`/fleet/gpus/${encodeURIComponent(one.uuid)}`}>{one.index === null ? one.uuid.slice(0, 12) : `GPU ${one.index}`}</Link>,
    sort: (one) => one.index,
  },
  { key: "model", title: "Model", cell: (one) => one.model ?? "–", isWide: true },
  { key: "activity", title: "Activity", align: "end", cell: (one) => dash(percent(one.utilization)), sort: (one) => one.utilization },
  { key: "power", title: "Power", align: "end", cell: (one) => dash(watts(one.power_watts)), sort: (one) => one.power_watts },
  { key: "memory", title: "Memory", align: "end", cell: (one) => dash(bytes(one.memory_used_bytes)), sort: (one) => one.memory_used_bytes, isWide: true },
];

const PODS: Column<Member>[] = [
  { key: "pod", title: "Pod", cell: (one) => one.pod, sort: (one) => one.pod },
  { key: "role", title: "Role", cell: (one) => one.role || "–", sort: (one) => one.role, isWide: true },
  { key: "rank", title: "Place", align: "end", cell: (one) => one.node_rank ?? "–", sort: (one) => one.node_rank, isWide: true },
  { key: "node", title: "Node", cell: (one) => one.node ?? "none yet", sort: (one) => one.node },
  { key: "attempt", title: "Attempt", align: "end", cell: (one) => one.attempt + 1, sort: (one) => one.attempt, isWide: true },
  { key: "state", title: "State", cell: (one) => <PodState member={one} />, sort: (one) => one.to_ms ?? 0 },
  { key: "from", title: "Since", cell: (one) => <Time ms={one.from_ms} />, sort: (one) => one.from_ms },
];

function PodState({ member }: { member: Member }) {
  if (member.to_ms !== null) return <Badge tone="muted">gone</Badge>;
  if (member.ready === true) return <Badge tone="good">ready</Badge>;
  if (member.node === null) return <Badge tone="warning">waits for a node</Badge>;
  return member.ready === false ? <Badge tone="warning">not ready</Badge> : <Badge>there</Badge>;
}

const ATTEMPTS: Column<Attempt>[] = [
  { key: "attempt", title: "Attempt", align: "end", cell: (one) => one.attempt + 1, sort: (one) => one.attempt },
  { key: "from", title: "Began", cell: (one) => <Time ms={one.from_ms} />, sort: (one) => one.from_ms },
  { key: "lasted", title: "Lasted", align: "end", cell: (one) => duration(((one.to_ms ?? Date.now()) - one.from_ms) / 1000) },
  { key: "phase", title: "How it stands or ended", cell: (row) => row.phase ?? "–", sort: (row) => row.phase },
  { key: "reason", title: "Why", cell: (row) => row.reason || "–" },
];


function Checkpoints({ run }: { run: string | null }) {
  const live = useAnswer(run === null ? null : `checkpoints ${run}`, (signal) => get("/api/runs/{run}/checkpoints", { path: { run: run ?? "" } }, signal));
  if (run === null) return <Empty what="No program told of a run, so of no checkpoint either." todo={<code>run.checkpoint(path, step)</code>} />;
  return (
    <Shown live={live} what="Reading its checkpoints">
      {(found) => (
        <Table
          label="Checkpoints"
          columns={CHECKPOINTS}
          rows={found}
          rowKey={(row) => `${row.step}/${row.stretch}/${row.start_ms}`}
          sort="-step"
          maxHeight="28rem"
          empty={<Empty what="It has told of no checkpoint." todo={<code>run.checkpoint(path, step)</code>} />}
        />
      )}
    </Shown>
  );
}

const CHECKPOINTS: Column<Checkpoint>[] = [
  { key: "step", title: "Step", align: "end", cell: (row) => count(row.step), sort: (row) => row.step },
  { key: "at", title: "Written", cell: (row) => <Time ms={row.start_ms} />, sort: (row) => row.start_ms },
  { key: "took", title: "Took", align: "end", cell: (row) => dash(duration(row.seconds)), sort: (row) => row.seconds },
  { key: "size", title: "Size", align: "end", cell: (row) => dash(bytes(row.size_bytes)), sort: (row) => row.size_bytes, isWide: true },
  {
    key: "ok",
    title: "Outcome",
    cell: (row) => (row.ok ? <Badge tone="good">written</Badge> : <Badge tone="critical">{row.error ?? "failed"}</Badge>),
    sort: (row) => Number(row.ok),
  },
  { key: "path", title: "Where", cell: (row) => row.paths.join(", "), isWide: true },
];

function dash(text: string): string {
  return text === "unknown" ? "–" : text;
}

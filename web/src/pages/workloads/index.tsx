// All workloads: search, filter and sort happen here, over columns that the server sends at once.
import { useMemo } from "preact/hooks";
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { go, hrefOf, setParams, useParam, workloadPath } from "../../core/route";
import { perHour } from "../../format/money";
import { count, plural } from "../../format/numbers";
import { Search, Select, Tabs } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import { Table } from "../../parts/table";
import { columnsOf } from "./columns";
import { NO_TEAM, choicesOf, kept, rowsOf, sumsOf, type Columns, type Row, type Sums } from "./rows";
import "./workloads.css";

const EVERY_MS = 5000;
const STATES = [
  { value: "running", label: "There now" },
  { value: "all", label: "And gone today" },
];
const HEALTH = [
  { value: "", label: "any" },
  { value: "trouble", label: "in trouble" },
  { value: "critical", label: "critical" },
  { value: "warning", label: "warning" },
  { value: "info", label: "info" },
  { value: "ok", label: "ok" },
];

export default function Workloads() {
  const [state] = useParam("state", "running");
  const asked = state === "all" ? "all" : "running";
  const live = useAnswer(
    `workloads ${asked}`,
    (signal) => get("/api/workload-table", { query: { state: asked } }, signal),
    { everyMs: EVERY_MS },
  );
  return (
    <Shown live={live} what="Looking at all workloads">
      {(table) => <Listed table={table} isSure={table.at_ms !== null && live.warnings.length === 0} />}
    </Shown>
  );
}

/** `isSure`: all that there is has been looked at. */
function Listed({ table, isSure }: { table: Columns; isSure: boolean }) {
  const [q, setQ] = useParam("q");
  const [state, setState] = useParam("state", "running");
  const [team, setTeam] = useParam("team");
  const [phase, setPhase] = useParam("phase");
  const [health, setHealth] = useParam("health");
  const [cluster, setCluster] = useParam("cluster");
  const [sort, setSort] = useParam("sort", "-health");
  const columns = useMemo(() => columnsOf(table.currency), [table.currency]);
  const rows = useMemo(() => rowsOf(table), [table]);
  const shown = useMemo(
    () => kept(rows, { q, team, phase, health, cluster }),
    [rows, q, team, phase, health, cluster],
  );
  const whole = useMemo(() => sumsOf(rows), [rows]);
  const sums = useMemo(() => sumsOf(shown), [shown]);
  const clusters = choicesOf(rows, (row) => row.cluster, "all");
  if (rows.length === 0) return isSure ? <NoneAtAll /> : <Empty what="Which workloads there are is not known yet." />;
  return (
    <div class="workloads">
      <Headline whole={whole} currency={table.currency} />
      <div class="wl-filters row">
        <Search label="Search workloads" value={q} onChange={setQ} />
        <Select label="Health" value={health} choices={HEALTH} onChange={setHealth} />
        <Select label="Team" value={team} choices={choicesOf(rows, (row) => row.team ?? NO_TEAM, "all")} onChange={setTeam} />
        <Select label="Phase" value={phase} choices={choicesOf(rows, (row) => row.phase, "any")} onChange={setPhase} />
        {clusters.length > 2 && <Select label="Cluster" value={cluster} choices={clusters} onChange={setCluster} />}
        <Tabs label="Which workloads" value={state === "all" ? "all" : "running"} choices={STATES} onChange={setState} />
      </div>
      <p class="wl-sums" role="status">
        {shown.length === rows.length ? "All" : `${count(shown.length)} of`} {plural(rows.length, "workload")} shown:{" "}
        <b>{plural(sums.gpus, "GPU")}</b>, <b>{rateOf(sums, table.currency)}</b>
        <span class="soft">{unpricedOf(sums)}</span>
      </p>
      <Table
        label="Workloads"
        columns={columns}
        rows={shown}
        rowKey={(row) => row.key}
        sort={sort}
        onSort={setSort}
        onOpen={open}
        maxHeight="calc(100vh - 15rem)"
        empty={<NoneLeft />}
      />
    </div>
  );
}

/** Where nothing holds a GPU, nothing is spent; where nothing has a price, that is not known. */
function rateOf(sums: Sums, currency: string): string {
  if (sums.perHour === null && sums.unpriced > 0) return "no price known";
  return perHour(sums.perHour ?? 0, currency);
}

function unpricedOf(sums: Sums): string {
  return sums.perHour === null || sums.unpriced === 0 ? "" : ` and ${plural(sums.unpriced, "workload")} without a price`;
}

function Headline({ whole, currency }: { whole: Sums; currency: string }) {
  const size = `${plural(whole.workloads, "workload")} on ${plural(whole.gpus, "GPU")}, ${rateOf(whole, currency)}${unpricedOf(whole)}`;
  return (
    <header class="wl-head">
      <h1>
        {whole.trouble === 0 ? (
          "No workload is in trouble"
        ) : (
          <>
            <span class="wl-trouble">{plural(whole.trouble, "workload")} in trouble</span>
            {whole.troubled !== null && whole.troubled > 0 && `, at ${perHour(whole.troubled, currency)}`}
          </>
        )}
      </h1>
      <p class="soft">{size}</p>
    </header>
  );
}

function open(row: Row): void {
  go(row.cluster === "" ? hrefOf("/experiments", { runs: row.run ?? "" }) : hrefOf(workloadPath(row)));
}

function NoneLeft() {
  const clear = () => setParams({ q: "", team: "", phase: "", health: "", cluster: "" });
  return (
    <Empty
      what="No workload is like that."
      todo={
        <button type="button" onClick={clear}>
          Show all
        </button>
      }
    />
  );
}

function NoneAtAll() {
  return (
    <Empty
      what="No workload uses or wants a GPU."
      todo={
        <p>
          Workloads come from the clusters in <code>kubernetes.clusters</code> and from agents; runs from programs that
          use the SDK. <a href="/doctor">Doctor</a> says what Trilens cannot see.
        </p>
      }
    />
  );
}

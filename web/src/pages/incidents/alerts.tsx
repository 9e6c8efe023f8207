import { useAnswer } from "../../api/use";
import { Link, useParam } from "../../core/route";
import { ago } from "../../format/time";
import { Badge, severityTone } from "../../parts/badge";
import { gravityOf } from "../../parts/gravity";
import { Search, Select } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import { Table, type Column } from "../../parts/table";
import { askAlerts, subjectOf, type Alert } from "./prometheus";

const EVERY_MS = 10_000;

const COLUMNS: Column<Alert>[] = [
  {
    key: "severity",
    title: "Severity",
    sort: (row) => gravityOf(row.labels["severity"] ?? "none") + (row.state === "pending" ? 10 : 0),
    cell: (row) => <Badge tone={severityTone(row.labels["severity"] ?? "none")}>{row.labels["severity"] ?? "none"}</Badge>,
  },
  { key: "state", title: "State", sort: (row) => row.state, cell: (row) => (row.state === "firing" ? "fires" : "pending") },
  {
    key: "name",
    title: "Alert",
    sort: (row) => row.labels["alertname"],
    cell: (row) => (
      <Link to="/incidents" params={{ tab: "rules", q: row.labels["alertname"] ?? "" }}>
        {row.labels["alertname"]}
      </Link>
    ),
  },
  { key: "text", title: "What", cell: (row) => <span title={row.annotations["summary"]}>{row.annotations["summary"] ?? subjectOf(row.labels)}</span> },
  { key: "who", title: "Whom", isWide: true, sort: (row) => subjectOf(row.labels), cell: (row) => subjectOf(row.labels) },
  { key: "team", title: "Team", isWide: true, sort: (row) => row.labels["team"] || null, cell: (row) => row.labels["team"] || "–" },
  { key: "since", title: "Since", align: "end", sort: (row) => Date.parse(row.activeAt), cell: (row) => ago(Date.parse(row.activeAt)) },
];

export function AlertsTab() {
  const live = useAnswer("alerts", askAlerts, { everyMs: EVERY_MS });
  const [q, setQ] = useParam("q");
  const [state, setState] = useParam("state");
  const [sort, setSort] = useParam("sort", "severity");
  return (
    <Shown live={live} what="Reading alerts">
      {({ alerts }) => {
        const shown = alerts.filter((one) => (state === "" || one.state === state) && isMeant(one, q));
        const firing = alerts.filter((one) => one.state === "firing").length;
        return (
          <div class="stack alerts">
            <div class="row">
              <Search value={q} onChange={setQ} label="Alert, workload or node" />
              <Select
                label="State"
                value={state}
                choices={[
                  { value: "", label: `all (${alerts.length})` },
                  { value: "firing", label: `fires (${firing})` },
                  { value: "pending", label: `pending (${alerts.length - firing})` },
                ]}
                onChange={setState}
              />
              <span class="soft">What has one cause is one incident; what is only info makes none.</span>
            </div>
            <Table
              label="Alerts"
              columns={COLUMNS}
              rows={shown}
              rowKey={(row) => JSON.stringify(row.labels)}
              sort={sort}
              onSort={setSort}
              empty={
                <Empty
                  what={alerts.length === 0 ? "No alert fires or is pending." : "No alert is like that."}
                  todo={alerts.length === 0 && <>That may also mean that nobody looks: the tab Rules says which rules are blind.</>}
                />
              }
            />
          </div>
        );
      }}
    </Shown>
  );
}

function isMeant(alert: Alert, q: string): boolean {
  const text = [...Object.values(alert.labels), alert.annotations["summary"] ?? ""].join(" ");
  return text.toLowerCase().includes(q.toLowerCase());
}

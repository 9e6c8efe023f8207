import { useState } from "preact/hooks";
import type { Live } from "../../api/use";
import { Link, setParams, useParam, useRange } from "../../core/route";
import { moment } from "../../format/time";
import { Badge, severityTone } from "../../parts/badge";
import { Card } from "../../parts/card";
import { byGravity } from "../../parts/gravity";
import { Search, Select } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import { distinct, isOpen, lasted, lostOf, nodesOf, sufferingOf, teamsOf, type Incident } from "./model";
import { Strip } from "./strip";

const SHOWN = 100;

interface Filters {
  severity: string;
  team: string;
  workload: string;
  node: string;
  q: string;
}

export function IncidentList({ live }: { live: Live<Incident[]> }) {
  const range = useRange();
  const filters = useFilters();
  return (
    <Shown live={live} what="Reading incidents">
      {(incidents) => {
        const shown = incidents.filter((one) => isMeant(one, filters)).sort(byLoss);
        const open = shown.filter(isOpen);
        const over = shown.filter((one) => !isOpen(one));
        return (
          <div class="stack">
            <FilterRow incidents={incidents} filters={filters} />
            {shown.length > 0 && (
              <Card title="Over time" note={`${moment(range.fromMs)} to ${range.isLive ? "now" : moment(range.toMs)}`}>
                <Strip incidents={shown} fromMs={range.fromMs} toMs={range.toMs} />
              </Card>
            )}
            {incidents.length === 0 ? (
              <Empty
                what="No incident is open, and none was in this time."
                todo={
                  <>
                    Choose a longer time above. Whether everything that could go wrong is seen, <Link to="/doctor">Doctor</Link> tells.
                  </>
                }
              />
            ) : (
              <>
                <Rows title="Open" incidents={open} none={shown.length < incidents.length ? "None of those chosen is open." : "Nothing is wrong now."} />
                {over.length > 0 && <Rows title="Over" incidents={over} none="" />}
              </>
            )}
          </div>
        );
      }}
    </Shown>
  );
}

/** Of what is equally grave, what costs most comes first. */
function byLoss(a: Incident, b: Incident): number {
  return byGravity(a, b) || Number(b.lost ?? 0) - Number(a.lost ?? 0) || b.onset_ms - a.onset_ms;
}

function useFilters(): Filters {
  const [severity] = useParam("severity");
  const [team] = useParam("team");
  const [workload] = useParam("workload");
  const [node] = useParam("node");
  const [q] = useParam("q");
  return { severity, team, workload, node, q };
}

function isMeant(one: Incident, { severity, team, workload, node, q }: Filters): boolean {
  return (
    (severity === "" || one.severity === severity) &&
    (team === "" || teamsOf(one).includes(team)) &&
    (workload === "" || sufferingOf(one).some((each) => each.name === workload)) &&
    (node === "" || nodesOf(one).includes(node)) &&
    (q === "" || [one.id, one.title, ...one.workloads].join(" ").toLowerCase().includes(q.toLowerCase()))
  );
}

function FilterRow({ incidents, filters }: { incidents: Incident[]; filters: Filters }) {
  const choices = (values: string[], chosen: string) => [
    { value: "", label: "all" },
    ...distinct([...values, chosen]).map((value) => ({ value, label: value })),
  ];
  const isFiltered = Object.values(filters).some((value) => value !== "");
  return (
    <div class="row incident-filters">
      <Search value={filters.q} onChange={(q) => setParams({ q })} label="Title, workload or id" />
      <Select label="Severity" value={filters.severity} choices={choices(["critical", "warning"], filters.severity)} onChange={(severity) => setParams({ severity })} />
      <Select label="Team" value={filters.team} choices={choices(incidents.flatMap(teamsOf), filters.team)} onChange={(team) => setParams({ team })} />
      <Select
        label="Workload"
        value={filters.workload}
        choices={choices(incidents.flatMap((one) => sufferingOf(one).map((each) => each.name)), filters.workload)}
        onChange={(workload) => setParams({ workload })}
      />
      <Select label="Node" value={filters.node} choices={choices(incidents.flatMap(nodesOf), filters.node)} onChange={(node) => setParams({ node })} />
      {isFiltered && (
        <button type="button" onClick={() => setParams({ severity: "", team: "", workload: "", node: "", q: "" })}>
          Show all
        </button>
      )}
    </div>
  );
}

function Rows({ title, incidents, none }: { title: string; incidents: Incident[]; none: string }) {
  const [isWhole, setWhole] = useState(false);
  const lost = lostOf(incidents);
  const shown = isWhole ? incidents : incidents.slice(0, SHOWN);
  return (
    <Card title={`${title} (${incidents.length})`} note={lost ? `${lost} lost` : undefined}>
      {incidents.length === 0 && <Empty what={none} />}
      <ol class="incidents">
        {shown.map((one) => (
          <Row key={one.id} incident={one} />
        ))}
      </ol>
      {shown.length < incidents.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all {incidents.length}
        </button>
      )}
    </Card>
  );
}

function Row({ incident }: { incident: Incident }) {
  const hit = sufferingOf(incident);
  const teams = teamsOf(incident);
  const first = hit[0];
  return (
    <li>
      <Badge tone={severityTone(incident.severity)}>{incident.severity}</Badge>
      <div class="incident-said">
        <Link to={`/incidents/${incident.id}`} class="incident-title">
          {incident.title}
        </Link>
        <div class="soft">
          {first !== undefined && (
            <>
              hits {first.path === null ? first.name : <Link to={first.path}>{first.name}</Link>}
              {hit.length > 1 && ` and ${hit.length - 1} more`}
              {" · "}
            </>
          )}
          {teams.length > 0 && `team ${teams.join(", ")} · `}
          {toldText(incident)}
        </div>
      </div>
      <div class="incident-lost">{lostOf([incident]) || <span class="soft">–</span>}</div>
      <div class="incident-since soft">
        <span>{isOpen(incident) ? `since ${moment(incident.onset_ms)}` : moment(incident.onset_ms)}</span>{" "}
        <span>{isOpen(incident) ? `for ${lasted(incident)}` : `lasted ${lasted(incident)}`}</span>
      </div>
    </li>
  );
}

export function toldText(incident: Incident): string {
  if (incident.acknowledged_ms !== null) return `${incident.acknowledged_by ?? "somebody"} has it`;
  if (incident.held_back.some((one) => one.why === "silence")) return "silenced";
  return incident.told.length > 0 ? `told ${incident.told.join(", ")}` : "nobody was told";
}

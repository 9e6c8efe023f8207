// One incident, from what it costs to what to do about it.
import { useState } from "preact/hooks";
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { Link, useRoute } from "../../core/route";
import { fullMoment, moment } from "../../format/time";
import { Badge, severityTone } from "../../parts/badge";
import { Card, Stat } from "../../parts/card";
import { Copied } from "../../parts/inputs";
import { Prose } from "../../parts/prose";
import { Shown } from "../../parts/states";
import { Acknowledge } from "./acknowledge";
import { commandsIn, isOpen, lasted, lostOf, matchersOf, nodesOf, sufferingOf, teamsOf, type Incident } from "./model";
import { SilenceForm } from "./silences";
import { Story } from "./story";
import { Symptoms } from "./symptoms";
import { Told } from "./told";
import { Verdicts } from "./verdicts";
import "./incidents.css";

const EVERY_MS = 5_000;

export default function IncidentPage() {
  const { args } = useRoute();
  const id = args["id"] ?? "";
  const [isOver, setOver] = useState(false);
  const live = useAnswer(
    `incident ${id}`,
    async (signal) => {
      const answer = await get("/api/incidents/{id}", { path: { id } }, signal);
      setOver(!isOpen(answer.data));
      return answer;
    },
    { everyMs: isOver ? undefined : EVERY_MS },
  );
  return (
    <Shown live={live} what="Reading the incident">
      {(incident) => <Whole key={incident.id} incident={incident} reload={live.reload} />}
    </Shown>
  );
}

function Whole({ incident, reload }: { incident: Incident; reload: () => void }) {
  return (
    <div class="stack">
      <Head incident={incident} />
      <div class="grid">
        <div class="span-7 stack">
          <NextStep incident={incident} reload={reload} />
          <Verdicts incident={incident} />
          <Symptoms incident={incident} />
        </div>
        <div class="span-5 stack">
          <Story incident={incident} />
          <Told incident={incident} />
        </div>
      </div>
    </div>
  );
}

function Head({ incident }: { incident: Incident }) {
  const lost = lostOf([incident]);
  const hit = sufferingOf(incident);
  const teams = teamsOf(incident);
  const nodes = nodesOf(incident);
  const { gpu } = incident.subject;
  return (
    <header class="incident-head">
      <p class="row soft">
        <Link to="/incidents">Incidents</Link>
        <span>{incident.id}</span>
        <Badge tone={severityTone(incident.severity)}>{incident.severity}</Badge>
        {isOpen(incident) ? <Badge tone="critical">open</Badge> : <Badge tone="good">over</Badge>}
        {incident.acknowledged_ms !== null && <Badge tone="info">{incident.acknowledged_by ?? "somebody"} has it</Badge>}
      </p>
      <h1>{incident.title}</h1>
      {incident.merged_into !== null && (
        <p class="notice notice-doubt">
          It turned out to be a part of <Link to={`/incidents/${incident.merged_into}`}>{incident.merged_into}</Link>, and goes on there.
        </p>
      )}
      <div class="incident-facts">
        <Stat
          label={isOpen(incident) ? "Lost so far" : "Lost"}
          value={lost || "unknown"}
          note={lost ? "GPUs that stood still or were slowed" : "nothing stood still, or no price is known"}
          tone={lost ? "critical" : "plain"}
        />
        <Stat
          label={isOpen(incident) ? "Since" : "Lasted"}
          value={isOpen(incident) ? <time title={fullMoment(incident.onset_ms)}>{moment(incident.onset_ms)}</time> : lasted(incident)}
          note={isOpen(incident) ? `for ${lasted(incident)}` : `${moment(incident.onset_ms)} to ${moment(incident.resolved_ms)}`}
        />
        <Stat label="Noticed after" value={seconds(incident.detected_ms - incident.onset_ms)} note={incident.notified_ms === null ? "nobody was told" : `told ${seconds(incident.notified_ms - incident.detected_ms)} later`} />
        <Stat
          label="Hits"
          value={
            <span class="incident-hit">
              {hit.slice(0, 3).map((one) => (one.path === null ? <span key={one.name}>{one.name}</span> : <Link key={one.name} to={one.path}>{one.name}</Link>))}
              {hit.length > 3 && <span>and {hit.length - 3} more</span>}
              {hit.length === 0 && (nodes[0] ?? "no workload")}
            </span>
          }
          note={
            <>
              {[teams.length > 0 && `team ${teams.join(", ")}`, nodes.length > 0 && `on ${nodes.slice(0, 2).join(", ")}${nodes.length > 2 ? " …" : ""}`].filter(Boolean).join(" · ")}
              {gpu !== null && (
                <>
                  {" · "}
                  <Link to={`/fleet/gpus/${encodeURIComponent(gpu)}`}>its GPU</Link>
                </>
              )}
            </>
          }
        />
      </div>
    </header>
  );
}

function seconds(ms: number): string {
  return ms < 1000 ? "at once" : `${ms < 90_000 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60_000)} min`}`;
}

function NextStep({ incident, reload }: { incident: Incident; reload: () => void }) {
  const [isSilencing, setSilencing] = useState(false);
  const [silencedBy, setSilencedBy] = useState("");
  const commands = commandsIn(incident.action);
  return (
    <Card
      title="What to do next"
      actions={
        isOpen(incident) && (
          <button type="button" aria-expanded={isSilencing} onClick={() => setSilencing(!isSilencing)}>
            Silence…
          </button>
        )
      }
    >
      <p class="incident-action">
        <Prose text={incident.action || "Nothing is known to help by itself: ask why below."} />
      </p>
      {[...commands.filter((one) => !one.endsWith("trilens show")), `trilens why ${incident.id}`].map((command) => (
        <Copied key={command} text={command} />
      ))}
      {isOpen(incident) && incident.acknowledged_ms === null && <Acknowledge incident={incident} onDone={reload} />}
      {silencedBy !== "" && (
        <p class="notice notice-doubt" role="status">
          Silenced: <Link to="/incidents" params={{ tab: "silences" }}>{silencedBy}</Link>
        </p>
      )}
      {isSilencing && (
        <SilenceForm
          matchers={matchersOf(incident).join("\n")}
          onDone={(made) => {
            setSilencing(false);
            setSilencedBy(made.id);
            reload();
          }}
        />
      )}
    </Card>
  );
}

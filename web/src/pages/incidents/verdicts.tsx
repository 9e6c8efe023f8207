// Why an incident is there, and what a machine could do about it.
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { Copied } from "../../parts/inputs";
import { Why } from "../../parts/verdicts";
import { isOpen, type Incident } from "./model";

const NONE = { what: "Nothing is out of the ordinary now.", todo: "What it rests on comes with time: ask again in half a minute." };

export function Verdicts({ incident }: { incident: Incident }) {
  const query = { subject: incident.id, to: isOpen(incident) ? undefined : (incident.resolved_ms ?? 0) / 1000 };
  return (
    <Why question={incident.id} query={query} none={NONE}>
      <Proposals incident={incident} />
    </Why>
  );
}

/** What a machine could do about it. Nothing is done from here: the command is. */
function Proposals({ incident }: { incident: Incident }) {
  const live = useAnswer(`fixes ${incident.id}`, (signal) => get("/api/fixes/proposals", { query: { subject: incident.id } }, signal));
  const proposals = live.data ?? [];
  if (live.data === undefined || proposals.length === 0) return null;
  return (
    <>
      <h3>What Trilens could do about it</h3>
      <ul class="plain-list">
        {proposals.map((one) => (
          <li key={`${one.deed}/${one.subject}`}>
            <b>{one.deed}</b> {one.target.kind} {one.target.name}: {one.why}
            <Copied text={`trilens fix ${one.subject} --deed ${one.deed} --do`} />
          </li>
        ))}
      </ul>
      <p class="soft">
        Without <code>--do</code> it is only tried out. The server does it if its policy allows that.
      </p>
    </>
  );
}

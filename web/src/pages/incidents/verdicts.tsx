// Why it is so, asked when somebody wants to know: gathering it asks the cluster and the nodes.
import { get, type Data } from "../../api/client";
import { useAnswer } from "../../api/use";
import { useParam } from "../../core/route";
import { percent } from "../../format/numbers";
import { moment } from "../../format/time";
import { Badge } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Copied } from "../../parts/inputs";
import { Prose } from "../../parts/prose";
import { Empty, Shown } from "../../parts/states";
import { isOpen, type Incident } from "./model";

type Verdict = Data<"/api/why">["verdicts"][number];

export function Verdicts({ incident }: { incident: Incident }) {
  const [why, setWhy] = useParam("why");
  const query = { subject: incident.id, to: isOpen(incident) ? undefined : (incident.resolved_ms ?? 0) / 1000 };
  const live = useAnswer(why === "" ? null : `why ${incident.id}`, (signal) => get("/api/why", { query }, signal));
  return (
    <Card
      title="Why"
      actions={
        why !== "" && (
          <button type="button" onClick={live.reload} disabled={live.isLoading}>
            Ask again
          </button>
        )
      }
    >
      {why === "" ? (
        <div class="row">
          <button type="button" class="is-main" onClick={() => setWhy("true")}>
            Find out why
          </button>
          <span class="soft">asks the cluster, its nodes and the programs, which takes some seconds</span>
        </div>
      ) : (
        <Shown live={live} what="Asking the cluster, its nodes and the programs">
          {({ verdicts, missing }) => (
            <>
              {verdicts.length === 0 && <Empty what="Nothing is out of the ordinary now." todo="What it rests on comes with time: ask again in half a minute." />}
              {verdicts.map((one, i) => (
                <Said key={`${one.cause}/${one.text}`} verdict={one} isFirst={i === 0} />
              ))}
              {missing.length > 0 && <Missing missing={missing} what="Could not be gathered" />}
              <Proposals incident={incident} />
            </>
          )}
        </Shown>
      )}
    </Card>
  );
}

function Said({ verdict, isFirst }: { verdict: Verdict; isFirst: boolean }) {
  const { where } = verdict;
  const at = [where.rank !== null && `rank ${where.rank}`, where.pod && `pod ${where.pod}`, where.node && `node ${where.node}`, where.gpu_number && `GPU ${where.gpu_number}`].filter(Boolean);
  return (
    <article class="verdict">
      <p class={isFirst ? "verdict-text" : ""}>
        <b>{verdict.text}</b>
      </p>
      <p class="row soft">
        <Badge tone={verdict.is_sure ? "good" : verdict.can_tell ? "info" : "warning"}>
          {verdict.can_tell ? `sure: ${percent(verdict.confidence)}` : "a guess"}
        </Badge>
        <span>{verdict.layer}</span>
        {at.length > 0 && <span>{at.join(", ")}</span>}
        {verdict.since_ms !== null && <span>since {moment(verdict.since_ms)}</span>}
      </p>
      {verdict.fix.length > 0 && (
        <ol class="plain-list">
          {verdict.fix.map((one) => (
            <li key={one}>
              <Prose text={one} />
            </li>
          ))}
        </ol>
      )}
      {verdict.way.length > 0 && (
        <details>
          <summary>The way to it: {verdict.way.length} questions</summary>
          <ol class="plain-list way">
            {verdict.way.map((step) => (
              <li key={`${step.tree}/${step.question}`}>
                {step.text} <b>{step.answer}</b>
                {step.facts.map((fact) => (
                  <div key={fact.text} class="soft">
                    {fact.text} <span class="fact-source">[{fact.source}]</span>
                  </div>
                ))}
              </li>
            ))}
          </ol>
        </details>
      )}
      {verdict.missing.length > 0 && <Missing missing={verdict.missing} what="Would make it surer" />}
    </article>
  );
}

function Missing({ missing, what }: { missing: { what: string; remedy: string }[]; what: string }) {
  return (
    <details>
      <summary>
        {what}: {missing.length}
      </summary>
      <ul class="plain-list">
        {missing.map((one) => (
          <li key={one.what}>
            {one.what}: <span class="soft">{one.remedy}</span>
          </li>
        ))}
      </ul>
    </details>
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

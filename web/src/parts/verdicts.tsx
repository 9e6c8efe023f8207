// The cause and the walk to it, asked when somebody wants to know: it takes some seconds to gather.
import type { ComponentChildren } from "preact";
import { get, type Asked, type Data } from "../api/client";
import { useAnswer } from "../api/use";
import { useParam } from "../core/route";
import { percent } from "../format/numbers";
import { clock, moment } from "../format/time";
import { Badge } from "./badge";
import { Card } from "./card";
import { Prose } from "./prose";
import { Empty, Shown } from "./states";
import "./verdicts.css";

type Verdict = Data<"/api/why">["verdicts"][number];
type Question = Verdict["way"][number];
type Lack = Verdict["missing"][number];

interface WhyProps {
  question: string; // names what is asked: another one is asked anew
  query: NonNullable<Asked["query"]>;
  none: { what: string; todo: string }; // said where nothing is found
  children?: ComponentChildren; // below the verdicts
}

export function Why({ question, query, none, children }: WhyProps) {
  const [why, setWhy] = useParam("why");
  const live = useAnswer(why === "" ? null : `why ${question}`, (signal) => get("/api/why", { query }, signal));
  return (
    <Card
      title="Why"
      note="the cause, by a walk through a tree of questions"
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
          <button type="button" class="main-action" onClick={() => setWhy("1")}>
            Find out why
          </button>
          <span class="soft">asks the cluster, its nodes and the programs, which takes some seconds</span>
        </div>
      ) : (
        <Shown live={live} what="Asking the cluster, its nodes and the programs" isNamed>
          {({ verdicts, missing }) => (
            <>
              {verdicts.length === 0 && <Empty what={none.what} todo={none.todo} />}
              {verdicts.map((one, i) => (
                <Said key={`${one.cause}/${one.text}`} verdict={one} isFirst={i === 0} />
              ))}
              <Missing missing={missing} what="Could not be gathered" />
              {children}
            </>
          )}
        </Shown>
      )}
    </Card>
  );
}

function Said({ verdict, isFirst }: { verdict: Verdict; isFirst: boolean }) {
  const { where } = verdict;
  const at = [
    where.rank !== null && `rank ${where.rank}`,
    where.pod && `pod ${where.pod}`,
    where.node && `node ${where.node}`,
    where.gpu_number && `GPU ${where.gpu_number}`,
  ].filter(Boolean);
  return (
    <article class="verdict">
      <p class={isFirst ? "verdict-first" : ""}>
        <b>
          <Prose text={verdict.text} />
        </b>
      </p>
      <p class="row soft">
        <Badge tone={verdict.is_sure ? "good" : verdict.can_tell ? "info" : "warning"}>
          {verdict.can_tell ? `${percent(verdict.confidence)} sure` : "a guess"}
        </Badge>
        <span>layer: {verdict.layer}</span>
        {at.length > 0 && <span>{at.join(", ")}</span>}
        {verdict.since_ms !== null && <span>since {moment(verdict.since_ms)}</span>}
      </p>
      {verdict.fix.length > 0 && (
        <>
          <h3>What to do next</h3>
          <ol class="plain-list">
            {verdict.fix.map((one) => (
              <li key={one}>
                <Prose text={one} />
              </li>
            ))}
          </ol>
        </>
      )}
      {verdict.way.length > 0 && (
        <details open={isFirst}>
          <summary>The way to it: {verdict.way.length} questions</summary>
          <ol class="walk">
            {verdict.way.map((one) => (
              <Walked key={`${one.tree}/${one.question}`} asked={one} />
            ))}
          </ol>
        </details>
      )}
      <Missing missing={verdict.missing} what="Would make it surer" />
    </article>
  );
}

function Walked({ asked }: { asked: Question }) {
  return (
    <li>
      <span class="walk-question">{asked.text}</span> <Badge tone={asked.confidence >= 0.8 ? "info" : "warning"}>{asked.answer}</Badge>{" "}
      {asked.confidence < 1 && <span class="soft">{percent(asked.confidence)} sure</span>}
      <ul class="walk-facts">
        {asked.facts.map((fact) => (
          <li key={`${fact.source}/${fact.text}`}>
            {fact.t_ms !== null && <span class="soft">{clock(fact.t_ms, true)} </span>}
            <Prose text={fact.text} /> <span class="soft">({fact.source})</span>
          </li>
        ))}
      </ul>
    </li>
  );
}

function Missing({ missing, what }: { missing: Lack[]; what: string }) {
  if (missing.length === 0) return null;
  return (
    <details>
      <summary>
        {what}: {missing.length}
      </summary>
      <ul class="plain-list">
        {missing.map((one) => (
          <li key={one.what}>
            {one.what}:{" "}
            <span class="soft">
              <Prose text={one.remedy} />
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}

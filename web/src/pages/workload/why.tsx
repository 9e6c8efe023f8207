// The verdict and the walk to it, asked when somebody wants to know: it takes some seconds to gather.
import { get, type Data } from "../../api/client";
import { useAnswer } from "../../api/use";
import { useParam, type Range } from "../../core/route";
import { percent } from "../../format/numbers";
import { clock, moment } from "../../format/time";
import { Badge } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Empty, Shown } from "../../parts/states";

type Verdict = Data<"/api/why">["verdicts"][number];
type Asked = Verdict["way"][number];

const MOST_MS = 6.5 * 86_400_000; // a case is about a week at most

export function Why({ subject, range }: { subject: string; range: Range }) {
  const [why, setWhy] = useParam("why");
  const until = range.isLive ? undefined : range.toMs / 1000;
  const from = Math.max(range.fromMs, range.toMs - MOST_MS) / 1000;
  const live = useAnswer(why === "" ? null : `why ${subject} ${until ?? "now"}`, (signal) =>
    get("/api/why", { query: { subject, from, to: until } }, signal),
  );
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
          <button type="button" class="is-main" onClick={() => setWhy("1")}>
            Find out why
          </button>
          <span class="soft">asks the cluster, its nodes and the programs, which takes some seconds</span>
        </div>
      ) : (
        <Shown live={live} what="Asking the cluster, its nodes and the programs">
          {({ verdicts, missing }) => (
            <>
              {verdicts.length === 0 && <Empty what="Nothing is out of the ordinary in this time." todo="Choose another span of time, or ask again in half a minute." />}
              {verdicts.map((one, i) => (
                <Said key={`${one.cause}/${one.text}`} verdict={one} isFirst={i === 0} />
              ))}
              <Missing missing={missing} what="Could not be gathered" />
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
        <b>{verdict.text}</b>
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
              <li key={one}>{one}</li>
            ))}
          </ol>
        </>
      )}
      <details open={isFirst}>
        <summary>The way to it: {verdict.way.length} questions</summary>
        <ol class="walk">
          {verdict.way.map((one) => (
            <Question key={`${one.tree}/${one.question}`} asked={one} />
          ))}
        </ol>
      </details>
      <Missing missing={verdict.missing} what="Would make it surer" />
    </article>
  );
}

function Question({ asked }: { asked: Asked }) {
  return (
    <li>
      <span class="walk-question">{asked.text}</span> <Badge tone={asked.confidence >= 0.8 ? "info" : "warning"}>{asked.answer}</Badge>{" "}
      {asked.confidence < 1 && <span class="soft">{percent(asked.confidence)} sure</span>}
      <ul class="walk-facts">
        {asked.facts.map((fact) => (
          <li key={`${fact.source}/${fact.text}`}>
            {fact.t_ms !== null && <span class="soft">{clock(fact.t_ms, true)} </span>}
            {fact.text} <span class="soft">({fact.source})</span>
          </li>
        ))}
      </ul>
    </li>
  );
}

function Missing({ missing, what }: { missing: { what: string; remedy: string }[]; what: string }) {
  if (missing.length === 0) return null;
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

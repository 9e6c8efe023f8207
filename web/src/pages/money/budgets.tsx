// Where the month is going, and whom that takes over a budget.
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import type { components } from "../../api/schema";
import { money } from "../../format/money";
import { percent } from "../../format/numbers";
import { Badge, type Tone } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Copied } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import { EVERY_MS } from "./asked";

type Budget = components["schemas"]["BudgetAnswer"];
type Month = components["schemas"]["MonthAnswer"];

const STATES: Record<string, { tone: Tone; text: string }> = {
  within: { tone: "good", text: "within" },
  "at-risk": { tone: "warning", text: "at risk" },
  "will-exceed": { tone: "warning", text: "will exceed" },
  exceeded: { tone: "critical", text: "exceeded" },
  unknown: { tone: "muted", text: "unknown" },
};

const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

export function Budgets({ where }: { where: string[] }) {
  const live = useAnswer(
    `month ${JSON.stringify(where)}`,
    (signal) => get("/api/cost/now", { query: { by: "team", where } }, signal),
    { everyMs: EVERY_MS },
  );
  return (
    <Card title="This month" note="budgets and forecast, of UTC">
      <Shown live={live}>
        {(now) => (
          <>
            <Forecast month={now.month} />
            {now.budgets.length === 0 ? (
              <Empty
                what="No budget is set."
                todo={
                  <>
                    <p>In the server's settings, then POST /-/reload:</p>
                    <Copied text={"budgets:\n  limits:\n    - {team: vision, amount: 25000, currency: USD}"} />
                  </>
                }
              />
            ) : (
              <ul class="money-budgets">
                {now.budgets.map((budget) => (
                  <One key={`${budget.kind} ${budget.name}`} budget={budget} />
                ))}
              </ul>
            )}
          </>
        )}
      </Shown>
    </Card>
  );
}

function Forecast({ month }: { month: Month }) {
  return (
    <>
      {month.totals.map((one) => (
        <p key={one.currency} title={month.method}>
          <b>{money(one.spent, one.currency)}</b> so far,{" "}
          {one.expected === null ? (
            <>the end of the month is not known yet: it takes a whole day</>
          ) : (
            <>
              <b>{money(one.expected, one.currency)}</b> expected at its end
              {one.low !== null && one.high !== null && one.low !== one.high && (
                <span class="soft">
                  {" "}
                  ({money(one.low, one.currency)} to {money(one.high, one.currency)} in four of five months)
                </span>
              )}
            </>
          )}
        </p>
      ))}
      {month.totals.length === 0 && <p class="soft">Nothing with a price was spent this month.</p>}
    </>
  );
}

function One({ budget }: { budget: Budget }) {
  const state = STATES[budget.state] ?? { tone: "plain" as Tone, text: budget.state };
  const amount = Number(budget.amount);
  const most = Math.max(amount, Number(budget.spent ?? 0), Number(budget.expected ?? 0)) || 1;
  const width = (value: string | null) => `${(Number(value ?? 0) / most) * 100}%`;
  return (
    <li>
      <div class="spread">
        <span>
          {budget.kind} <b>{budget.name}</b> <Badge tone={state.tone}>{state.text}</Badge>
        </span>
        <span>
          {money(budget.spent, budget.currency)} of {money(budget.amount, budget.currency)}
          {budget.share !== null && <span class="soft"> {percent(budget.share)}</span>}
        </span>
      </div>
      <div class="money-budget-track" aria-hidden="true">
        <span class="money-expected bar-hatched" style={{ width: width(budget.expected) }} />
        <span class={`money-spent is-${state.tone}`} style={{ width: width(budget.spent) }} />
        <span class="money-limit" style={{ left: width(budget.amount) }} />
      </div>
      <div class="soft">
        {budget.expected !== null && `${money(budget.expected, budget.currency)} expected at the end of the month. `}
        {budget.exceeded_ms !== null &&
          `${budget.state === "exceeded" ? "Exceeded" : "Will be exceeded"} on ${DAY.format(budget.exceeded_ms)}. `}
        {budget.gap !== null && budget.gap.text}
      </div>
    </li>
  );
}

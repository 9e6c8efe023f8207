// What was paid and of no use to anybody, and what would end it.
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import type { Range } from "../../core/route";
import { money } from "../../format/money";
import { percent, plural } from "../../format/numbers";
import { Ranking } from "../../parts/bars";
import { Card } from "../../parts/card";
import { Empty, Shown } from "../../parts/states";
import { happened, spanText, Whose } from "../now/said";
import { EVERY_MS, type Query } from "./asked";
import { bucketOf } from "./buckets";

export function ForNothing({ asked, question, range }: { asked: Query; question: string; range: Range }) {
  const live = useAnswer(`why ${question}`, (signal) => get("/api/cost/why", { query: asked }, signal), { everyMs: EVERY_MS });
  return (
    <Card title="For nothing" note={spanText(range)}>
      <Shown live={live} isNamed>
        {(why) => (
          <>
            {why.totals.map((one) => (
              <p key={one.currency}>
                <b>{one.for_nothing === null ? "Without a price" : money(one.for_nothing, one.currency ?? undefined)}</b>
                {one.share !== null && `, ${percent(one.share)} of ${one.spent === null ? "the GPU time" : money(one.spent, one.currency ?? undefined)}`}
              </p>
            ))}
            {why.causes.length === 0 ? (
              <Empty what={why.totals.length === 0 ? "Nothing is booked in this time." : "All of it was of use."} />
            ) : (
              <Ranking
                rows={why.causes.map((cause) => ({
                  key: cause.sentence,
                  label:
                    cause.workload === null ? (
                      <>{bucketOf(cause.bucket).label}</>
                    ) : (
                      <Whose workload={cause.workload} team={cause.team} isFleet={false} />
                    ),
                  value: Number(cause.amount ?? 0),
                  text: cause.amount === null ? "no price" : money(cause.amount, cause.currency ?? undefined),
                  note: (
                    <>
                      {happened(cause)} · {plural(cause.gpus, "GPU")}. <span class="now-remedy">{cause.remedy}</span>
                    </>
                  ),
                  colour: bucketOf(cause.bucket).colour,
                }))}
              />
            )}
            {why.rest.map((one) => (
              <p class="soft" key={one.currency}>
                {one.amount === null ? "Some GPU time" : money(one.amount, one.currency ?? undefined)} in{" "}
                {one.causes === null ? "many smaller causes" : plural(one.causes, "smaller cause")}
              </p>
            ))}
          </>
        )}
      </Shown>
    </Card>
  );
}

// What was paid for nothing, by cause, and what would end it.
import { Link, type Range } from "../../core/route";
import { money } from "../../format/money";
import { plural } from "../../format/numbers";
import { Ranking } from "../../parts/bars";
import { Card } from "../../parts/card";
import { Empty } from "../../parts/states";
import { bucketOf } from "../money/buckets";
import { happened, spanText, Whose, type Cause, type NowAnswer } from "./said";

export function WhereItWent({ now, range }: { now: NowAnswer; range: Range }) {
  const { causes, rest } = now.money;
  const currency = now.currency ?? undefined;
  const rows = causes.map((cause) => row(cause, currency));
  if (rest !== null && Number(rest) > 0) {
    const others = now.money.rest_causes;
    rows.push({
      key: "rest",
      label: <>{others === null ? "All else" : plural(others, "smaller cause")}</>,
      value: Number(rest),
      text: money(rest, currency),
      note: <></>,
      colour: "var(--text-soft)",
    });
  }
  return (
    <Card title="Where it was lost" note={spanText(range)} actions={<Link to="/money">Money</Link>}>
      {rows.length === 0 ? <Empty what={nothing(now)} /> : <Ranking rows={rows} />}
    </Card>
  );
}

function nothing({ money: { lost, hours } }: NowAnswer): string {
  if (lost === null) return "It is not known: no hour of this time is booked.";
  return hours.booked < hours.asked ? "Nothing was lost in the hours that are booked." : "Nothing was lost in this time.";
}

function row(cause: Cause, currency: string | undefined) {
  const bucket = bucketOf(cause.bucket);
  return {
    key: cause.sentence,
    label:
      cause.workload === null ? (
        <>{bucket.label}</>
      ) : (
        <Whose workload={cause.workload} team={cause.team} isFleet={false} />
      ),
    value: Number(cause.amount ?? 0),
    text: cause.amount === null ? "no price" : money(cause.amount, currency),
    note: (
      <>
        {happened(cause)} · {plural(cause.gpus, "GPU")}. <span class="now-remedy">{cause.remedy}</span>
      </>
    ),
    colour: bucket.colour,
  };
}

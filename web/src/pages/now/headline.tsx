// The whole page in one sentence: so much is gone, and on what.
import type { Range } from "../../core/route";
import { money } from "../../format/money";
import { percent, plural } from "../../format/numbers";
import { happened, spanText, Whose, type Cause, type NowAnswer } from "./said";

const NAMED = 3;

export function Headline({ now, range }: { now: NowAnswer; range: Range }) {
  const { lost, spent, lost_share: share, causes } = now.money;
  const currency = now.currency ?? undefined;
  if (lost === null) {
    return (
      <header class="now-headline">
        <h1>What was spent {spanText(range)} is not known.</h1>
        <p>{now.currency === null ? "No price is known of any GPU, or no hour is booked yet." : "No hour of it is booked."}</p>
      </header>
    );
  }
  const { asked, booked } = now.money.hours;
  if (Number(lost) === 0) {
    return (
      <header class="now-headline">
        {booked < asked ? (
          <h1>
            Nothing is known to be lost {spanText(range)}: {booked} of {plural(asked, "hour")} {booked === 1 ? "is" : "are"} booked.
          </h1>
        ) : (
          <h1>Nothing was lost {spanText(range)}.</h1>
        )}
        <p>{money(spent, currency)} were spent, all of it on work.</p>
      </header>
    );
  }
  const named = causes.filter((cause) => cause.amount !== null).slice(0, NAMED);
  const others = causes.length - named.length + (now.money.rest_causes ?? 0);
  return (
    <header class="now-headline">
      <h1>
        <strong>{money(lost, currency)}</strong> were lost {spanText(range)}
        <span class="now-share">
          {percent(share)} of the {money(spent, currency)} that were spent
        </span>
      </h1>
      <ol class="now-reasons" aria-label="The largest losses">
        {named.map((cause) => (
          <Reason key={cause.sentence} cause={cause} currency={currency} />
        ))}
        {others > 0 && <li class="now-others">and {plural(others, "smaller cause")}</li>}
      </ol>
    </header>
  );
}

function Reason({ cause, currency }: { cause: Cause; currency: string | undefined }) {
  const isFleet = cause.workload === null;
  const gpus = `${plural(cause.gpus, "GPU")}${cause.bucket === "unallocated" ? " on average" : ""}`;
  return (
    <li>
      <b>{money(cause.amount, currency)}</b>
      <span>
        {isFleet ? "GPUs" : <Whose workload={cause.workload} team={cause.team} isFleet={false} />} {happened(cause)}
        <span class="soft">
          {" "}
          · {gpus}
          {cause.team !== null ? ` · team ${cause.team}` : ""}
        </span>
      </span>
    </li>
  );
}

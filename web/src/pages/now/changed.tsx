// What is not as it was yesterday.
import type { ComponentChildren } from "preact";
import { Link } from "../../core/route";
import { money, perHour } from "../../format/money";
import { plural } from "../../format/numbers";
import { moment } from "../../format/time";
import { Card } from "../../parts/card";
import { Empty } from "../../parts/states";
import { Whose, WorkloadLink, type NowAnswer } from "./said";

type Rate = NonNullable<NowAnswer["changes"]["teams"]>[number];

export function Changed({ now }: { now: NowAnswer }) {
  const since = now.is_yesterday ? "since yesterday" : `since ${moment(now.compared_ms)}, as far back as is known`;
  const lines = [...told(now)];
  return (
    <Card title="What changed" note={now.compared_ms === null ? "in the last day" : since}>
      {lines.length === 0 ? (
        <Empty what={now.compared_ms === null ? "It is not known: there is nothing to compare with." : "Nothing: the same workloads, teams and GPUs."} />
      ) : (
        <ul class="now-changes">
          {lines.map(([sign, text], i) => (
            <li key={i}>
              <span class="now-sign" aria-hidden="true">
                {sign}
              </span>
              <span>{text}</span>
            </li>
          ))}
        </ul>
      )}
      {now.compared_ms === null && <p class="soft">Rates cannot be compared: no earlier hour is booked.</p>}
    </Card>
  );
}

function* told(now: NowAnswer): Generator<[string, ComponentChildren]> {
  const { changes } = now;
  const currency = now.currency ?? undefined;
  const { incidents } = changes;
  if (incidents.count > 0) {
    const lost = incidents.lost === null ? "" : `, ${money(incidents.lost, currency)} lost`;
    yield [
      "●",
      <>
        <Link to="/incidents">{plural(incidents.count, "new incident")}</Link>, {incidents.over} of them over{lost}
      </>,
    ];
  }
  for (const one of changes.teams ?? []) {
    const isMore = Number(one.change) > 0;
    yield [
      isMore ? "▲" : "▼",
      <>
        <Whose workload={null} team={one.team} isFleet={one.is_fleet} /> {isMore ? "up" : "down"} by{" "}
        {perHour(Math.abs(Number(one.change)), currency)} to {perHour(one.per_hour ?? 0, currency)}
      </>,
    ];
  }
  const began = changes.began_count ?? 0;
  const ended = changes.ended_count ?? 0;
  if (began > 0) yield ["+", <Workloads rates={changes.began ?? []} count={began} did="began" />];
  if (ended > 0) yield ["−", <Workloads rates={changes.ended ?? []} count={ended} did={ended === 1 ? "holds no GPUs any more" : "hold no GPUs any more"} />];
  const gpus = changes.gpus === null || changes.gpus_before === null ? 0 : changes.gpus - changes.gpus_before;
  if (gpus !== 0) yield [gpus > 0 ? "+" : "−", <>{`${plural(Math.abs(gpus), "GPU")} ${gpus > 0 ? "more" : "fewer"}`}</>];
  for (const one of changes.lost_gpus) {
    yield [
      "✕",
      <>
        {plural(one.gpus, "GPU")} of <Link to="/fleet">{one.node}</Link> {one.gpus === 1 ? "does" : "do"} not report
      </>,
    ];
  }
}

function Workloads({ rates, count, did }: { rates: Rate[]; count: number; did: string }) {
  const more = count - rates.length;
  return (
    <>
      {plural(count, "workload")} {did}:{" "}
      {rates.map((one, i) => (
        <>
          {i > 0 && ", "}
          {one.workload !== null && <WorkloadLink workload={one.workload} />}
        </>
      ))}
      {more > 0 && ` and ${more} more`}
    </>
  );
}

// Money under the charts: how fast it goes, how much of that was of use, and what it comes to.
import { useMemo } from "preact/hooks";
import { money, perHour } from "../../format/money";
import { Bar } from "../../parts/bars";
import { Chart, type ChartMark, type Line } from "../../parts/chart";
import { Empty } from "../../parts/states";
import { bucketNames, bucketOf } from "../money/buckets";
import type { Timeline } from "./model";

interface Shared {
  timesMs: number[];
  fromMs: number;
  toMs: number;
  marks: ChartMark[];
  sync: string;
  onZoom: (fromMs: number, toMs: number) => void;
}

const HOUR_MS = 3_600_000;

export function Burning({ timeline, shared }: { timeline: Timeline; shared: Shared }) {
  const { currency, buckets, total } = timeline.money;
  const known = useMemo(() => {
    const names = Object.keys(buckets).sort((a, b) => bucketNames.indexOf(a) - bucketNames.indexOf(b));
    const perSlot = HOUR_MS / timeline.step_ms;
    const sum = (of: string[]) =>
      withoutEdges(
        timeline.money.total.map((told, i) =>
          told === null ? null : of.reduce((all, name) => all + (buckets[name]?.[i] ?? 0), 0) * perSlot,
        ),
      );
    const rates: Line[] = [
      { label: "burning", values: sum(names), colour: "--series-2", isFilled: true },
      {
        label: "of use",
        values: sum(names.filter((name) => !bucketOf(name).isForNothing)),
        colour: "--series-1",
        isFilled: true,
      },
    ];
    const spent: Line[] = [{ label: "spent so far", values: total, colour: "--series-8", isFilled: true }];
    const parts = names
      .map((name) => ({ name, value: (buckets[name] ?? []).reduce<number>((all, one) => all + (one ?? 0), 0) }))
      .filter((one) => one.value > 0.005);
    return { rates, spent, parts };
  }, [timeline]);
  if (currency === null) {
    return (
      <Empty
        what="What it cost is not known."
        todo={<>The ledger books within a minute, and knows what has a price: see the page Money.</>}
      />
    );
  }
  const say = (value: number) => money(value, currency);
  return (
    <>
      <Chart label="Burning" {...shared} height={96} noTimes lines={known.rates} say={(value) => perHour(value, currency)} fromZero />
      <Chart label="Spent so far" {...shared} height={112} lines={known.spent} say={say} />
      {known.parts.length > 0 && (
        <Bar
          label="What it was spent on in this time"
          parts={known.parts.map((one) => ({
            label: bucketOf(one.name).label,
            value: one.value,
            text: say(one.value),
            colour: bucketOf(one.name).colour,
            pattern: bucketOf(one.name).isForNothing,
          }))}
        />
      )}
    </>
  );
}

/** It was there, or is booked, for a part of the first and the last slot only: their rates are those beside them. */
function withoutEdges(rates: (number | null)[]): (number | null)[] {
  const first = rates.findIndex((one) => one !== null);
  const last = rates.findLastIndex((one) => one !== null);
  if (last - first < 2) return rates;
  const found = [...rates];
  found[first] = rates[first + 1] ?? null;
  found[last] = rates[last - 1] ?? null;
  return found;
}

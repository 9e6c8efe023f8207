// What every hour, or day, cost, and on what.
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { clock } from "../../format/time";
import { money } from "../../format/money";
import type { Part } from "../../parts/bars";
import { Card } from "../../parts/card";
import { Empty, Shown } from "../../parts/states";
import { Stacks, type Stack } from "../../parts/stacks";
import { EVERY_MS, type Query } from "./asked";
import { bucketNames, bucketOf } from "./buckets";
import { crossed, MOST_PARTS, OTHERS, type Cost, type Crossed } from "./crossed";
import { keyLabel } from "./dimensions";

const HOUR_MS = 3_600_000;
const BY_DAY_FROM_S = 4 * 86_400;
const TICKS = 12;
const SERIES = 8;

interface Props {
  asked: Query & { from: number; to: number };
  question: string; // its name
  columns: string;
  currency: string | null;
}

export function OverTime({ asked, question, columns, currency }: Props) {
  const time = asked.to - asked.from >= BY_DAY_FROM_S ? "day" : "hour";
  const by = columns === "hour" || columns === "day" ? [time] : [time, columns];
  const live = useAnswer(
    `${question} ${by.join()}`,
    (signal) => get("/api/cost", { query: { ...asked, by, compare: false } }, signal),
    { everyMs: EVERY_MS },
  );
  return (
    <Card title={time === "day" ? "Day by day" : "Hour by hour"} note={time === "day" ? "days of UTC" : undefined}>
      <Shown live={live}>{(cost) => <Picture cost={cost} currency={currency} />}</Shown>
    </Card>
  );
}

function Picture({ cost, currency }: { cost: Cost; currency: string | null }) {
  const found = crossed(cost, currency, cost.by[1] === "bucket" ? MOST_PARTS : undefined);
  if (found.rows.length === 0 || currency === null) {
    return <Empty what="No hour of this span has a price." />;
  }
  const looks = looksOf(cost.by[1] ?? "", found).filter((look) => found.rows.some((row) => row.cells[look.at]));
  const stacks = stacksOf(cost, found, looks);
  const say = (value: number) => money(value, currency);
  return (
    <>
      <Stacks stacks={stacks} label="Cost over time" say={say} />
      <ul class="legend">
        {looks.map((look) => (
          <li key={look.label}>
            <span
              class={look.pattern ? "swatch bar-hatched" : "swatch"}
              style={{ backgroundColor: look.colour }}
              aria-hidden="true"
            />
            {look.label}
          </li>
        ))}
        {[...new Set(stacks.flatMap((stack) => stack.untold ?? []))].map((why) => (
          <li key={why}>
            <span class="swatch is-untold" aria-hidden="true" />
            {why}
          </li>
        ))}
      </ul>
    </>
  );
}

interface Look extends Omit<Part, "value" | "text"> {
  at: number; // the column's place
}

/** In the order in which they are stacked; buckets have colours of their own, which all pages share. */
function looksOf(dimension: string, found: Crossed): Look[] {
  const looks = found.columns.map((column, at): Look => {
    if (dimension === "bucket" && column.text !== OTHERS) {
      const bucket = bucketOf(column.text);
      return { at, label: bucket.label, colour: bucket.colour, pattern: bucket.isForNothing };
    }
    const isOthers = column.text === OTHERS;
    return {
      at,
      label: dimension === "" ? "all" : column.label,
      colour: isOthers ? "var(--text-soft)" : `var(--series-${(at % SERIES) + 1})`,
      pattern: isOthers,
    };
  });
  if (dimension !== "bucket") return looks;
  const order = (look: Look) => bucketNames.indexOf(found.columns[look.at]?.text ?? "") + 1 || bucketNames.length + 1;
  return looks.sort((a, b) => order(a) - order(b));
}

/** Every hour of the span has its place, also those of which nothing is booked. */
function stacksOf(cost: Cost, found: Crossed, looks: Look[]): Stack[] {
  const [dimension = "hour"] = cost.by;
  const stepMs = dimension === "day" ? 24 * HOUR_MS : HOUR_MS;
  const rows = new Map(found.rows.map((row) => [Number(row.key), row]));
  const first = Math.floor(cost.from_ms / stepMs) * stepMs;
  const places = Math.ceil((cost.to_ms - first) / stepMs);
  const every = Math.max(1, Math.ceil(places / TICKS));
  return Array.from({ length: places }, (_, i): Stack => {
    const ms = first + i * stepMs;
    const row = rows.get(ms);
    const label = keyLabel(dimension, ms);
    return {
      key: String(ms),
      label,
      tick: i % every === 0 ? (dimension === "day" ? label.slice(5) : clock(ms)) : "",
      isOpen: ms + stepMs > Date.now(),
      untold: row === undefined ? "not booked" : row.total === null ? "no price" : undefined,
      parts: looks.map(({ at, ...look }) => ({ ...look, value: row?.cells[at] ?? 0 })),
    };
  });
}

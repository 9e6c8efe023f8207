// What was spent, by any two dimensions, over time, against the span before; what was for nothing, and what is to come.
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { decoded, useParam, useRange, type Range } from "../../core/route";
import { money } from "../../format/money";
import { percent, plural } from "../../format/numbers";
import { Card } from "../../parts/card";
import { Select } from "../../parts/inputs";
import { Doubts, Empty, Shown } from "../../parts/states";
import { spanText, wholeHours } from "../now/said";
import { EVERY_MS } from "./asked";
import { bucketOf } from "./buckets";
import { Budgets } from "./budgets";
import { crossed, isBeforeWhole, type Cost } from "./crossed";
import { dimensionLabel, dimensions } from "./dimensions";
import { Export } from "./export";
import { ForNothing } from "./for_nothing";
import { OverTime } from "./over_time";
import { CrossTable } from "./table";
import { Units } from "./units";
import "./money.css";

const SHARED = [
  { value: "", label: "as set up" },
  { value: "none", label: "nobody" },
  { value: "by-cost", label: "who held the others" },
];

export default function Money() {
  const range = useRange();
  const [rows, setRows] = useParam("rows", "team");
  const [columns, setColumns] = useParam("columns", "bucket");
  const [share, setShare] = useParam("share");
  const [filters, setFilters] = useFilters();
  const span = wholeHours(range);
  const asked = { ...span, where: filters, share };
  const question = JSON.stringify([range.key, filters, share]);
  const by = rows === columns ? [rows] : [rows, columns];
  const live = useAnswer(
    `${question} ${by.join()}`,
    (signal) => get("/api/cost", { query: { ...asked, by } }, signal),
    { everyMs: EVERY_MS },
  );
  const cost = live.isOther ? undefined : live.data; // the table's heading names what was asked
  return (
    <div class="money">
      <Shown live={live} what="Adding up the money" isNamed>
        {(cost) => <Headline cost={cost} range={range} />}
      </Shown>
      <div class="money-tools row">
        <Select label="Rows" value={rows} choices={dimensions} onChange={setRows} />
        <Select label="Columns" value={columns} choices={dimensions} onChange={setColumns} />
        <Select label="Free GPUs are paid by" value={share} choices={SHARED} onChange={setShare} />
        {filters.map((one) => (
          <button
            key={one}
            type="button"
            class="money-filter"
            onClick={() => setFilters(filters.filter((other) => other !== one))}
            aria-label={`Only ${filterText(one)}: leave this out`}
          >
            only {filterText(one)} <span aria-hidden="true">✕</span>
          </button>
        ))}
        {cost !== undefined && <Export cost={cost} query={{ ...span, where: filters }} />}
      </div>
      <OverTime asked={asked} question={question} columns={columns} currency={mainCurrency(live.data)} />
      {cost !== undefined && (
        <Card
          title={`By ${dimensionLabel(rows)}${rows === columns ? "" : ` and ${dimensionLabel(columns)}`}`}
          note={comparedText(cost)}
        >
          <CrossTable
            cost={cost}
            found={crossed(cost, mainCurrency(cost))}
            currency={mainCurrency(cost)}
            onOnly={(where) => setFilters([...filters, where])}
          />
        </Card>
      )}
      <div class="money-columns">
        <ForNothing asked={{ ...span, where: filters }} question={question} range={range} />
        <div class="stack">
          <Budgets where={filters} />
          <Units asked={{ ...span, where: filters }} question={question} />
        </div>
      </div>
    </div>
  );
}

/** Several in one parameter of the address, each escaped. One that was cut off is left out. */
function useFilters(): [string[], (filters: string[]) => void] {
  const [text, setText] = useParam("where");
  const filters = text === "" ? [] : text.split(",").flatMap((one) => decoded(one) ?? []);
  return [filters, (chosen) => setText([...new Set(chosen)].map(encodeURIComponent).join(","))];
}

function filterText(where: string): string {
  const at = where.indexOf("=");
  const value = where.slice(at + 1);
  const name = dimensionLabel(where.slice(0, at));
  return value === "" ? `without a ${name}` : `${name} ${value.split("/").at(-1) ?? value}`;
}

/** That of the largest amount; the others are told below the headline. */
function mainCurrency(cost: Cost | undefined): string | null {
  return cost?.totals[0]?.currency ?? null;
}

function Headline({ cost, range }: { cost: Cost; range: Range }) {
  const [total, ...others] = cost.totals;
  if (total?.now == null) {
    return (
      <Empty
        what={`Nothing is booked ${spanText(range)}.`}
        todo="An hour is booked within a minute of the first GPU that reports. Choose another span, or see what Doctor says."
      />
    );
  }
  const currency = total.currency ?? undefined;
  const more = others.filter((line) => line.now !== null && line.currency !== null);
  return (
    <header class="money-headline">
      <h1>
        <strong>{total.now.amount === null ? "An unknown amount" : money(total.now.amount, currency)}</strong> were spent{" "}
        {spanText(range)}
        <span class="now-share">{[...said(cost)].join(" · ")}</span>
      </h1>
      {more.map((line) => (
        <p key={line.currency}>and {money(line.now?.amount, line.currency ?? undefined)}, which is not in the figures below</p>
      ))}
      <Doubts lines={doubts(cost)} />
    </header>
  );
}

function* said(cost: Cost): Generator<string> {
  const total = cost.totals[0];
  const currency = total?.currency ?? undefined;
  if (total?.change != null && cost.compared && !isBeforeWhole(cost)) {
    yield `not compared: of the span before, ${bookedText(cost)}`;
  } else if (total?.change != null && total.change_ratio !== null) {
    const change = Number(total.change);
    const than = change > 0 ? "more" : "less";
    const isSame = Math.abs(total.change_ratio) < 0.005;
    const ratio = percent(Math.abs(total.change_ratio));
    yield isSame ? "as much as in the span before" : `${money(Math.abs(change), currency)} (${ratio}) ${than} than in the span before`;
  }
  if (total?.now?.goodput != null) yield `goodput ${percent(total.now.goodput)}`;
  if (cost.by.includes("bucket") && cost.left_out === 0 && total?.now?.amount != null) {
    const lost = cost.lines
      .filter((line) => line.currency === total.currency && bucketOf(String(line.keys["bucket"])).isForNothing)
      .reduce((sum, line) => sum + Number(line.now?.amount ?? 0), 0);
    yield `${money(lost, currency)} (${percent(lost / Number(total.now.amount))}) for nothing`;
  }
}

function comparedText(cost: Cost): string {
  if (!cost.compared) return "nothing is known of the span before";
  return isBeforeWhole(cost) ? "compared with the span before, as long" : `not compared: of the span before, ${bookedText(cost)}`;
}

/** As in "1 of 12 hours is booked". */
function bookedText({ hours_before: before }: Cost): string {
  const booked = before?.booked ?? 0;
  return `${booked} of ${plural(before?.asked ?? 0, "hour")} ${booked === 1 ? "is" : "are"} booked`;
}

function doubts(cost: Cost): string[] {
  const { hours } = cost;
  const lines = cost.warnings.map((one) => (one.remedy ? `${one.text}: ${one.remedy}` : one.text));
  const missing = hours.asked - hours.booked;
  if (missing > 0) lines.unshift(`${missing} of ${plural(hours.asked, "hour")} ${missing === 1 ? "is" : "are"} not booked.`);
  if (cost.left_out > 0) lines.push(`${cost.left_out} smaller lines are left out.`);
  return lines;
}

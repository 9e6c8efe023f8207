// What a step, a million tokens, a request or a percent of improvement cost.
import { get, type Data } from "../../api/client";
import { useAnswer } from "../../api/use";
import type { components } from "../../api/schema";
import { Link, useParam, workloadPath } from "../../core/route";
import { money } from "../../format/money";
import { figure } from "../../format/numbers";
import { Card } from "../../parts/card";
import { Tabs } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import { Table, type Column } from "../../parts/table";
import type { Query } from "./asked";
import { isWorkload } from "./dimensions";

type Line = components["schemas"]["UnitLine"];

const UNITS = [
  { value: "step", label: "Step" },
  { value: "token", label: "Token" },
  { value: "request", label: "Request" },
  { value: "improvement", label: "Improvement" },
];
const MISSING: Record<string, string> = {
  step: "No run told of its steps in this time: a training script does with trilens.sdk.",
  token: "No run and no inference server told of tokens in this time.",
  request: "No inference server told of requests in this time.",
  improvement: "No run has two validation values and is booked from its beginning on.",
};

export function Units({ asked, question }: { asked: Query; question: string }) {
  const [per, setPer] = useParam("per", "step");
  const live = useAnswer(`units ${per} ${question}`, (signal) =>
    get("/api/cost/units", { query: { ...asked, per } }, signal),
  );
  return (
    <Card title="What one cost" actions={<Tabs label="Cost per" value={per} choices={UNITS} onChange={setPer} />}>
      <Shown live={live} isNamed>
        {(units) => (
          <>
            <p class="soft">By {units.unit}: {units.definition}.</p>
            <Table
              label={`Cost per ${units.unit}`}
              columns={columns(units)}
              rows={units.lines}
              rowKey={(line) => JSON.stringify(line.keys)}
              empty={<Empty what={MISSING[per] ?? "Nothing was counted in this time."} />}
            />
          </>
        )}
      </Shown>
    </Card>
  );
}

function columns({ unit, lines }: Data<"/api/cost/units">): Column<Line>[] {
  const isTold = lines.some((line) => line.units !== null && line.detail !== "");
  return [
    { key: "who", title: "Run or workload", sort: (line) => line.name, cell: (line) => <Who line={line} /> },
    {
      key: "each",
      title: `Per ${unit}`,
      align: "end",
      sort: (line) => (line.per_unit === null ? null : Number(line.per_unit)),
      cell: (line) => <b title={isPartlyTold(line) ? line.detail : undefined}>{unitPrice(line)}</b>,
    },
    {
      key: "amount",
      title: "Cost",
      align: "end",
      sort: (line) => (line.amount === null ? null : Number(line.amount)),
      cell: (line) => (line.amount === null ? "no price" : money(line.amount, line.currency ?? undefined)),
    },
    {
      key: "units",
      title: "Done",
      align: "end",
      sort: (line) => line.units,
      cell: (line) => (line.units === null ? line.detail || "–" : figure(line.units)),
    },
    ...(isTold ? [DETAIL] : []),
  ];
}

const DETAIL: Column<Line> = {
  key: "detail",
  title: "How it was told",
  cell: (line) => (line.units === null ? "" : <span class="money-told">{line.detail}</span>),
};

function Who({ line }: { line: Line }) {
  const workload = line.keys["workload"] ?? null;
  if (isWorkload(workload)) return <Link to={workloadPath(workload)}>{line.name ?? workload.name}</Link>;
  return <>{line.name ?? String(line.keys["run"] ?? "")}</>;
}

/** Its units are known of a part of the time: the price is of that part. As the server has it. */
function isPartlyTold(line: Line): boolean {
  return line.told !== null && line.told < 0.95;
}

/** Three digits that say something, however little one cost. */
function unitPrice(line: Line): string {
  if (line.per_unit === null) return "–";
  const about = isPartlyTold(line) ? "≈ " : "";
  const value = Number(line.per_unit);
  if (value >= 1 || value === 0) return about + money(value, line.currency ?? undefined);
  return about + money(0, line.currency ?? undefined).replace("0", value.toPrecision(3));
}

// Who spends most: now, and in the span of time that is shown.
import { Link, useParam, type Range } from "../../core/route";
import { money, perHour } from "../../format/money";
import { Card } from "../../parts/card";
import { Tabs } from "../../parts/inputs";
import { Empty } from "../../parts/states";
import { Table, type Column } from "../../parts/table";
import { spanText, Whose, type NowAnswer } from "./said";

type Spender = NowAnswer["teams"][number];

const BY = [
  { value: "workload", label: "Workloads" },
  { value: "team", label: "Teams" },
];

export function Spenders({ now, range }: { now: NowAnswer; range: Range }) {
  const [by, setBy] = useParam("by", "workload");
  const currency = now.currency ?? undefined;
  const rows = by === "team" ? now.teams : now.workloads;
  const columns: Column<Spender>[] = [
    {
      key: "who",
      title: by === "team" ? "Team" : "Workload",
      cell: (one) => (
        <>
          <Whose workload={one.workload} team={one.team} isFleet={one.is_fleet} />
          {one.workload !== null && one.team !== null && <span class="soft"> {one.team}</span>}
        </>
      ),
    },
    {
      key: "hour",
      title: "Now",
      align: "end",
      isWide: true,
      cell: (one) => (one.gpus === null ? "–" : one.per_hour === null ? "no price" : perHour(one.per_hour, currency)),
    },
    { key: "spent", title: "Spent", align: "end", cell: (one) => spent(one.spent, currency) },
    { key: "lost", title: "Lost", align: "end", cell: (one) => spent(one.lost, currency) },
  ];
  return (
    <Card
      title="Top spenders"
      note={spanText(range)}
      actions={<Tabs label="Top spenders by" value={by} choices={BY} onChange={setBy} />}
    >
      <Table
        label={`Top spenders by ${by}`}
        columns={columns}
        rows={rows}
        rowKey={(one) => JSON.stringify([one.workload, one.team, one.is_fleet])}
        empty={<Empty what="Nothing was spent in this time." todo={<Link to="/money">Money has other spans</Link>} />}
      />
    </Card>
  );
}

function spent(amount: string | null, currency: string | undefined): string {
  return amount === null ? "no price" : money(amount, currency);
}

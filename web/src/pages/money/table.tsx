// Rows and columns of money, with how much it was before.
import { Link, useParam, workloadPath } from "../../core/route";
import { money } from "../../format/money";
import { count, percent } from "../../format/numbers";
import { Empty } from "../../parts/states";
import { Table, type Column } from "../../parts/table";
import type { Cost, Crossed, Row } from "./crossed";
import { dimensionLabel, isWorkload, whereOf } from "./dimensions";

interface Props {
  cost: Cost;
  found: Crossed;
  currency: string | null;
  onOnly: (where: string) => void;
}

export function CrossTable({ cost, found, currency, onOnly }: Props) {
  const [sort, setSort] = useParam("sort", "-total");
  const [name = "", second] = cost.by;
  const said = (amount: number | null) => (amount === null ? "no price" : money(amount, currency ?? undefined));
  const columns: Column<Row>[] = [
    {
      key: "name",
      title: dimensionLabel(name),
      sort: (row) => row.label,
      cell: (row) => (
        <>
          {isWorkload(row.key) ? <Link to={workloadPath(row.key)}>{row.label}</Link> : row.label}
          <Only where={whereOf(name, row.key)} label={row.label} onOnly={onOnly} />
        </>
      ),
    },
    {
      key: "total",
      title: "Total",
      align: "end",
      sort: (row) => row.total,
      cell: (row) => <b>{said(row.total)}</b>,
    },
    {
      key: "change",
      title: "Change",
      align: "end",
      help: "Against the span before, which is as long",
      sort: (row) => (row.before === null ? null : (row.total ?? 0) - row.before),
      cell: (row) => <Change row={row} currency={currency} />,
    },
    ...(second === undefined ? [] : found.columns).map(
      (column, at): Column<Row> => ({
        key: `c${at}`,
        title: column.label,
        align: "end",
        isWide: true,
        sort: (row) => row.cells[at],
        cell: (row) => (row.cells[at] ? said(row.cells[at] ?? 0) : <span class="soft">–</span>),
      }),
    ),
    {
      key: "hours",
      title: "GPU-hours",
      align: "end",
      sort: (row) => row.gpuHours,
      cell: (row) => (
        <span title={row.unpricedHours > 0 ? `${count(row.unpricedHours)} of them without a price` : undefined}>
          {count(row.gpuHours)}
          {row.unpricedHours > 0 && <span class="soft"> ({count(row.unpricedHours)} unpriced)</span>}
        </span>
      ),
    },
  ];
  return (
    <Table
      label={`Cost by ${cost.by.join(" and ")}`}
      columns={columns}
      rows={found.rows}
      rowKey={(row) => row.text}
      sort={sort}
      onSort={setSort}
      empty={<Empty what="Nothing was spent here in this time." todo="Take a filter away, or choose a longer span." />}
    />
  );
}

function Only({ where, label, onOnly }: { where: string | null; label: string; onOnly: (where: string) => void }) {
  if (where === null) return null;
  return (
    <button type="button" class="money-only" onClick={() => onOnly(where)} aria-label={`Only ${label}`}>
      only
    </button>
  );
}

function Change({ row, currency }: { row: Row; currency: string | null }) {
  if (row.before === null || row.total === null) return <span class="soft">–</span>;
  const change = row.total - row.before;
  if (row.before === 0) return <span>{change === 0 ? <span class="soft">–</span> : "new"}</span>;
  if (Math.abs(change) < 0.005) return <span class="soft">the same</span>;
  const ratio = percent(Math.abs(change) / row.before);
  return (
    <span>
      {change > 0 ? "▲" : "▼"} {money(Math.abs(change), currency ?? undefined)} <span class="soft">{ratio}</span>
    </span>
  );
}

// A table that draws only the rows that can be seen: ten thousand scroll as ten do.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Empty } from "./states";

type Sortable = number | string | null | undefined;

export interface Column<R> {
  key: string;
  title: string;
  cell: (row: R) => ComponentChildren;
  sort?: (row: R) => Sortable; // a column without it cannot be sorted by
  align?: "end";
  isWide?: boolean; // left out where the window is narrow
  help?: string;
}

interface TableProps<R> {
  label: string;
  columns: Column<R>[];
  rows: R[];
  rowKey: (row: R) => string;
  sort?: string; // a column's key, with "-" before it for the largest first
  onSort?: (sort: string) => void;
  onOpen?: (row: R) => void;
  empty?: ComponentChildren;
  maxHeight?: string;
}

const NAMES = new Intl.Collator(undefined, { numeric: true }); // made once: comparing is what sorting costs
const ROW_PX = 34;
const BESIDE = 12; // rows that are drawn above and below what is seen
const VIRTUAL_FROM = 80;

export function sorted<R>(rows: R[], columns: Column<R>[], sort: string): R[] {
  const isDown = sort.startsWith("-");
  const by = columns.find((column) => column.key === sort.replace(/^-/, ""))?.sort;
  if (by === undefined) return rows;
  const keyed = rows.map((row): [Sortable, R] => [by(row), row]);
  keyed.sort(([a], [b]) => compared(a, b, isDown));
  return keyed.map(([, row]) => row);
}

/** What is not known comes last, whichever way the rest goes. */
function compared(a: Sortable, b: Sortable, isDown: boolean): number {
  if (a == null || b == null) return a == null && b == null ? 0 : a == null ? 1 : -1;
  const order = typeof a === "number" && typeof b === "number" ? a - b : NAMES.compare(String(a), String(b));
  return isDown ? -order : order;
}

export function Table<R>(props: TableProps<R>) {
  const { label, columns, rowKey, onOpen, empty, maxHeight = "70vh" } = props;
  const [ownSort, setOwnSort] = useState("");
  const sort = props.sort ?? ownSort;
  const setSort = props.onSort ?? setOwnSort;
  const rows = useMemo(() => sorted(props.rows, columns, sort), [props.rows, columns, sort]);
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(800);
  const [chosen, setChosen] = useState<string | null>(null); // by its key: rows come, go and change places
  const isVirtual = rows.length > VIRTUAL_FROM;
  const isEmpty = rows.length === 0;

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, [isEmpty]);
  useLayoutEffect(() => setTop(box.current?.scrollTop ?? 0), [isEmpty, isVirtual]); // few rows scroll unwatched
  useEffect(() => setChosen(null), [sort]);

  if (isEmpty) return <>{empty ?? <Empty what="Nothing to show." />}</>;
  const seen = Math.min(top, Math.max(0, rows.length * ROW_PX - height)); // there may have been more rows
  const first = isVirtual ? Math.max(0, Math.floor(seen / ROW_PX) - BESIDE) : 0;
  const last = isVirtual ? Math.min(rows.length, Math.ceil((seen + height) / ROW_PX) + BESIDE) : rows.length;

  const move = (event: KeyboardEvent) => {
    if (onOpen === undefined) return;
    const page = Math.max(1, Math.floor(height / ROW_PX) - 2);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    const step = steps[event.key];
    if (step === undefined && event.key !== "Enter") return;
    const at = rows.findIndex((row) => rowKey(row) === chosen);
    if (step !== undefined) {
      event.preventDefault();
      const next = Math.min(rows.length - 1, Math.max(0, at + step));
      setChosen(rowKey(rows[next] as R));
      const element = box.current;
      if (element !== null) {
        const y = next * ROW_PX;
        if (y < element.scrollTop) element.scrollTop = y;
        else if (y + 2 * ROW_PX > element.scrollTop + height) element.scrollTop = y + 2 * ROW_PX - height;
      }
    }
    const row = rows[at];
    if (event.key === "Enter" && row !== undefined) onOpen(row);
  };

  return (
    <div
      class="table-box"
      ref={box}
      style={{ maxHeight }}
      tabIndex={0}
      role="group"
      aria-label={label}
      onScroll={(event) => isVirtual && setTop(event.currentTarget.scrollTop)}
      onKeyDown={move}
    >
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.key} column={column} sort={sort} setSort={setSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="table-gap" aria-hidden="true" style={{ height: `${first * ROW_PX}px` }} />}
          {rows.slice(first, last).map((row, i) => (
            <tr
              key={rowKey(row)}
              aria-rowindex={first + i + 2}
              class={`${onOpen !== undefined ? "can-open" : ""} ${rowKey(row) === chosen ? "is-chosen" : ""}`}
              onClick={(event) => {
                if (onOpen !== undefined && !(event.target as Element).closest("a, button, input")) onOpen(row);
              }}
            >
              {columns.map((column) => (
                <td key={column.key} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {last < rows.length && (
            <tr class="table-gap" aria-hidden="true" style={{ height: `${(rows.length - last) * ROW_PX}px` }} />
          )}
        </tbody>
      </table>
    </div>
  );
}

function classOf<R>(column: Column<R>): string {
  return `${column.align === "end" ? "is-end" : ""} ${column.isWide ? "is-wide" : ""}`;
}

function Head<R>({
  column,
  sort,
  setSort,
}: {
  column: Column<R>;
  sort: string;
  setSort: (sort: string) => void;
}) {
  const isUp = sort === column.key;
  const isDown = sort === `-${column.key}`;
  const order = isUp ? "ascending" : isDown ? "descending" : undefined;
  return (
    <th scope="col" class={classOf(column)} aria-sort={order} title={column.help}>
      {column.sort === undefined ? (
        column.title
      ) : (
        <button type="button" onClick={() => setSort(isDown ? column.key : `-${column.key}`)}>
          {column.title}
          <span aria-hidden="true">{isUp ? " ↑" : isDown ? " ↓" : ""}</span>
        </button>
      )}
    </th>
  );
}

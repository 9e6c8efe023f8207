// The values of a moment, with a column for each label by which they differ.
import { useMemo } from "preact/hooks";
import { useParam } from "../../core/route";
import { plural } from "../../format/numbers";
import { moment } from "../../format/time";
import { Empty } from "../../parts/states";
import { Table, type Column } from "../../parts/table";
import type { Instant, InstantSeries, Listed } from "./ask";
import { naming } from "./series";
import type { Unit } from "./units";

const COLUMNS = 8;

export function AnswerTable({ found, atMs, unit }: { found: Listed; atMs: number; unit: Unit }) {
  const { answer, total } = found;
  if (answer.resultType === "scalar" || answer.resultType === "string") {
    return <p class="single-value">{answer.result[1]}</p>;
  }
  if (answer.resultType === "matrix") return <Raw answer={answer} />;
  return <Vector rows={answer.result} total={total} atMs={atMs} unit={unit} />;
}

function Vector({ rows, total, atMs, unit }: { rows: InstantSeries[]; total: number | null; atMs: number; unit: Unit }) {
  const [sort, setSort] = useParam("sort", "-value");
  const names = useMemo(() => naming(rows.map((row) => row.metric)), [rows]);
  const columns = useMemo((): Column<InstantSeries>[] => {
    const shown = names.differing.slice(0, COLUMNS);
    return [
      {
        key: "value",
        title: unit.name === "" ? "value" : `value (${unit.name})`,
        align: "end",
        sort: (row) => Number(row.value[1]),
        cell: (row) => <b title={row.value[1]}>{said(row.value[1], unit)}</b>,
      },
      ...shown.map(
        (name): Column<InstantSeries> => ({
          key: `label ${name}`,
          title: name === "__name__" ? "metric" : name,
          sort: (row) => row.metric[name],
          cell: (row) => <span title={row.metric[name]}>{row.metric[name] ?? ""}</span>,
        }),
      ),
    ];
  }, [names, unit]);
  if (rows.length === 0) {
    return (
      <Empty
        what={`No series has a value at ${moment(atMs)}.`}
        todo="Look further back with the span of time above, or take matchers away until something is left."
      />
    );
  }
  const shared = Object.entries(names.shared);
  return (
    <>
      <p class="soft">
        {total !== null && total > rows.length ? `${plural(rows.length, "series", "series")} of ${plural(total, "series", "series")}` : plural(rows.length, "series", "series")} at{" "}
        {moment(atMs)}
        {names.differing.length > COLUMNS && `; ${names.differing.length - COLUMNS} more labels are not shown`}
      </p>
      {shared.length > 0 && rows.length > 1 && (
        <p class="shared-labels">
          All of them:{" "}
          {shared.map(([name, value]) => (
            <span key={name}>
              {name === "__name__" ? "" : `${name}=`}
              <b>{value}</b>
            </span>
          ))}
        </p>
      )}
      {rows.length === 1 && shared.length > 0 && (
        <p class="shared-labels">
          {shared.map(([name, value]) => (
            <span key={name}>
              {name === "__name__" ? "" : `${name}=`}
              <b>{value}</b>
            </span>
          ))}
        </p>
      )}
      <Table
        label="Values"
        columns={columns}
        rows={rows}
        rowKey={(row) => JSON.stringify(row.metric)}
        sort={sort}
        onSort={setSort}
        maxHeight="60vh"
      />
    </>
  );
}

const SAMPLES = 100;

function Raw({ answer }: { answer: Extract<Instant, { resultType: "matrix" }> }) {
  if (answer.result.length === 0) return <Empty what="No series has a sample in that span." />;
  return (
    <>
      {answer.result.slice(0, SAMPLES).map((one) => (
        <details key={JSON.stringify(one.metric)} open={answer.result.length === 1}>
          <summary>
            <code>{naming([one.metric]).name(one.metric)}</code> <span class="soft">{plural(one.values.length, "sample")}</span>
          </summary>
          <pre class="raw">{one.values.map(([seconds, value]) => `${moment(seconds * 1000)}  ${value}`).join("\n")}</pre>
        </details>
      ))}
    </>
  );
}

function said(text: string, unit: Unit): string {
  const value = Number(text);
  return Number.isFinite(value) ? unit.say(value) : text;
}

// The same for a spreadsheet or another program.
import { addressOf } from "../../api/client";
import type { Query } from "./asked";
import { asCsv, type Cost } from "./crossed";

export function Export({ cost, query }: { cost: Cost; query: Query }) {
  const save = () => {
    const file = URL.createObjectURL(new Blob([asCsv(cost)], { type: "text/csv" }));
    const link = document.createElement("a");
    link.href = file;
    link.download = `trilens-cost-by-${cost.by.join("-")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(file), 1000);
  };
  return (
    <div class="money-export" role="group" aria-label="Export">
      <button type="button" onClick={save} title="The table below, as it is shown">
        CSV
      </button>
      <a href={addressOf("/api/cost/focus", { query: { ...query, format: "csv" } })} download title="All rows, as FOCUS 1.2">
        FOCUS CSV
      </a>
      <a href={addressOf("/api/cost/focus", { query: { ...query, format: "parquet" } })} download title="All rows, as FOCUS 1.2">
        FOCUS Parquet
      </a>
    </div>
  );
}

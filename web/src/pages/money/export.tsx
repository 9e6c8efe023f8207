// The same for a spreadsheet or another program.
import { useState } from "preact/hooks";
import { ApiError, getFile } from "../../api/client";
import type { Query } from "./asked";
import { asCsv, type Cost } from "./crossed";

const KEPT_MS = 1000; // until the browser has begun to write it

export function Export({ cost, query }: { cost: Cost; query: Query }) {
  const [told, setTold] = useState("");
  const table = () => save(new Blob([asCsv(cost)], { type: "text/csv" }), `trilens-cost-by-${cost.by.join("-")}.csv`);
  const focus = async (format: string) => {
    setTold("Being made…");
    try {
      const { file, name } = await getFile("/api/cost/focus", { query: { ...query, format } });
      save(file, name);
      setTold("");
    } catch (e) {
      setTold(e instanceof ApiError ? `${e.message} ${e.hint}` : String(e));
    }
  };
  return (
    <div class="money-export" role="group" aria-label="Export">
      <span class="soft" role="status">
        {told}
      </span>
      <button type="button" onClick={table} title="The table below, as it is shown">
        CSV
      </button>
      <button type="button" onClick={() => void focus("csv")} title="All rows, as FOCUS 1.2">
        FOCUS CSV
      </button>
      <button type="button" onClick={() => void focus("parquet")} title="All rows, as FOCUS 1.2">
        FOCUS Parquet
      </button>
    </div>
  );
}

function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}

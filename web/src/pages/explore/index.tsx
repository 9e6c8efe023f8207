// Any question, in PromQL.
import { useEffect, useMemo, useState } from "preact/hooks";
import { useAnswer } from "../../api/use";
import { setParams, useParam, useRange } from "../../core/route";
import { plural } from "../../format/numbers";
import { duration } from "../../format/time";
import { Card } from "../../parts/card";
import { Tabs } from "../../parts/inputs";
import { Empty, Failed, Shown } from "../../parts/states";
import { AnswerTable } from "./answer_table";
import { checked, DRAWN, faultIn, graphed, listed, type Graphed } from "./ask";
import { Editor, type Fault } from "./editor";
import { Examples } from "./examples";
import { Graph } from "./graph";
import { Past } from "./past";
import { remember } from "./history";
import { unitOf } from "./units";
import "./explore.css";

const SETTLE_MS = 350;
const AGAIN_MS = 15_000;

export default function Explore() {
  const [query, setQuery] = useParam("query");
  const [view, setView] = useParam("view", "graph");
  const [typed, setTyped] = useState(query);
  const [fault, setFault] = useState<Fault | null>(null);
  useEffect(() => setTyped(query), [query]);
  useChecked(typed, setFault);

  const run = (text: string) => {
    const asked = text.trim();
    if (asked === "") return;
    setTyped(asked);
    void check(asked, setFault).then((found) => {
      if (found === null) return; // it cannot be read, and says so at the spot
      if (asked !== query) setQuery(asked);
      remember(asked);
    });
  };
  const tidy = async () => setTyped((await check(typed, setFault)) ?? typed);

  return (
    <div class="stack explore">
      <h1 class="hidden">Explore</h1>
      <Card
        title="Ask anything"
        note="PromQL over all that is collected"
        actions={
          <>
            <Past onPick={run} />
            <button type="button" onClick={() => void tidy()} disabled={typed.trim() === ""}>
              Tidy
            </button>
            <button type="button" class="run" onClick={() => run(typed)} disabled={typed.trim() === ""}>
              Run
            </button>
          </>
        }
      >
        <Editor value={typed} fault={fault} onChange={setTyped} onRun={run} />
        <p id="editor-fault" class="fault" aria-live="polite" hidden={fault === null}>
          {fault !== null && (
            <>
              <b>{placeOf(typed, fault.at)}:</b> {fault.text}
            </>
          )}
        </p>
      </Card>
      {query === "" ? (
        <Examples onPick={run} />
      ) : (
        <Result key={query} query={query} view={view} setView={setView} />
      )}
    </div>
  );
}

/** The query written well; null where it cannot be read, which is marked. A server that does not answer is the
 *  answer's matter. */
async function check(
  query: string,
  setFault: (fault: Fault | null) => void,
  signal?: AbortSignal,
): Promise<string | null> {
  try {
    const found = await checked(query, signal);
    setFault(faultIn(query, found));
    return found.pretty;
  } catch {
    return query;
  }
}

/** Where it cannot be read is said while it is typed, once the typing pauses; that it is not written to its end
 *  yet, only when it is run. */
function useChecked(typed: string, setFault: (fault: Fault | null) => void): void {
  useEffect(() => {
    setFault(null);
    if (typed.trim() === "") return;
    const leaving = new AbortController();
    const isMeant = (fault: Fault | null) => fault !== null && fault.at < typed.trimEnd().length;
    const tell = (fault: Fault | null) => setFault(isMeant(fault) ? fault : null);
    const timer = setTimeout(() => void check(typed, tell, leaving.signal), SETTLE_MS);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [typed]);
}

function placeOf(query: string, at: number): string {
  const before = query.slice(0, at).split("\n");
  const column = (before.at(-1)?.length ?? 0) + 1;
  return before.length > 1 ? `line ${before.length}, column ${column}` : `column ${column}`;
}

function Result({ query, view, setView }: { query: string; view: string; setView: (view: string) => void }) {
  const range = useRange();
  const unit = useMemo(() => unitOf(query), [query]);
  const isGraph = view !== "table";
  const options = range.isLive ? { everyMs: AGAIN_MS } : {};
  const graph = useAnswer(
    isGraph ? `graph ${range.key} ${query}` : null,
    (signal) => graphed(query, ...spanOf(range), signal),
    options,
  );
  const table = useAnswer(
    isGraph ? null : `table ${range.key} ${query}`,
    (signal) => listed(query, spanOf(range)[1], signal),
    options,
  );
  const live = isGraph ? graph : table;
  const tabs = (
    <Tabs
      label="Shown as"
      value={isGraph ? "graph" : "table"}
      choices={[
        { value: "graph", label: "Graph" },
        { value: "table", label: "Table" },
      ]}
      onChange={setView}
    />
  );
  return (
    <Card title="Answer" note={isGraph && graph.data !== undefined && graph.error === undefined ? <Amount found={graph.data} /> : undefined} actions={tabs}>
      {live.error !== undefined && live.error.kind === "request" ? (
        <Failed error={live.error} />
      ) : isGraph ? (
        <Shown live={graph} what="Asking">
          {(found) =>
            found.series.length === 0 ? (
              <NothingFound />
            ) : (
              <Graph found={found} unit={unit} onZoom={range.setSpan} />
            )
          }
        </Shown>
      ) : (
        <Shown live={table} what="Asking">
          {(found) => <AnswerTable found={found} atMs={range.toMs} unit={unit} />}
        </Shown>
      )}
    </Card>
  );
}

/** A live span ends at the moment of asking, not of drawing. */
function spanOf(range: { fromMs: number; toMs: number; isLive: boolean }): [number, number] {
  const toMs = range.isLive ? Date.now() : range.toMs;
  return [toMs - (range.toMs - range.fromMs), toMs];
}

function Amount({ found }: { found: Graphed }) {
  const { series, total, stepMs } = found;
  const step = `a point every ${duration(stepMs / 1000)}`;
  if (total !== null && total <= series.length) return <>{`${plural(series.length, "series", "series")}, ${step}`}</>;
  const many = total === null ? "more" : plural(total, "series", "series");
  return (
    <>
      {`the first ${DRAWN} of ${many}, ${step}; `}
      <span>topk(10, …) or an aggregation shows those that matter</span>
    </>
  );
}

function NothingFound() {
  return (
    <Empty
      what="No series has a value in this span of time."
      todo={
        <>
          Take matchers away until something is left, or choose a longer span above.{" "}
          <button type="button" onClick={() => setParams({ range: "7d", from: "", to: "" })}>
            Look at the last 7 days
          </button>
        </>
      }
    />
  );
}

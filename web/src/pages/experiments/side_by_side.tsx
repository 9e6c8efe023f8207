// Chosen runs beside each other, with what differs marked.
import { useMemo } from "preact/hooks";
import { useParam } from "../../core/route";
import { count, figure, percent, plural } from "../../format/numbers";
import { duration } from "../../format/time";
import { Card } from "../../parts/card";
import { costText, keyOf, nameOf, valueOf, valueText, type Run } from "./model";

interface Line {
  name: string;
  values: string[];
  differs: boolean;
}

export function SideBySide({ runs, metric, onDrop }: { runs: Run[]; metric: string | null; onDrop: (key: string) => void }) {
  const [only, setOnly] = useParam("only", "differences");
  const params = useMemo(() => paramLines(runs), [runs]);
  const differing = params.filter((line) => line.differs);
  const shown = only === "all" ? params : differing;
  return (
    <Card
      title="Side by side"
      note={`${plural(differing.length, "parameter")} of ${params.length} differ${differing.length === 1 ? "s" : ""}`}
      actions={
        <label>
          <input
            type="checkbox"
            checked={only === "all"}
            onChange={(event) => setOnly(event.currentTarget.checked ? "all" : "differences")}
          />{" "}
          also what is alike
        </label>
      }
    >
      <div class="table-box" tabIndex={0} role="group" aria-label="Runs side by side">
        <table class="side">
          <thead>
            <tr>
              <th scope="col">of the run</th>
              {runs.map((run) => (
                <th scope="col" key={keyOf(run)}>
                  {nameOf(run)}{" "}
                  <button type="button" aria-label={`Leave out ${nameOf(run)}`} onClick={() => onDrop(keyOf(run))}>
                    ✕
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {outcomes(runs, metric).map((line) => (
              <Row key={line.name} line={line} isMarked={false} />
            ))}
          </tbody>
          <tbody>
            <tr>
              <th scope="colgroup" colSpan={runs.length + 1} class="side-part">
                Parameters
              </th>
            </tr>
            {shown.map((line) => (
              <Row key={line.name} line={line} isMarked={line.differs} />
            ))}
            {shown.length === 0 && (
              <tr>
                <td colSpan={runs.length + 1} class="soft">
                  {params.length === 0 ? "None of them told any parameter." : `All ${params.length} are alike.`}
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function Row({ line, isMarked }: { line: Line; isMarked: boolean }) {
  return (
    <tr class={isMarked ? "side-differs" : ""}>
      <th scope="row">
        {line.name}
        {isMarked && (
          <span class="side-mark" title="differs">
            {" "}
            ≠<span class="hidden"> differs</span>
          </span>
        )}
      </th>
      {line.values.map((value, i) => (
        <td key={i} title={value}>
          {value}
        </td>
      ))}
    </tr>
  );
}

function outcomes(runs: Run[], metric: string | null): Line[] {
  const line = (name: string, of: (run: Run) => string): Line => ({ name, values: runs.map(of), differs: false });
  return [
    line(`best ${metric ?? "value"}`, (run) => valueText(valueOf(run))),
    line("cost", costText),
    line("GPU-hours", (run) => (run.gpu_hours === null ? "–" : figure(run.gpu_hours))),
    line("steps", (run) => (run.step === null ? "–" : count(run.step))),
    line("took", (run) => took(run)),
    line("goodput", (run) => (run.cost?.goodput == null ? "–" : percent(run.cost.goodput))),
    line("state", (run) => run.state ?? "unknown"),
  ];
}

function took(run: Run): string {
  if (run.started_ms === null) return "–";
  return duration(((run.ended_ms ?? Date.now()) - run.started_ms) / 1000);
}

/** Those that differ first. A run that did not tell one differs from a run that did. */
function paramLines(runs: Run[]): Line[] {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.params)))].sort();
  const lines = names.map((name) => {
    const values = runs.map((run) => run.params[name] ?? "–");
    return { name, values, differs: new Set(values).size > 1 };
  });
  return [...lines.filter((line) => line.differs), ...lines.filter((line) => !line.differs)];
}

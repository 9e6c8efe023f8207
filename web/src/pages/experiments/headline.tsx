// The experiment in two sentences: which run is best for what, and what was spent for nothing.
import { money } from "../../format/money";
import { plural } from "../../format/numbers";
import { amountOf, bestOf, costText, nameOf, valueOf, valueText, type Run } from "./model";

export function Headline({ name, runs, metric }: { name: string; runs: Run[]; metric: string | null }) {
  const best = bestOf(runs);
  const currency = runs.find((run) => run.cost?.currency != null)?.cost?.currency ?? undefined;
  const total = runs.reduce((sum, run) => sum + (amountOf(run) ?? 0), 0);
  const unknown = runs.filter((run) => amountOf(run) === null).length;
  const front = runs.filter((run) => run.on_front).length;
  const stopped = runs.filter((run) => run.stopped !== null);
  const wasted = stopped.reduce((sum, run) => sum + Number(run.stopped?.cost?.amount ?? 0), 0);
  return (
    <header>
      <h1>
        {best === null
          ? `${name}: ${plural(runs.length, "run")}`
          : `${name}: ${nameOf(best)} is best, ${metric ?? "value"} ${valueText(valueOf(best))}${best.cost?.amount == null ? "" : ` for ${costText(best)}`}`}
      </h1>
      <p class="soft">
        {plural(runs.length, "run")}
        {unknown < runs.length && `, ${money(total, currency)} in all`}
        {unknown > 0 && unknown < runs.length && ` (${unknown} without a known cost)`}
        {front > 0 && `; ${front} on the Pareto front`}
        {stopped.length > 0 &&
          `; ${stopped.length} stopped improving${wasted > 0 ? `, and ${money(wasted, currency)} was spent after that` : ""}`}
        .
      </p>
    </header>
  );
}

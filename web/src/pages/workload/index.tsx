// One workload: what its program, its pods and its GPUs did, on one axis of time, and what that cost.
import { useMemo, useState } from "preact/hooks";
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { setParams, useParam, useRange, useRoute } from "../../core/route";
import { Doubts, Failed, Loading, Stale } from "../../parts/states";
import { Details } from "./details";
import { Header } from "./header";
import { Layers } from "./layers";
import { endOf, healthOf } from "./model";
import { RankHeat } from "./rank_heat";
import { StepOfRun } from "./step";
import { WhyOf } from "./why";
import "./workload.css";

const WORKLOAD = "/api/workloads/{cluster}/{namespace}/{kind}/{name}";
const LIVE_MS = 10_000;
const SLOWER_MS = 20_000;
const RUNS = 20;
const LATELY_S = 60;
const FEWEST = 10; // points of a timeline
const LISTED = 200; // members and GPUs: of thousands few are looked at, and all of them take a while to tell

export default function Page() {
  const { args } = useRoute();
  const range = useRange();
  const [rank, setRank] = useParam("rank");
  const [step, setStep] = useParam("step");
  const path = { cluster: "", namespace: "", kind: "", name: "", ...args };
  const whose = `${path.cluster}/${path.namespace}/${path.kind}/${path.name}`;
  const time = () => ({ from: range.fromMs / 1000, to: range.isLive ? undefined : range.toMs / 1000 });
  const everyMs = range.isLive ? LIVE_MS : undefined;

  const [isWhole, setWhole] = useState(false);
  const listed = isWhole ? undefined : LISTED;
  const detail = useAnswer(`detail ${whose} ${listed}`, (signal) => get(WORKLOAD, { path, query: { limit: listed } }, signal), { everyMs: LIVE_MS });
  const runs = useAnswer(`runs ${whose}`, (signal) => get("/api/runs", { query: { workload: whose, limit: RUNS } }, signal), { everyMs: LIVE_MS });
  const timeline = useAnswer(
    `timeline ${whose} ${range.key} ${rank}`,
    (signal) => get(`${WORKLOAD}/timeline`, { path, query: { ...time(), points: 360, rank } }, signal),
    { everyMs },
  );
  const ranks = useAnswer(
    `ranks ${whose} ${range.key}`,
    (signal) => get(`${WORKLOAD}/ranks`, { path, query: { ...time(), columns: 180, rows: 256 } }, signal),
    { everyMs: everyMs === undefined ? undefined : SLOWER_MS },
  );
  // How it is now, of which the curves of a past span do not tell.
  const lately = useAnswer(
    range.isLive ? null : `lately ${whose}`,
    (signal) => get(`${WORKLOAD}/timeline`, { path, query: { from: Date.now() / 1000 - LATELY_S, points: FEWEST } }, signal),
    { everyMs: LIVE_MS },
  );
  const isPast = timeline.isOther && timeline.data !== undefined && endOf(timeline.data) < Date.now() - 1000 * LATELY_S;
  const present = range.isLive ? (isPast ? undefined : timeline.data) : lately.data;
  const run = runs.data?.runs[0];
  const health = useMemo(
    () => (detail.data === undefined ? undefined : healthOf(detail.data, run, present?.troubles)),
    [detail.data, run, present],
  );

  if (detail.data === undefined || health === undefined) {
    if (detail.error === undefined) return <Loading what="Looking the workload up" />;
    return <Failed error={detail.error} reload={detail.reload} />;
  }
  const trainedBy = timeline.data?.program.run ?? run?.run ?? null;
  return (
    <div class="stack workload">
      <Header detail={detail.data} run={run} burning={(present ?? timeline.data)?.money} health={health} />
      <WhyOf subject={whose} range={range} />
      {timeline.data === undefined && timeline.error !== undefined && <Failed error={timeline.error} reload={timeline.reload} />}
      {timeline.data !== undefined && <Stale live={timeline} />}
      {timeline.warnings.length > 0 && <Doubts lines={timeline.warnings} />}
      {timeline.data === undefined ? (
        timeline.error === undefined && <Loading what="Reading its curves" />
      ) : (
        <div class="answer" aria-busy={timeline.isOther}>
          <Layers
            timeline={timeline.data}
            whose={detail.data.workload}
            runs={runs.data?.runs.length ?? 0}
            range={range}
            chosenStep={step}
            onStep={(n) => setStep(String(n))}
            onRank={setRank}
            life={lifeOf(detail.data.phases)}
          />
        </div>
      )}
      {step !== "" && trainedBy !== null && <StepOfRun run={trainedBy} step={step} onClose={() => setStep("")} />}
      {ranks.data !== undefined && ranks.data.ranks.length > 0 && (
        <div class="answer" aria-busy={ranks.isOther}>
          <RankHeat
            ranks={ranks.data}
            warnings={ranks.warnings}
            over={timeline.data && { fromMs: timeline.data.from_ms, toMs: endOf(timeline.data) }}
            chosen={rank}
            onChoose={(n) => setParams({ rank: n === null ? "" : String(n) })}
          />
        </div>
      )}
      <Details detail={detail.data} run={trainedBy} onRank={setRank} chosenRank={rank} onWhole={() => setWhole(true)} />
    </div>
  );
}

function lifeOf(phases: { from_ms: number }[]): number | null {
  return phases.length === 0 ? null : Math.min(...phases.map((one) => one.from_ms));
}

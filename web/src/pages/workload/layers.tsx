// Three layers on one axis of time, what went wrong above them, and money burning beneath.
import { useMemo } from "preact/hooks";
import type { Range } from "../../core/route";
import { celsius, figure, percent, short, watts } from "../../format/numbers";
import { duration, moment } from "../../format/time";
import { Card } from "../../parts/card";
import { Chart, type Line } from "../../parts/chart";
import { Empty } from "../../parts/states";
import { Burning } from "./burning";
import { Lanes } from "./lanes";
import { SYNC, endOf, marksOf, timesOf, type Timeline, type Whose } from "./model";

interface LayersProps {
  timeline: Timeline;
  whose: Whose;
  runs: number; // that it had; the latest is drawn
  range: Range;
  chosenStep: string;
  onStep: (step: number) => void;
  onRank: (rank: string) => void;
  life: number | null;
}

type Values = (number | null)[];

export function Layers({ timeline, whose, runs, range, chosenStep, onStep, onRank, life }: LayersProps) {
  const shared = useMemo(
    () => ({
      timesMs: timesOf(timeline),
      fromMs: timeline.from_ms,
      toMs: endOf(timeline),
      marks: marksOf(timeline),
      sync: SYNC,
      onZoom: range.setSpan,
    }),
    [timeline],
  );
  const lines = useMemo(() => linesOf(timeline), [timeline]);
  const { program, platform, gpus } = timeline;
  const pick = (i: number) => {
    const step = program.step[i];
    if (step != null) onStep(step);
  };
  const chart = { ...shared, height: 116, noTimes: true };
  return (
    <Card
      title="Over time"
      note={`${moment(timeline.from_ms)} – ${moment(endOf(timeline))}, one point for ${duration(timeline.step_ms / 1000)}; drag to zoom in`}
      actions={
        <>
          {timeline.rank !== null && (
            <button type="button" onClick={() => onRank("")}>
              Without rank {timeline.rank.rank}
            </button>
          )}
          {life !== null && (
            <button type="button" onClick={() => range.setSpan(life - 60_000, Date.now())}>
              Its whole life
            </button>
          )}
          {!range.isLive && (
            <button type="button" onClick={() => range.set("12h")}>
              Back to now
            </button>
          )}
        </>
      }
    >
      <Lanes timeline={timeline} whose={whose} />
      <h3 class="layer-name">
        Program {program.run !== null && <span class="soft">{saidOfRun(program.run, runs, lines.loss.length > 0, chosenStep)}</span>}
      </h3>
      {program.run === null ? (
        <Empty
          what="Its program told of no steps in this time."
          todo={
            <>
              Three lines in the training script bring loss, throughput, ranks and lineage: <code>trilens.init(…)</code>,{" "}
              <code>run.data(loader)</code>, <code>run.step()</code>.
            </>
          }
        />
      ) : (
        <>
          {lines.loss.length > 0 && <Chart label="Loss" {...chart} lines={lines.loss} say={figure} onPick={pick} />}
          {lines.rates.length > 0 && <Chart label="Throughput" {...chart} height={92} lines={lines.rates} say={short} fromZero />}
          {lines.norms.length > 0 && <Chart label="Gradient norm and learning rate" {...chart} height={84} lines={lines.norms} say={figure} />}
          {lines.steps.length > 0 && (
            <Chart label={`Step time of rank ${timeline.rank?.rank ?? ""}`} {...chart} height={92} lines={lines.steps} say={(ms) => duration(ms / 1000)} fromZero />
          )}
        </>
      )}
      <h3 class="layer-name">Platform</h3>
      <Chart label="Pods" {...chart} height={96} noTimes={false} lines={lines.pods} say={(n) => short(Math.round(n * 10) / 10)} fromZero />
      <h3 class="layer-name">
        Infrastructure {gpus.figures.length > 0 && <span class="soft">mean of its GPUs; the band is from the lowest to the highest</span>}
      </h3>
      {gpus.figures.length === 0 ? (
        <Empty what="None of its GPUs told of themselves in this time." todo={<>Is dcgm-exporter scraped? The page Doctor says what is missing.</>} />
      ) : (
        lines.gpus.map((one, i) => {
          const isLast = i === lines.gpus.length - 1;
          return <Chart key={one.name} label={one.label} {...chart} height={isLast ? 112 : 92} noTimes={!isLast} lines={one.lines} say={one.say} />;
        })
      )}
      <h3 class="layer-name">
        Money <span class="soft">{platform.phases.length > 0 ? "the ledger's hours, spread evenly over the time that it was there" : ""}</span>
      </h3>
      <Burning timeline={timeline} shared={shared} />
    </Card>
  );
}

function saidOfRun(run: string, runs: number, hasLoss: boolean, chosenStep: string): string {
  const which = runs > 1 ? `run ${run}, the latest of ${runs}` : `run ${run}`;
  const shown = chosenStep === "" ? "click a point of the loss for the batches of its step" : `step ${chosenStep} is shown below`;
  return hasLoss ? `${which}; ${shown}` : which;
}

const FIGURES: Record<string, { label: string; say: (value: number) => string }> = {
  activity: { label: "GPU activity", say: (v) => percent(v) },
  power: { label: "Power", say: watts },
  temperature: { label: "Temperature", say: celsius },
  sm_clock: { label: "SM clock", say: (v) => `${(v / 1e9).toFixed(2)} GHz` },
};

function linesOf(timeline: Timeline) {
  const { program, platform, gpus, rank } = timeline;
  const of = (role: string) => program.values.filter((one) => one.role === role);
  const loss: Line[] = [...of("loss"), ...of("validation")].slice(0, 4).map((one) => ({ label: one.name, values: joined(one.mean) }));
  const norms: Line[] = [...of("gradient_norm"), ...of("learning_rate")].slice(0, 2).map((one, i) => ({
    label: one.name,
    values: joined(one.mean),
    colour: `--series-${4 + i}`,
  }));
  const rates: Line[] = (
    [
      ["samples/s", program.samples_per_second],
      ["tokens/s", program.tokens_per_second],
    ] as [string, Values][]
  )
    .filter(([, values]) => values.some((one) => one !== null))
    .slice(0, 1)
    .map(([label, values]) => ({ label, values, colour: "--series-3", isFilled: true }));
  if (rates.length === 0 && program.steps_per_second.some((one) => one !== null)) {
    rates.push({ label: "steps/s", values: program.steps_per_second, colour: "--series-3", isFilled: true });
  }
  const steps: Line[] =
    rank === null
      ? []
      : [
          { label: `rank ${rank.rank}: whole step`, values: joined(rank.step_ms), colour: "--series-7", dash: [4, 3] },
          { label: "without waiting for others", values: joined(rank.own_ms), colour: "--series-2" },
        ];
  const pods: Line[] = [
    { label: "pods on nodes", values: platform.placed, colour: "--series-1", isFilled: true },
    { label: "waiting for a node", values: platform.waiting, colour: "--series-2", dash: [4, 3] },
  ];
  const ofGpus = gpus.figures.map((one, i) => {
    const told = FIGURES[one.figure] ?? { label: one.figure, say: short };
    const lines: Line[] = [{ label: told.label, values: one.mean, low: one.least, high: one.most, colour: `--series-${[1, 5, 2, 8][i] ?? 1}` }];
    const own = rank?.figures[one.figure];
    if (rank !== null && own !== undefined) lines.push({ label: `rank ${rank.rank}`, values: own, colour: "--series-4", dash: [5, 3], width: 2 });
    return { name: one.figure, label: told.label, say: told.say, lines };
  });
  return { loss, norms, rates, steps, pods, gpus: ofGpus };
}

const FEW = 6;

/** Steps may be further apart than the slots: a few empty ones between two points are no gap. */
function joined(values: Values): Values {
  const found = [...values];
  let last = -1;
  for (const [i, value] of values.entries()) {
    if (value === null) continue;
    const before = last < 0 ? null : values[last];
    if (before != null && i - last > 1 && i - last <= FEW) {
      for (let k = last + 1; k < i; k += 1) found[k] = before + ((value - before) * (k - last)) / (i - last);
    }
    last = i;
  }
  return found;
}

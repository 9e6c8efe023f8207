// Runs of an experiment side by side: what each reached, and what it cost.
import { useCallback, useMemo } from "preact/hooks";
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { setParams, useParam } from "../../core/route";
import { Card } from "../../parts/card";
import { Copied, Select, Tabs } from "../../parts/inputs";
import { Empty, Loading, Shown } from "../../parts/states";
import { CourseChart } from "./chart";
import { Headline } from "./headline";
import { bestAgainst, keyOf, NAMELESS, type Against, type Courses, type Experiment } from "./model";
import { RunTable } from "./run_table";
import { SideBySide } from "./side_by_side";
import "./experiments.css";

const AGAIN_MS = 30_000;

export default function Experiments() {
  const live = useAnswer("experiments", (signal) => get("/api/experiments", {}, signal), { everyMs: AGAIN_MS });
  return (
    <Shown live={live} what="Reading experiments">
      {(every) => (every.length === 0 ? <None /> : <Chosen every={every} />)}
    </Shown>
  );
}

function None() {
  return (
    <>
      <h1>No run is known yet.</h1>
      <Empty
        what="Runs come from programs with the SDK and from the trackers that are followed."
        todo={
          <>
            <p>Start a program under Trilens, without a change to its code:</p>
            <Copied text="trilens run -- python train.py" />
            <p>or follow MLflow, W&amp;B or TensorBoard, in trilens.yaml:</p>
            <Copied text={"mlflow:\n  url: http://mlflow:5000"} />
          </>
        }
      />
    </>
  );
}

function Chosen({ every }: { every: Experiment[] }) {
  const largest = useMemo(() => [...every].sort((a, b) => rank(b) - rank(a)), [every]);
  const [runs] = useParam("runs");
  const ofRun = every.find((one) => one.runs.some((run) => runs.split(",").includes(keyOf(run))));
  const [asked, choose] = useParam("experiment", nameOf(ofRun ?? largest[0]));
  const [metric, setMetric] = useParam("metric");
  const known = every.find((one) => nameOf(one) === asked);
  const query = { experiment: asked === NAMELESS ? null : asked, metric: metric === "" ? null : metric };
  const key = `${asked} ${metric}`;
  // Runs without a name are not asked for closely: there the list has all that is known of them.
  const closely = useAnswer(asked === NAMELESS ? null : `runs ${key}`, (signal) => get("/api/experiments", { query }, signal), {
    everyMs: AGAIN_MS,
  });
  const courses = useAnswer(`courses ${key}`, (signal) => get("/api/experiments/courses", { query }, signal), {
    everyMs: AGAIN_MS,
  });
  const names = courses.data?.names ?? [];
  const shownMetric = courses.data?.metric ?? null;
  const head = (
    <div class="row">
      <Select
        label="Experiment"
        value={asked}
        choices={[
          ...(known === undefined ? [{ value: asked, label: asked }] : []),
          ...largest.map((one) => ({ value: nameOf(one), label: `${nameOf(one)} (${one.runs.length})` })),
        ]}
        onChange={(name) => {
          setParams({ metric: "", runs: "" });
          choose(name);
        }}
      />
      {names.length > 0 && (
        <Select
          label="Metric"
          value={metric === "" ? (shownMetric ?? "") : metric}
          choices={[...new Set([...names, shownMetric ?? ""])].filter(Boolean).map((name) => ({ value: name, label: name }))}
          onChange={setMetric}
        />
      )}
    </div>
  );
  if (asked === NAMELESS && known !== undefined) return <Compared head={head} experiment={known} courses={courses} />;
  return (
    <Shown live={closely} what="Comparing runs">
      {(found) =>
        found[0] === undefined ? (
          <>
            {head}
            <Empty what={`No run of ${asked} is known.`} todo="Choose another one above." />
          </>
        ) : (
          <Compared head={head} experiment={found[0]} courses={courses} />
        )
      }
    </Shown>
  );
}

interface ComparedProps {
  head: preact.ComponentChildren;
  experiment: Experiment;
  courses: ReturnType<typeof useAnswer<Courses>>;
}

function Compared({ head, experiment, courses }: ComparedProps) {
  // What is best to begin with changes as runs are booked: what was chosen stays, for whoever gets the link.
  const [asked, setAgainst] = useParam("against");
  const against = asked === "" ? bestAgainst(courses.data) : asked;
  const [written, setWritten] = useParam("runs");
  const runs = experiment.runs;
  const chosen = useMemo(() => new Set(written === "" ? [] : written.split(",")), [written]);
  const toggle = useCallback(
    (key: string) => {
      const next = new Set(chosen);
      if (!next.delete(key)) next.add(key);
      setWritten([...next].join(","));
    },
    [chosen],
  );
  const compared = runs.filter((run) => chosen.has(keyOf(run)));
  const metric = courses.data?.metric ?? runs.find((run) => run.metric !== null)?.metric?.name ?? null;
  return (
    <div class="stack experiments">
      <div class="spread">
        <Headline name={nameOf(experiment)} runs={runs} metric={metric} />
        {head}
      </div>
      <Card
        title={`${metric ?? "Course"} against what it took`}
        note={courses.data?.of === "step" ? "medians of hundredths of each run" : courses.data?.of === "validation" ? "of its validations" : undefined}
        actions={
          <Tabs
            label="Against"
            value={against}
            onChange={setAgainst}
            choices={[
              { value: "money", label: "Money" },
              { value: "hours", label: "GPU-hours" },
              { value: "steps", label: "Steps" },
            ]}
          />
        }
      >
        {courses.data === undefined && courses.error === undefined ? (
          <Loading what="Reading their courses" />
        ) : (
          <Shown live={courses}>
            {(data) => (
              <CourseChart courses={data} runs={runs} against={against as Against} chosen={chosen} onPick={toggle} />
            )}
          </Shown>
        )}
      </Card>
      {compared.length > 1 && <SideBySide runs={compared} metric={metric} onDrop={toggle} />}
      <Card
        title="Runs"
        note={compared.length > 1 ? `${compared.length} chosen` : "choose two or more to see their parameters side by side"}
        actions={
          chosen.size > 0 && (
            <button type="button" onClick={() => setWritten("")}>
              Choose none
            </button>
          )
        }
      >
        <RunTable runs={runs} metric={metric} chosen={chosen} onChoose={toggle} />
      </Card>
    </div>
  );
}

function nameOf(experiment: Experiment | undefined): string {
  return experiment?.experiment ?? NAMELESS;
}

/** An experiment with a name and the most runs is what people want to see first. */
function rank(experiment: Experiment): number {
  return experiment.runs.length + (experiment.experiment === null ? -1e6 : 0);
}

// Loss against dollars: what each run had reached for its money, and which runs were worth theirs.
import { useMemo } from "preact/hooks";
import { money } from "../../format/money";
import { count, figure } from "../../format/numbers";
import { Empty } from "../../parts/states";
import { colourOf, dashOf, keyOf, nameOf, valueOf, type Against, type Courses, type Run } from "./model";
import { Xy, type XyLine, type XyPoint } from "./xy";

interface Shown {
  courses: Courses;
  runs: Run[];
  against: Against;
  chosen: Set<string>;
  onPick: (key: string) => void;
}

export function CourseChart({ courses, runs, against, chosen, onPick }: Shown) {
  const { lines, points, front } = useMemo(() => drawn(courses, runs, against, chosen), [courses, runs, against, chosen]);
  if (lines.length === 0) {
    return (
      <Empty
        what={
          against === "steps"
            ? "No run of it told a course of this metric."
            : "The ledger does not have the whole life of any of these runs."
        }
        todo={
          against === "steps"
            ? "run.log(loss=…) in the program tells one; so does trilens run."
            : "Choose steps above, or wait until their hours are booked."
        }
      />
    );
  }
  const currency = courses.currency ?? undefined;
  const sayX =
    against === "money"
      ? (value: number) => money(value, currency)
      : against === "hours"
        ? (value: number) => `${figure(value)} h`
        : (value: number) => count(value);
  const title = against === "money" ? "spent" : against === "hours" ? "GPU-hours" : "step";
  const metric = courses.metric ?? "value";
  return (
    <>
      <Xy
        label={`${metric} against ${title} of ${lines.length} runs; the table below has their figures`}
        lines={lines}
        points={points}
        front={front}
        sayX={sayX}
        sayY={(value) => figure(value, 3)}
        titleX={title}
        titleY={metric}
        onPick={onPick}
      />
      {against !== "steps" && (
        <p class="soft xy-key">
          <span aria-hidden="true">◆</span> no other run is as good and as cheap (dashed line: the Pareto front);{" "}
          <span aria-hidden="true">○</span> another is better for the same money. Each mark is a run’s best value at its
          whole cost.
        </p>
      )}
    </>
  );
}

function drawn(
  courses: Courses,
  runs: Run[],
  against: Against,
  chosen: Set<string>,
): { lines: XyLine[]; points: XyPoint[]; front: [number, number][] } {
  const byKey = new Map(courses.runs.map((course) => [course.run, course]));
  const lines: XyLine[] = [];
  const points: XyPoint[] = [];
  for (const [i, run] of runs.entries()) {
    const course = run.run === null ? undefined : byKey.get(run.run);
    if (course === undefined) continue;
    const x = against === "money" ? course.spent : against === "hours" ? course.gpu_hours : course.steps;
    if (x.length === 0) continue;
    const key = keyOf(run);
    const isFaint = chosen.size > 0 && !chosen.has(key);
    lines.push({ key, label: nameOf(run), colour: colourOf(i), dash: dashOf(i), x, y: course.values, isFaint });
    const whole = against === "money" ? Number(run.cost?.amount ?? NaN) : (run.gpu_hours ?? NaN);
    const best = valueOf(run);
    if (against !== "steps" && best !== null && Number.isFinite(whole)) {
      points.push({ key, label: nameOf(run), colour: colourOf(i), x: whole, y: best, isFront: run.on_front });
    }
  }
  const front = points
    .filter((point) => point.isFront)
    .map((point): [number, number] => [point.x, point.y])
    .sort(([a], [b]) => a - b);
  return { lines, points, front };
}

// A short walk from what the night cost to why. Its step is in the address: who leaves the path has left the tour.
import { useEffect, useRef } from "preact/hooks";
import { get, type Data } from "../api/client";
import { useAnswer } from "../api/use";
import { money } from "../format/money";
import { duration } from "../format/time";
import { go, setParams, useRoute, workloadPath } from "./route";

type Incident = Data<"/api/incidents">[number];

interface Step {
  title: string;
  text: string;
  path: string;
}

export function Tour() {
  const { query } = useRoute();
  const given = query.get("tour");
  const asked = useAnswer(given === null ? null : "tour", (signal) => get("/api/incidents", {}, signal));
  const box = useRef<HTMLElement>(null);
  const at = Math.max(0, Number(given) - 1);
  const end = () => setParams({ tour: "" });
  const isThere = asked.data !== undefined;
  useEffect(() => box.current?.focus(), [given, isThere]);
  useEffect(() => {
    if (given === null) return;
    const pressed = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !event.defaultPrevented && document.querySelector("dialog[open]") === null) end();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [given]);
  if (given === null || asked.data === undefined) return null;
  const steps = stepsOf(costliest(asked.data));
  const step = steps[at];
  if (step === undefined) return null;
  const show = (i: number) => {
    const next = steps[i];
    if (next === undefined) end();
    else go(`${next.path}${next.path.includes("?") ? "&" : "?"}tour=${i + 1}`);
  };
  return (
    <aside
      class="tour"
      ref={box}
      tabIndex={-1}
      aria-label="Tour"
      onKeyDown={(event) => {
        if (event.key === "ArrowRight") show(at + 1);
        else if (event.key === "ArrowLeft" && at > 0) show(at - 1);
      }}
    >
      <p class="soft">
        Tour · {at + 1} of {steps.length}
      </p>
      <h2>{step.title}</h2>
      <p>{step.text}</p>
      <div class="row">
        {at > 0 && (
          <button type="button" onClick={() => show(at - 1)}>
            Back
          </button>
        )}
        <button type="button" class="main-action" onClick={() => show(at + 1)}>
          {at === steps.length - 1 ? "Done" : "Next"}
        </button>
        <button type="button" class="plain" onClick={end}>
          Skip the tour
        </button>
      </div>
    </aside>
  );
}

function costliest(incidents: Incident[]): Incident | undefined {
  const ofJobs = incidents.filter((one) => one.subject.workload !== null && one.state !== "resolved");
  return ofJobs.sort((a, b) => Number(b.lost ?? 0) - Number(a.lost ?? 0))[0];
}

function stepsOf(incident: Incident | undefined): Step[] {
  const first = {
    title: "What the night cost",
    text: "The sentence at the top is the sum: what was spent, what of it was for nothing, and on what. It is made from the GPUs' own figures, the pods and what the programs report, nothing else.",
    path: "/",
  };
  if (incident === undefined) {
    return [first, { title: "Nothing is wrong now", text: "There is no open incident to walk through. Ctrl K finds workloads and pages.", path: "/workloads" }];
  }
  const subject = incident.subject.workload;
  const name = subject?.name ?? "The job";
  const workload = subject === null ? "/workloads" : workloadPath(subject);
  const lost = incident.lost === null ? "an unknown amount" : money(incident.lost, incident.currency ?? "USD");
  const lasted = duration(((incident.resolved_ms ?? Date.now()) - incident.onset_ms) / 1000);
  return [
    first,
    {
      title: "The costliest incident",
      text: `${incident.title}. It has lasted ${lasted} and cost ${lost}. All that belongs to one cause is in this one incident: what was seen, in which order, who was told, and what to do next.`,
      path: `/incidents/${encodeURIComponent(incident.id)}`,
    },
    {
      title: "The job, in three layers",
      text: `${name}: what its program reports, what its pods do and what its GPUs do share one time axis. Look for where the curves part: busy GPUs at little power, while no step is done.`,
      path: workload,
    },
    {
      title: "Why",
      text: "The verdict shows each question that was asked, its answer and the evidence for it, how sure it is, and what would make it surer. The command beside it is what to do next.",
      path: `${workload}?why=1`,
    },
    {
      title: "That is all",
      text: "Money shows where each GPU-hour went, Fleet every GPU, Explore takes PromQL. Ctrl K finds the rest; `trilens top` shows the same in a terminal.",
      path: "/money",
    },
  ];
}

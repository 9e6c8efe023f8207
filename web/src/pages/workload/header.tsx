// How it is, in one sentence, and the figures that people ask for first.
import { Link } from "../../core/route";
import { money, perHour } from "../../format/money";
import { count, percent } from "../../format/numbers";
import { duration } from "../../format/time";
import { Badge, type Tone } from "../../parts/badge";
import { Stat } from "../../parts/card";
import { Time } from "../../parts/time";
import type { Detail, Health, Run, Timeline } from "./model";

interface HeaderProps {
  detail: Detail;
  run: Run | undefined;
  burning: Timeline["money"] | undefined;
  health: Health;
}

export function Header({ detail, run, burning, health }: HeaderProps) {
  const { workload, spent } = detail;
  const where = [workload.kind, workload.namespace, workload.cluster].join(" · ");
  return (
    <section class="workload-head" aria-label="How it is">
      <div class="spread">
        <div class="workload-name">
          <h1>{workload.name}</h1>
          <span class="soft">{where}</span>
        </div>
        <div class="row">
          {workload.phase !== null && <Badge tone={phaseTone(workload.phase.phase)}>{workload.phase.phase}</Badge>}
          <span class="soft">{workload.team === null ? "no team" : `team ${workload.team}`}</span>
          {workload.experiment !== null && <span class="soft">experiment {workload.experiment}</span>}
          {workload.attempt > 0 && <span class="soft">attempt {workload.attempt + 1}</span>}
        </div>
      </div>
      <p class={`workload-health tone-${health.tone}`}>
        <Badge tone={health.tone}>{health.word}</Badge> <span>{health.sentence}</span>
        {health.trouble !== undefined && (
          <span class="soft">
            {" "}
            since <Time ms={health.trouble.from_ms} />
          </span>
        )}
        {health.trouble?.what === "incident" && (
          <Link to={`/incidents/${encodeURIComponent(health.trouble.id)}`}>Open the incident</Link>
        )}
      </p>
      <div class="workload-stats">
        <Spent spent={spent} money={burning} />
        <Stat
          label="Burning now"
          value={workload.gone !== null ? "nothing" : perHour(burning?.per_hour, burning?.currency ?? undefined)}
          note={workload.gone !== null ? "it is gone" : `${count(detail.gpus_held)} GPUs`}
        />
        <Progress run={run} />
        <Stat
          label="Of use"
          value={spent === null ? "unknown" : percent(spent.goodput)}
          note={spent?.for_nothing == null ? "of its GPU time" : `${money(spent.for_nothing, spent.currency ?? undefined)} for nothing`}
          tone={spent?.goodput != null && spent.goodput < 0.5 ? "warning" : "plain"}
        />
        <Stat
          label="Pods"
          value={`${workload.members.ready ?? workload.members.on_nodes} of ${workload.members.total}`}
          note={workload.members.ready === null ? "on nodes" : "ready"}
          tone={workload.members.ready !== null && workload.members.ready < workload.members.total ? "warning" : "plain"}
        />
      </div>
    </section>
  );
}

function Spent({ spent, money: layer }: { spent: Detail["spent"]; money: Timeline["money"] | undefined }) {
  const amount = spent?.amount ?? layer?.spent ?? null;
  const currency = spent?.currency ?? layer?.currency ?? undefined;
  const why = spent?.gap?.text ?? (spent === null ? "the ledger has not booked it yet" : "");
  const note = why !== "" ? why : spent?.provisional ? "so far; this hour is open" : "over its whole life";
  return <Stat label="Spent" value={amount === null ? "unknown" : money(amount, currency)} note={note} />;
}

function Progress({ run }: { run: Run | undefined }) {
  if (run === undefined) return <Stat label="Progress" value="unknown" note="no program told of a run" />;
  if (run.progress === null) {
    return <Stat label="Progress" value={run.step === null ? "unknown" : `step ${count(run.step)}`} note="it did not tell how many steps" />;
  }
  const left = run.time_left === null ? (run.state === "finished" ? "done" : "time left unknown") : `${duration(run.time_left.seconds)} left`;
  return (
    <Stat
      label="Progress"
      value={percent(run.progress)}
      note={
        <>
          <progress value={run.progress} max={1} aria-label="Progress" />
          step {count(run.steps_done)} of {count(run.total_steps)} · {left}
        </>
      }
    />
  );
}

function phaseTone(phase: string): Tone {
  if (phase === "running" || phase === "succeeded") return "good";
  if (phase === "failed") return "critical";
  return phase === "queued" || phase === "suspended" ? "muted" : "warning";
}

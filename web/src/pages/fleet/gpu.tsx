// One GPU's life: who held it when, what broke, what it read, what its hours went to.
import { useMemo } from "preact/hooks";
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { Link, useRange, useRoute, workloadPath } from "../../core/route";
import { money } from "../../format/money";
import { celsius, percent, plural, watts } from "../../format/numbers";
import { duration } from "../../format/time";
import { Badge, severityTone, type Tone } from "../../parts/badge";
import { Bar } from "../../parts/bars";
import { Card } from "../../parts/card";
import { Chart, type ChartMark } from "../../parts/chart";
import { byGravity } from "../../parts/gravity";
import { Empty, Shown } from "../../parts/states";
import { Time } from "../../parts/time";
import { bucketOf } from "../money/buckets";
import { HeldLanes, silencesOf, type Life } from "./held";
import "./fleet.css";

const EVERY_MS = 15_000;

export default function GpuPage() {
  const { args } = useRoute();
  const uuid = args["uuid"] ?? "";
  const range = useRange();
  const spanMs = range.toMs - range.fromMs;
  const live = useAnswer(
    `gpu ${uuid} ${range.key}`,
    (signal) => {
      const toMs = range.isLive ? Date.now() : range.toMs;
      const query = { from: (toMs - spanMs) / 1000, to: toMs / 1000 };
      return get("/api/gpus/{uuid}/life", { path: { uuid }, query }, signal);
    },
    range.isLive ? { everyMs: EVERY_MS } : {},
  );
  return (
    <Shown live={live} what="Reading its life">
      {(life) => <OneLife life={life} onZoom={range.setSpan} />}
    </Shown>
  );
}

const STATES: Record<string, { tone: Tone; word: string }> = {
  reporting: { tone: "good", word: "reporting" },
  silent: { tone: "warning", word: "silent" },
  lost: { tone: "critical", word: "lost" },
};

function OneLife({ life, onZoom }: { life: Life; onZoom: (fromMs: number, toMs: number) => void }) {
  const state = STATES[life.state] ?? { tone: "plain" as Tone, word: life.state };
  const now = life.held.filter((one) => one.to_ms === null);
  const [worst] = life.findings.filter((one) => one.ended_ms === null).sort((a, b) => byGravity(a, b) || a.onset_ms - b.onset_ms);
  return (
    <div class="gpu-life stack">
      <header>
        <p class="soft">
          <Link to="/fleet">Fleet</Link> / {life.node}
        </p>
        <h1>
          {life.number === null ? "A GPU" : `GPU ${life.number}`} of {life.node} <Badge tone={state.tone}>{state.word}</Badge>
        </h1>
        {worst !== undefined && (
          <div class={`notice notice-${worst.severity === "critical" ? "critical" : "warning"}`}>
            <p>
              <b>{worst.text}</b>
            </p>
            <p>{worst.action}</p>
          </div>
        )}
        <p class="gpu-facts">
          <span>{life.model ?? "model unknown"}</span>
          {life.cluster !== "" && <span>cluster {life.cluster}</span>}
          <span>
            {now.length === 0 ? (
              "nobody holds it"
            ) : (
              <>
                held by{" "}
                {now.map((one, i) => (
                  <span key={one.pod}>
                    {i > 0 && ", "}
                    {one.workload === null ? one.pod : <Link to={workloadPath(one.workload)}>{one.workload.name}</Link>}
                  </span>
                ))}
              </>
            )}
          </span>
          {life.first_seen_ms !== null && (
            <span>
              first seen <Time ms={life.first_seen_ms} />
            </span>
          )}
          <code class="gpu-uuid">{life.uuid}</code>
        </p>
      </header>
      <Card title="What it did" note="drag over a curve to look closer">
        <h3>Held by</h3>
        <HeldLanes life={life} />
        <Readings life={life} onZoom={onZoom} />
      </Card>
      <div class="grid">
        <Card class="span-6" title="What happened to it" note={summaryOf(life)}>
          <Happened life={life} />
        </Card>
        <Card class="span-6" title="Where its hours went" note="whole hours, by the ledger">
          <Hours life={life} />
        </Card>
      </div>
    </div>
  );
}

function Readings({ life, onZoom }: { life: Life; onZoom: (fromMs: number, toMs: number) => void }) {
  const { curves } = life;
  const marks = useMemo(() => marksOf(life), [life]);
  const isEmpty = [curves.utilization, curves.temperature_celsius, curves.power_watts].every((line) =>
    line.every((value) => value === null),
  );
  if (isEmpty) return <Empty what="It said nothing of itself in this time." todo="Choose another span of time above." />;
  const shared = { timesMs: curves.times_ms, sync: "gpu", marks, onZoom, fromMs: life.from_ms, toMs: life.to_ms, height: 120 };
  return (
    <div class="gpu-charts">
      <Chart {...shared} label="How busy it was" lines={[line("busy", curves.utilization, 1), line("memory used", curves.memory_used, 4)]} say={percent} fromZero noTimes />
      <Chart {...shared} label="Its temperature" lines={[line("temperature", curves.temperature_celsius, 2)]} say={celsius} noTimes />
      <Chart {...shared} label="Its power" lines={[line("power", curves.power_watts, 3)]} say={watts} fromZero height={140} />
    </div>
  );
}

function line(label: string, values: (number | null)[], colour: number) {
  return { label, values, colour: `--series-${colour}` };
}

function marksOf(life: Life): ChartMark[] {
  return [
    ...silencesOf(life).map(([atMs, toMs]): ChartMark => ({ atMs, toMs, label: "silent", tone: "muted" })),
    ...life.findings.map(
      (one): ChartMark => ({
        atMs: one.onset_ms,
        toMs: one.ended_ms ?? life.to_ms,
        label: one.code,
        tone: severityTone(one.severity),
      }),
    ),
    ...life.events.map((one): ChartMark => ({ atMs: one.t_ms, label: one.title ?? one.kind, tone: "critical" })),
  ];
}

function summaryOf(life: Life): string {
  const faults = life.events.length;
  const silences = silencesOf(life).length;
  return [faults > 0 ? plural(faults, "fault") : "", silences > 0 ? plural(silences, "silence") : ""].filter(Boolean).join(", ");
}

interface Happening {
  key: string;
  atMs: number;
  tone: Tone;
  word: string;
  text: string;
  note: string;
}

function Happened({ life }: { life: Life }) {
  const found: Happening[] = [
    ...life.events.map((one, i) => ({
      key: `event ${i}`,
      atMs: one.t_ms,
      tone: "critical" as Tone,
      word: one.code === null ? one.kind : `${one.kind === "xid" ? "Xid" : one.kind} ${one.code}`,
      text: one.title ?? one.text,
      note: one.asks === null ? "" : `asks for: ${one.asks.replaceAll("-", " ")}`,
    })),
    ...life.findings.map((one) => ({
      key: one.id + one.onset_ms,
      atMs: one.onset_ms,
      tone: severityTone(one.severity),
      word: one.severity,
      text: one.text,
      note: one.ended_ms === null ? "lasts" : `over after ${duration((one.ended_ms - one.onset_ms) / 1000)}`,
    })),
    ...silencesOf(life).map(([a, b]) => ({
      key: `silence ${a}`,
      atMs: a,
      tone: "muted" as Tone,
      word: "silent",
      text: `It did not report for ${duration((b - a) / 1000)}`,
      note: b >= life.to_ms ? "lasts" : "a reset, a driver that was loaded anew, or an exporter that was away",
    })),
  ].sort((a, b) => b.atMs - a.atMs);
  if (found.length === 0) return <p class="soft">Nothing: no fault, no finding, no silence in this time.</p>;
  return (
    <ul class="fleet-broken">
      {found.map((one) => (
        <li key={one.key}>
          <Badge tone={one.tone}>{one.word}</Badge>
          <div>
            <div>
              <Time ms={one.atMs} /> {one.text}
            </div>
            {one.note !== "" && <div class="soft">{one.note}</div>}
          </div>
        </li>
      ))}
    </ul>
  );
}

function Hours({ life }: { life: Life }) {
  if (life.buckets.length === 0) return <p class="soft">The ledger has no hour of it in this time.</p>;
  const currency = life.currency ?? undefined;
  const parts = life.buckets.map((one) => {
    const bucket = bucketOf(one.bucket);
    const hours = duration(one.gpu_ms / 1000);
    return {
      label: bucket.label,
      value: one.gpu_ms,
      text: one.amount === null ? hours : `${hours}, ${money(one.amount, currency)}`,
      colour: bucket.colour,
      pattern: bucket.isForNothing,
    };
  });
  return <Bar label="Where its hours went" parts={parts} />;
}

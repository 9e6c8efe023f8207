// One service: what is promised, what it does over time, what nobody tells of it.
import { get, type Data } from "../../api/client";
import { useAnswer } from "../../api/use";
import { Link, useRange, workloadPath } from "../../core/route";
import { money, perHour } from "../../format/money";
import { count, figure, percent, plural, rate } from "../../format/numbers";
import { severityTone, type Tone } from "../../parts/badge";
import { Card, Stat } from "../../parts/card";
import { Chart, type ChartMark, type Line } from "../../parts/chart";
import { Prose } from "../../parts/prose";
import { Shown } from "../../parts/states";
import { Slos } from "./slos";
import { burnText, figureName, partsOf, seconds, stateOf, type Detail, type Service } from "./model";

const EVERY_MS = 15_000;
const SHOWN_INCIDENTS = 5;
const PERCENTILES = ["p50", "p95", "p99"];
const STYLES = [{ colour: "--series-3" }, { colour: "--series-1" }, { colour: "--series-2", width: 2 }];

export function ServicePanel({ name }: { name: string }) {
  const range = useRange();
  const parts = partsOf(name);
  const query = () => ({ from: range.fromMs / 1000, to: range.toMs / 1000 });
  const everyMs = range.isLive ? EVERY_MS : undefined;
  const live = useAnswer(
    parts === null ? null : `${name} ${range.key}`,
    (signal) => get("/api/services/{cluster}/{namespace}/{name}", { path: parts ?? {}, query: query() }, signal),
    { everyMs },
  );
  const incidents = useAnswer(
    parts === null ? null : `incidents ${name} ${range.key}`,
    (signal) => get("/api/incidents", { query: { ...query(), workload: parts?.name } }, signal),
    { everyMs },
  );
  const marks = (incidents.data ?? []).map((one): ChartMark => ({
    atMs: one.onset_ms,
    toMs: one.resolved_ms ?? range.toMs,
    label: one.title,
    tone: severityTone(one.severity),
  }));
  return (
    <Shown live={live} what="Reading what it does">
      {(detail) => (
        <div class="stack">
          <Head service={detail.service} />
          <div class="grid">
            <div class="span-5 stack">
              <Card title="What is promised">
                <Slos service={detail.service} />
                <Incidents incidents={incidents.data ?? []} name={detail.service.name} />
              </Card>
              <Untold service={detail.service} />
            </div>
            <div class="span-7 stack">
              <Curves detail={detail} marks={marks} onZoom={range.setSpan} />
            </div>
            <Models detail={detail} />
          </div>
        </div>
      )}
    </Shown>
  );
}

type Incident = Data<"/api/incidents">[number];

function Head({ service }: { service: Service }) {
  const currency = service.currency ?? undefined;
  const tone: Tone = stateOf(service.state).tone;
  const isWorkload = service.kind !== null;
  return (
    <Card
      title={service.name}
      note={[service.kind, service.namespace, service.cluster, service.team && `team ${service.team}`, service.servers.join(", "), service.models.join(", ")]
        .filter(Boolean)
        .join(" · ")}
      actions={
        isWorkload && (
          <Link to={workloadPath({ ...service, kind: service.kind ?? "" })}>Its pods and GPUs</Link>
        )
      }
    >
      <div class="service-stats">
        <Stat label="Requests" value={rate(service.requests_per_s, "req").replace(" req/s", "/s")} note={service.errors_ratio === null ? "errors are not told" : `${percent(service.errors_ratio, 2)} fail`} />
        <Stat label="Latency p99" value={seconds(service.latency.p99)} note={service.latency.p50 == null && service.latency_mean_s !== null ? `mean ${seconds(service.latency_mean_s)}` : `p50 ${seconds(service.latency.p50)}, p95 ${seconds(service.latency.p95)}`} tone={tone === "critical" ? "critical" : "plain"} />
        <Stat label="First token p95" value={seconds(service.ttft.p95)} note={`p50 ${seconds(service.ttft.p50)}, p99 ${seconds(service.ttft.p99)}`} />
        <Stat label="Per token p50" value={seconds(service.per_token.p50)} note={`p95 ${seconds(service.per_token.p95)}`} />
        <Stat label="Waiting" value={service.waiting === null ? "–" : count(service.waiting)} note={service.running === null ? "running is not told" : `${count(service.running)} running`} tone={service.waiting !== null && service.running !== null && service.waiting > service.running ? "warning" : "plain"} />
        <Stat label="Costs" value={service.per_hour === null ? "–" : perHour(service.per_hour, currency)} note={service.per_hour === null ? "no price is known" : [service.gpus !== null && plural(service.gpus, "GPU"), service.per_1k_requests !== null && `${money(service.per_1k_requests, currency)} per 1,000 requests`, service.per_1m_tokens !== null && `${money(service.per_1m_tokens, currency)} per million tokens in and out`, service.per_1m_completion_tokens !== null && `${money(service.per_1m_completion_tokens, currency)} per million that come out`].filter(Boolean).join(", ")} />
      </div>
    </Card>
  );
}

function Incidents({ incidents, name }: { incidents: Incident[]; name: string }) {
  if (incidents.length === 0) return null;
  return (
    <>
      <h3>Incidents in this time</h3>
      <ul class="plain-list">
        {incidents.slice(0, SHOWN_INCIDENTS).map((one) => (
          <li key={one.id}>
            <Link to={`/incidents/${one.id}`}>{one.title}</Link> <span class="soft">{one.resolved_ms === null ? "open" : "over"}</span>
          </li>
        ))}
      </ul>
      {incidents.length > SHOWN_INCIDENTS && (
        <Link to="/incidents" params={{ workload: name }}>
          All {incidents.length}
        </Link>
      )}
    </>
  );
}

function Curves({ detail, marks, onZoom }: { detail: Detail; marks: ChartMark[]; onZoom: (fromMs: number, toMs: number) => void }) {
  const { curves, t_ms: timesMs } = detail;
  const nothing = timesMs.map(() => null);
  const line = (name: string, label: string, style: Partial<Line> = {}): Line[] => {
    const values = curves[name];
    return values === undefined ? [] : [{ label, values, ...style }];
  };
  const quantiles = (name: string) => PERCENTILES.flatMap((p, i) => line(`${name}_${p}`, p, STYLES[i]));
  const failed = curves["proxied_errors_per_s"] === undefined ? "errors_per_s" : "proxied_errors_per_s";
  const shared = { timesMs, marks, onZoom, sync: "service", fromZero: true, fromMs: detail.from_ms, toMs: detail.to_ms };
  const charts: { title: string; note?: string; lines: Line[]; say?: (value: number) => string }[] = [
    { title: "Latency", note: "whole requests", lines: quantiles("latency"), say: seconds },
    { title: "Time to first token", lines: quantiles("ttft"), say: seconds },
    {
      title: "Queue",
      note: "requests at once",
      lines: [...line("waiting", "waiting", { colour: "--series-2", isFilled: true }), ...line("running", "running", { colour: "--series-1" })],
    },
    {
      title: "Requests",
      note: "a second",
      lines: [...line("requests_per_s", "requests", { colour: "--series-1" }), ...line(failed, "failed", { colour: "--series-2" })],
      say: (value) => figure(value, 2),
    },
    {
      title: "Pace of spending the error budget",
      note: "over an hour; above 1× it does not last",
      lines: detail.slo_curves.map((one) => ({ label: one.name, values: one.burn_rate })),
      say: burnText,
    },
  ];
  const told = charts.filter((chart) => chart.lines.length > 0);
  return (
    <Card title="Over time" note="drag over a stretch to look closer; incidents are shaded">
      {told.map((chart, i) => (
        <figure key={chart.title} class="service-chart">
          <figcaption>
            <b>{chart.title}</b> <span class="soft">{chart.note}</span>
          </figcaption>
          <Chart {...shared} label={`${chart.title} over time`} lines={chart.lines} say={chart.say} height={120} noTimes={i < told.length - 1} />
        </figure>
      ))}
      {told.length === 0 && <Chart {...shared} label="Nothing was told in this time" lines={[{ label: "nothing told", values: nothing }]} />}
    </Card>
  );
}

function Models({ detail }: { detail: Detail }) {
  if (detail.models.length < 2) return null;
  return (
    <Card title="By model" class="span-12">
      <div class="table-box">
        <table>
          <thead>
            <tr>
              {["Model", "Server", "Requests/s", "p50", "p95", "p99", "TTFT p95", "Running", "Waiting"].map((title, i) => (
                <th key={title} scope="col" class={i > 1 ? "is-end" : ""}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {detail.models.map((one) => (
              <tr key={`${one.server}/${one.model}/${one.version}`}>
                <td>{[one.model ?? "unnamed", one.version].filter(Boolean).join(" · ")}</td>
                <td>{one.server}</td>
                <td class="is-end">{figure(one.requests_per_s)}</td>
                {[one.latency.p50, one.latency.p95, one.latency.p99, one.ttft.p95].map((value, i) => (
                  <td key={i} class="is-end">
                    {seconds(value)}
                  </td>
                ))}
                <td class="is-end">{one.running === null ? "–" : count(one.running)}</td>
                <td class="is-end">{one.waiting === null ? "–" : count(one.waiting)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

/** What is missing, and the metric that would tell it. */
function Untold({ service }: { service: Service }) {
  if (service.untold.length === 0) return null;
  return (
    <Card title="Not told" note="what nobody reports of this service, and what would">
      <ul class="plain-list">
        {service.untold.map((one) => (
          <li key={one.figure}>
            <b>{figureName(one.figure)}</b>: <Prose text={one.remedy} />
            {one.metric !== null && (
              <>
                {" "}
                (<code>{one.metric}</code>)
              </>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

// What went wrong and what the workload was at, as bars over the same time as the charts below.
import { Link } from "../../core/route";
import { clock, duration, moment } from "../../format/time";
import { count } from "../../format/numbers";
import { Badge, severityTone } from "../../parts/badge";
import { byGravity } from "../../parts/gravity";
import { withoutName } from "../../format/names";
import { endOf, troublesOf, type Mark, type Timeline, type Trouble, type Whose } from "./model";

const MOST = 12;
const LISTED = 20;

export function Lanes({ timeline, whose }: { timeline: Timeline; whose: Whose }) {
  const { platform } = timeline;
  const troubles = troublesOf(timeline);
  const fromMs = timeline.from_ms;
  const toMs = endOf(timeline);
  const left = (ms: number) => `${((Math.min(toMs, Math.max(fromMs, ms)) - fromMs) / (toMs - fromMs)) * 100}%`;
  const width = (begin: number, end: number | null) =>
    `${((Math.min(toMs, end ?? toMs) - Math.max(fromMs, begin)) / (toMs - fromMs)) * 100}%`;
  const middleMs = (fromMs + toMs) / 2;
  const shown = mattering(troubles);
  const events = platform.marks.slice(0, LISTED); // the latest come first
  return (
    <>
      <div class="lanes" role="img" aria-label={`Phases: ${platform.phases.map((one) => one.phase).join(", ")}`}>
        <div class="lane lane-phases">
          {platform.phases.map((one) => (
            <span
              key={`${one.phase}/${one.from_ms}`}
              class={`lane-phase phase-${one.phase}`}
              style={{ left: left(one.from_ms), width: width(one.from_ms, one.to_ms) }}
              title={`${one.phase}${one.reason ? ` (${one.reason})` : ""}, attempt ${one.attempt + 1}: ${moment(one.from_ms)} – ${one.to_ms === null ? "now" : moment(one.to_ms)}`}
            >
              {one.phase}
            </span>
          ))}
        </div>
        {platform.marks.length > 0 && (
          <div class="lane lane-marks">
            {platform.marks.map((one) => (
              <span key={`${one.t_ms}/${one.kind}/${one.text}/${one.gpu}`} class={`lane-mark kind-${one.kind}`} style={{ left: left(one.t_ms) }} title={sayMark(one)}>
                {one.kind === "xid" ? "✕" : "▾"}
              </span>
            ))}
          </div>
        )}
        {shown.map((one) => (
          <div class="lane" key={`${one.what}/${one.id}`}>
            <span
              class={`lane-trouble tone-${severityTone(one.severity)} is-${one.what}`}
              style={{ left: left(one.from_ms), width: width(one.from_ms, one.to_ms) }}
              title={one.title}
            />
            <span
              class={`lane-said tone-${severityTone(one.severity)}`}
              style={one.from_ms < middleMs ? { left: left(one.from_ms), right: "0" } : { right: "0", left: "0", textAlign: "right" }}
            >
              {withoutName(one.title, whose)}
            </span>
          </div>
        ))}
      </div>
      {troubles.length > shown.length && <p class="soft lane-more">and {count(troubles.length - shown.length)} more that are over, or less grave</p>}
      {(troubles.length > 0 || platform.marks.length > 0) && (
        <details class="lane-list">
          <summary>
            {[said(troubles.length, "thing went wrong", "things went wrong"), said(platform.marks.length + platform.more_marks, "event", "events")]
              .filter(Boolean)
              .join(", ")}
            : in words
          </summary>
          <ul class="plain-list">
            {shown.map((one) => (
              <li key={`${one.what}/${one.id}`}>
                <TroubleLine trouble={one} />
              </li>
            ))}
            <More n={troubles.length - shown.length} what="that went wrong" />
            {events.map((one) => (
              <li key={`${one.t_ms}/${one.kind}/${one.text}/${one.gpu}`}>
                <span class="soft">{clock(one.t_ms, true)}</span> {sayMark(one)}
              </li>
            ))}
            <More n={platform.marks.length + platform.more_marks - events.length} what="events, before these" />
          </ul>
        </details>
      )}
    </>
  );
}

/** Those that last and the gravest; of many as grave, the newest. In the order of their beginning. */
function mattering(troubles: Trouble[]): Trouble[] {
  const ranked = [...troubles].sort((a, b) => Number(a.to_ms !== null) - Number(b.to_ms !== null) || byGravity(a, b) || b.from_ms - a.from_ms);
  return ranked.slice(0, MOST).sort((a, b) => a.from_ms - b.from_ms);
}

function More({ n, what }: { n: number; what: string }) {
  return n > 0 ? (
    <li class="soft">
      and {count(n)} more {what}
    </li>
  ) : null;
}

function said(n: number, one: string, many: string): string {
  return n === 0 ? "" : `${n} ${n === 1 ? one : many}`;
}

function TroubleLine({ trouble }: { trouble: Trouble }) {
  const lasted = trouble.to_ms === null ? "lasts" : `for ${duration((trouble.to_ms - trouble.from_ms) / 1000)}`;
  return (
    <>
      <Badge tone={severityTone(trouble.severity)}>{trouble.name}</Badge>{" "}
      <span class="soft">
        {clock(trouble.from_ms)}, {lasted}:
      </span>{" "}
      {trouble.what === "incident" ? <Link to={`/incidents/${encodeURIComponent(trouble.id)}`}>{trouble.title}</Link> : trouble.title}
    </>
  );
}

function sayMark(one: Mark): string {
  const what = one.code === null ? one.text : `Xid ${one.code}: ${one.text}`;
  const where = [one.node, one.gpu !== null && `GPU ${one.gpu}`, one.rank !== null && `rank ${one.rank}`].filter(Boolean);
  return `${what}${where.length > 0 ? ` on ${where.join(", ")}` : ""}${one.count > 1 ? `, ${one.count} times` : ""}`;
}

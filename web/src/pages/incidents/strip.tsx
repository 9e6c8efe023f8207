import { Link } from "../../core/route";
import { clock, moment } from "../../format/time";
import { byGravity } from "../../parts/gravity";
import { isOpen, lasted, lostOf, type Incident } from "./model";

const MOST_LANES = 8;
const TICKS = 6;
const READABLE = 0.06; // of the strip: in less, a title would be two or three letters
const GAP = 0.004; // of the strip, between two in one lane

/** Incidents side by side over the span, each from its onset to its end. */
export function Strip({ incidents, fromMs, toMs }: { incidents: Incident[]; fromMs: number; toMs: number }) {
  const span = toMs - fromMs;
  const placed = lanes(incidents, fromMs, toMs);
  const shown = placed.slice(0, MOST_LANES);
  const hidden = placed.slice(MOST_LANES).reduce((sum, lane) => sum + lane.length, 0);
  const ticks = Array.from({ length: TICKS }, (_, i) => fromMs + (span * (i + 0.5)) / TICKS);
  return (
    <div class="strip" role="group" aria-label="Incidents over time">
      {shown.map((lane, i) => (
        <div class="strip-lane" key={i}>
          {lane.map((one) => {
            const from = Math.max(one.onset_ms, fromMs);
            const to = Math.min(one.resolved_ms ?? toMs, toMs);
            const lost = lostOf([one]);
            const told = `${one.severity}, ${moment(one.onset_ms)}, ${lasted(one)}${lost ? `, ${lost} lost` : ""}: ${one.title}`;
            return (
              <span
                key={one.id}
                class="strip-place"
                style={{ left: `${((from - fromMs) / span) * 100}%`, width: `${(Math.max(0, to - from) / span) * 100}%` }}
              >
                <Link
                  to={`/incidents/${one.id}`}
                  class={`strip-one severity-${one.severity} ${isOpen(one) ? "is-open" : ""}`}
                  aria-label={told}
                  title={told}
                >
                  {to - from > span * READABLE && one.title}
                </Link>
              </span>
            );
          })}
        </div>
      ))}
      <div class="strip-ticks" aria-hidden="true">
        {ticks.map((ms) => (
          <span key={ms}>{span > 36 * 3_600_000 ? moment(ms) : clock(ms)}</span>
        ))}
      </div>
      {hidden > 0 && <p class="soft">{hidden} more at the same time are in the list only.</p>}
    </div>
  );
}

/** Each in the first lane that is free then; the gravest and dearest come first, and so lie at the top. */
function lanes(incidents: Incident[], fromMs: number, toMs: number): Incident[][] {
  const room = (toMs - fromMs) * GAP;
  const sorted = [...incidents].sort(
    (a, b) => byGravity(a, b) || Number(b.lost ?? 0) - Number(a.lost ?? 0) || a.onset_ms - b.onset_ms,
  );
  const found: Incident[][] = [];
  for (const one of sorted) {
    const end = one.resolved_ms ?? toMs;
    const free = found.find((lane) =>
      lane.every((other) => other.onset_ms > end + room || (other.resolved_ms ?? toMs) + room < one.onset_ms),
    );
    if (free === undefined) found.push([one]);
    else free.push(one);
  }
  return found;
}

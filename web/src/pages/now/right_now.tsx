// How fast money goes, and what the GPUs do for it.
import { Link } from "../../core/route";
import { money, perHour } from "../../format/money";
import { count, plural } from "../../format/numbers";
import { clock, moment } from "../../format/time";
import { Bar, type Part } from "../../parts/bars";
import { Card, Stat } from "../../parts/card";
import type { NowAnswer } from "./said";

interface Look {
  label: string;
  help: string;
  colour: string;
  pattern: boolean;
}

const LOOKS: Record<string, Look> = {
  busy: { label: "Busy", help: "training steps or requests", colour: "var(--series-1)", pattern: false },
  wasted: { label: "Wasted", help: "held, but stalled, idle or waiting", colour: "var(--series-2)", pattern: true },
  idle: { label: "Idle", help: "nobody holds them", colour: "var(--series-7)", pattern: false },
  broken: { label: "Broken", help: "lost, with a hardware fault not mended yet, or of a node that is not ready or cordoned", colour: "var(--critical)", pattern: true },
  unknown: { label: "Unknown", help: "held, and nobody tells what for", colour: "var(--series-8)", pattern: true },
};

export function RightNow({ now }: { now: NowAnswer }) {
  const currency = now.currency ?? undefined;
  const total = now.gpus.reduce((sum, one) => sum + one.gpus, 0);
  const wasted = now.gpus.find((one) => one.state === "wasted");
  const worst = now.incidents[0]?.severity;
  const open = now.incidents.length + now.more_incidents;
  const lost = now.incidents_lost === null ? "what they lost is not known" : `${money(now.incidents_lost, currency)} lost so far`;
  return (
    <div class="now-row">
      <div class="now-stats">
        <Stat label="Burning now" value={perHour(now.burn?.per_hour, currency)} note={<Change now={now} />} />
        <Stat
          label="Of it wasted"
          value={perHour(wasted?.per_hour, currency)}
          note={`${plural(wasted?.gpus ?? 0, "GPU")} held for nothing`}
          tone={wasted !== undefined && wasted.gpus > 0 ? "warning" : "plain"}
        />
        <Stat
          label="Open incidents"
          value={count(open)}
          note={open > 0 ? lost : "nothing is wrong that Trilens can see"}
          tone={worst === "critical" ? "critical" : worst === "warning" ? "warning" : "good"}
        />
      </div>
      <Card
        title={plural(total, "GPU")}
        class="now-gpus"
        note={
          now.burn === null
            ? "what they do is not booked yet"
            : `the mean since ${clock(now.burn.from_ms)}, as booked at ${clock(now.burn.upto_ms)}`
        }
        actions={<Link to="/fleet">Fleet</Link>}
      >
        <Bar label="GPUs by what they do" parts={now.gpus.map((one) => part(one, currency))} />
      </Card>
    </div>
  );
}

function part(one: NowAnswer["gpus"][number], currency: string | undefined): Part {
  const look = LOOKS[one.state] ?? { label: one.state, help: "", colour: "var(--text-soft)", pattern: false };
  const cost = one.per_hour === null ? "" : ` · ${perHour(one.per_hour, currency)}`;
  return {
    label: look.label,
    value: one.gpus,
    text: `${count(one.gpus)}${cost}`,
    colour: look.colour,
    pattern: look.pattern,
  };
}

/** How that compares with yesterday; less than a hundredth is the same. */
function Change({ now }: { now: NowAnswer }) {
  const { burn, compared_ms: comparedMs } = now;
  if (burn === null) return <>nothing is booked yet</>;
  const than = now.is_yesterday ? "yesterday at this time" : `at ${moment(comparedMs)}`;
  if (burn.change === null || comparedMs === null) return <>yesterday is not known</>;
  const change = Number(burn.change);
  if (Math.abs(change) < 0.01 * Number(burn.before_per_hour ?? 0)) return <>the same as {than}</>;
  return (
    <>
      {change > 0 ? "▲" : "▼"} {money(Math.abs(change), now.currency ?? undefined)} {change > 0 ? "more" : "less"} than {than}
    </>
  );
}

import { clock, fullMoment, moment } from "../../format/time";
import type { Tone } from "../../parts/badge";
import { Card } from "../../parts/card";
import type { Incident } from "./model";

const SAID: Record<string, [Tone, string]> = {
  onset: ["critical", "It began"],
  detected: ["warning", "Noticed"],
  joined: ["warning", "Also"],
  root: ["warning", "The cause is rather"],
  notified: ["info", "Told"],
  acknowledged: ["info", "Taken by"],
  left: ["good", "Over"],
  resolved: ["good", "All is over"],
};

/** What happened, in order. */
export function Story({ incident }: { incident: Incident }) {
  const isLong = (incident.timeline.at(-1)?.t_ms ?? 0) - incident.onset_ms > 20 * 3_600_000;
  return (
    <Card title="What happened" note="in order">
      <ol class="story">
        {incident.timeline.map((one, i) => {
          const [tone, word] = SAID[one.kind] ?? ["plain", one.kind];
          const isTwice = one.kind === "detected" && one.text === incident.timeline[i - 1]?.text;
          return (
            <li key={`${one.t_ms}/${one.kind}/${one.text}`} class={`tone-${tone}`}>
              <time dateTime={new Date(one.t_ms).toISOString()} title={fullMoment(one.t_ms)}>
                {isLong ? moment(one.t_ms) : clock(one.t_ms, true)}
              </time>
              <span>
                <b>{word}</b>
                {!isTwice && one.text !== "" && `: ${one.text}`}
              </span>
            </li>
          );
        })}
      </ol>
    </Card>
  );
}

import { useState } from "preact/hooks";
import { count } from "../../format/numbers";
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

const FIRST = 10;
const LAST = 5;

/** What happened, in order; of many things, how it began and what came last. */
export function Story({ incident }: { incident: Incident }) {
  const [isWhole, setWhole] = useState(false);
  const between = isWhole ? 0 : Math.max(0, incident.timeline.length - FIRST - LAST);
  const isLong = (incident.timeline.at(-1)?.t_ms ?? 0) - incident.onset_ms > 20 * 3_600_000;
  return (
    <Card title="What happened" note="in order">
      <ol class="story">
        {incident.timeline.map((one, i) => {
          if (between > 1 && i === FIRST) {
            return (
              <li key="between">
                <button type="button" onClick={() => setWhole(true)}>
                  {count(between)} more between
                </button>
              </li>
            );
          }
          if (between > 1 && i > FIRST && i < FIRST + between) return null;
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

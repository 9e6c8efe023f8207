import { useState } from "preact/hooks";
import { ApiError, get, post } from "../../api/client";
import { useAnswer } from "../../api/use";
import { plural } from "../../format/numbers";
import { ago } from "../../format/time";
import { Badge, type Tone } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Copied } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import type { Receiver } from "./model";

const EVERY_MS = 10_000;
const STATES: Record<string, [Tone, string]> = {
  ok: ["good", "takes messages"],
  failing: ["critical", "takes nothing"],
  idle: ["muted", "not used yet"],
};
const EXAMPLE = `alerting:
  receivers:
    oncall: {pagerduty: {routing_key_file: /etc/trilens/pagerduty-key}}
    ml: {slack: {url_file: /etc/trilens/slack-url}}
  routes:
    - matchers: [severity="critical"]
      to: [oncall]
      continue: true
    - to: [ml]`;

export function useReceivers() {
  return useAnswer("receivers", (signal) => get("/api/receivers", {}, signal), { everyMs: EVERY_MS });
}

export function ReceiverBadge({ state }: { state: string }) {
  const [tone, word] = STATES[state] ?? ["plain", state];
  return <Badge tone={tone}>{word}</Badge>;
}

export function NoReceiver() {
  return (
    <Empty
      what="Nobody is told of anything: no receiver is configured."
      todo={
        <>
          <p>
            Slack, PagerDuty, mail, webhooks and Alertmanagers can be told. Write them into <code>trilens.yaml</code>, and reload:
          </p>
          <Copied text={EXAMPLE} />
          <Copied text="trilens config check trilens.yaml && curl -X POST http://127.0.0.1:9333/-/reload" />
        </>
      }
    />
  );
}

export function ReceiversTab() {
  const live = useReceivers();
  return (
    <Card title="Receivers" note="who is told of incidents, and how that goes; counts are since the server's start">
      <Shown live={live} what="Reading receivers">
        {(receivers) =>
          receivers.length === 0 ? (
            <NoReceiver />
          ) : (
            <ul class="receivers">
              {receivers.map((one) => (
                <ReceiverRow key={`${one.receiver}/${one.where}`} one={one} onTested={live.reload} />
              ))}
            </ul>
          )
        }
      </Shown>
    </Card>
  );
}

function ReceiverRow({ one, onTested }: { one: Receiver; onTested: () => void }) {
  const [said, setSaid] = useState<{ isGood: boolean; text: string } | null>(null);
  const [isTesting, setTesting] = useState(false);
  const test = async () => {
    setTesting(true);
    try {
      const { data } = await post("/api/receivers/{name}/test", { path: { name: one.receiver } });
      const here = data.find((each) => each.where === one.where) ?? data[0];
      setSaid(here?.ok ? { isGood: true, text: "The test message was taken." } : { isGood: false, text: `Not taken: ${here?.error ?? "no answer"}` });
    } catch (e) {
      setSaid({ isGood: false, text: e instanceof ApiError ? e.message : String(e) });
    } finally {
      setTesting(false);
      onTested();
    }
  };
  const counts = [
    `${one.sent} sent`,
    one.waiting > 0 && `${plural(one.waiting, "waits", "wait")} since ${ago(one.waiting_since_ms).replace(" ago", "")}`,
    one.refused > 0 && `${one.refused} refused`,
    one.dropped > 0 && `${one.dropped} dropped`,
    one.last_ok_ms !== null && `last taken ${ago(one.last_ok_ms)}`,
  ];
  return (
    <li>
      <ReceiverBadge state={one.state} />
      <div>
        <b>{one.receiver}</b> <span class="soft">{one.kind} · <span class="wraps">{one.where}</span></span>
        <div class="soft">{counts.filter(Boolean).join(" · ")}</div>
        {one.state === "failing" && one.last_error !== null && <div class="is-bad">{one.last_error}</div>}
        {said !== null && (
          <div role="status" class={said.isGood ? "is-good" : "is-bad"}>
            {said.text}
          </div>
        )}
      </div>
      <button type="button" onClick={() => void test()} disabled={isTesting} aria-label={`Send a test message to ${one.receiver}`}>
        {isTesting ? "Sending…" : "Test"}
      </button>
    </li>
  );
}

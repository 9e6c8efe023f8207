// What people see first: what money was lost on, what goes on now, and what is new.
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { useRange } from "../../core/route";
import { Doubts, Empty, Shown } from "../../parts/states";
import { Changed } from "./changed";
import { Headline } from "./headline";
import { OpenIncidents } from "./incidents";
import { RightNow } from "./right_now";
import { wholeHours, type NowAnswer } from "./said";
import { Spenders } from "./spenders";
import { WhereItWent } from "./where";
import "./now.css";

const EVERY_MS = 5000;

export default function Now() {
  const range = useRange();
  const { from, to } = wholeHours(range);
  const live = useAnswer(`now ${range.key}`, (signal) => get("/api/now", { query: { from, to } }, signal), {
    everyMs: EVERY_MS,
  });
  return (
    <div class="now">
      <Shown live={live} what="Adding up the money" isNamed>
        {(now) => (isNothingKnown(now) ? <Begin /> : <Known now={now} />)}
      </Shown>
    </div>
  );
}

function Known({ now }: { now: NowAnswer }) {
  const range = useRange();
  return (
    <>
      <Headline now={now} range={range} />
      <RightNow now={now} />
      <div class="now-columns">
        <div class="stack">
          <OpenIncidents now={now} />
        </div>
        <div class="stack">
          <WhereItWent now={now} range={range} />
          <Spenders now={now} range={range} />
          <Changed now={now} />
        </div>
      </div>
      <Doubts lines={doubtsOf(now)} />
    </>
  );
}

function doubtsOf(now: NowAnswer): string[] {
  const of = [...now.doubts, ...now.money.warnings];
  return of.map((one) => (one.remedy ? `${one.text}: ${one.remedy}` : one.text));
}

function isNothingKnown(now: NowAnswer): boolean {
  return now.burn === null && now.incidents.length === 0 && now.gpus.every((one) => one.gpus === 0);
}

function Begin() {
  return (
    <Empty
      what="Trilens sees no GPU yet."
      todo={
        <>
          <p>Give it something to look at, and this page fills within a minute:</p>
          <ul>
            <li>
              on a machine with GPUs: <code>trilens up</code> finds them by itself
            </li>
            <li>
              in a cluster: name it in <code>kubernetes.clusters</code>, and the exporters in <code>scrape_configs</code>
            </li>
            <li>
              only to look around: <code>trilens demo</code>
            </li>
          </ul>
          <p>
            What is missing and how to mend it: <a href="/doctor">Doctor</a>
          </p>
        </>
      }
    />
  );
}

import { Link } from "../../core/route";
import { moment } from "../../format/time";
import { Badge } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Shown } from "../../parts/states";
import type { Incident, Receiver } from "./model";
import { NoReceiver, ReceiverBadge, useReceivers } from "./receivers";

/** Who was told, how that goes, and why others were not. */
export function Told({ incident }: { incident: Incident }) {
  const live = useReceivers();
  return (
    <Card title="Who was told" actions={<Link to="/incidents" params={{ tab: "receivers" }}>All receivers</Link>}>
      <Shown live={live} what="Reading receivers">
        {(receivers) => (receivers.length === 0 && incident.told.length === 0 ? <NoReceiver /> : <List incident={incident} receivers={receivers} />)}
      </Shown>
    </Card>
  );
}

function List({ incident, receivers }: { incident: Incident; receivers: Receiver[] }) {
  const told = new Set(incident.told);
  const isTold = (one: Receiver) => told.has(one.receiver) || told.has(one.where);
  const gone = incident.told.filter((name) => !receivers.some((one) => one.receiver === name || one.where === name));
  return (
    <ul class="told">
      {receivers.map((one) => (
        <li key={`${one.receiver}/${one.where}`}>
          {isTold(one) ? <Badge tone="good">told</Badge> : <Badge tone="muted">not told</Badge>}
          <span>
            <b>{one.receiver}</b> <span class="soft">{one.kind}</span>
            {!isTold(one) && one.state === "failing" && (
              <>
                {" "}
                <ReceiverBadge state={one.state} /> <span class="soft">{one.last_error}</span>
              </>
            )}
          </span>
        </li>
      ))}
      {gone.map((name) => (
        <li key={name}>
          <Badge tone="good">told</Badge> <b>{name}</b>
        </li>
      ))}
      {incident.held_back.map((one) => (
        <li key={`${one.why}/${one.name}`}>
          <Badge tone="info">{one.why === "no-route" || one.why === "no-receiver" ? "nobody" : one.why}</Badge>
          <span>
            {one.text}
            {one.until_ms !== null && ` until ${moment(one.until_ms)}`}
          </span>
        </li>
      ))}
    </ul>
  );
}

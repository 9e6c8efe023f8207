// What is wrong now, the worst first, and what it has cost so far.
import { Link } from "../../core/route";
import { money, perHour } from "../../format/money";
import { count } from "../../format/numbers";
import { Badge, severityTone } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Empty } from "../../parts/states";
import { Time } from "../../parts/time";
import type { NowAnswer } from "./said";

export function OpenIncidents({ now }: { now: NowAnswer }) {
  const currency = now.currency ?? undefined;
  return (
    <Card title="Open incidents" actions={<Link to="/incidents">All incidents</Link>}>
      {now.incidents.length === 0 ? (
        <Empty what="No incident is open." todo={<Link to="/doctor">See what Trilens cannot see</Link>} />
      ) : (
        <ul class="now-incidents">
          {now.incidents.map((one) => (
            <li key={one.id}>
              <Link to={`/incidents/${encodeURIComponent(one.id)}`} class="now-incident">
                <span class="now-incident-title">{one.title}</span>
                <span class="now-incident-lost">
                  {one.lost !== null && money(one.lost, currency)}
                  <small>{[one.lost === null ? "loss unknown" : "lost", one.per_hour !== null && `holds ${perHour(one.per_hour, currency)}`].filter(Boolean).join(" · ")}</small>
                </span>
                <span class="now-incident-facts">
                  <Badge tone={severityTone(one.severity)}>{one.severity}</Badge>
                  <span>
                    since <Time ms={one.onset_ms} />
                  </span>
                  {one.team !== null && <span>team {one.team}</span>}
                  {one.acknowledged_by !== null && <span>{one.acknowledged_by} has it</span>}
                </span>
              </Link>
            </li>
          ))}
        </ul>
      )}
      {now.more_incidents > 0 && (
        <p class="now-more">
          <Link to="/incidents">and {count(now.more_incidents)} more</Link>
        </p>
      )}
    </Card>
  );
}

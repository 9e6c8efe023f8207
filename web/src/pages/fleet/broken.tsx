// What is broken, lost or out of service, the worst first.
import { Link } from "../../core/route";
import { plural } from "../../format/numbers";
import { Badge, severityTone } from "../../parts/badge";
import { Card } from "../../parts/card";
import { byGravity } from "../../parts/gravity";
import { Prose } from "../../parts/prose";
import { Time } from "../../parts/time";
import { gpuName, type Fleet } from "./gpus";

export interface Trouble {
  key: string;
  severity: string;
  text: string;
  action: string;
  sinceMs: number | null;
  uuid: string | null;
}

const SHOWN = 30;

export function troublesOf(fleet: Fleet): Trouble[] {
  const found: Trouble[] = ofHardware(fleet).map((one) => ({
    key: one.id,
    severity: one.severity,
    text: one.text,
    action: one.action,
    sinceMs: one.since_ms,
    uuid: one.gpu,
  }));
  found.push(...missing(fleet), ...outOfService(fleet));
  return found.sort(byGravity);
}

/** A job that hangs on a GPU does not make it broken. */
const ofHardware = (fleet: Fleet) => fleet.findings.filter((one) => !one.of_job);

function missing(fleet: Fleet): Trouble[] {
  const told = new Set(ofHardware(fleet).map((one) => one.gpu));
  const found: Trouble[] = [];
  const unnamed = new Map<string, number>(); // by state and node
  for (const [gpu, state] of fleet.gpus.state.entries()) {
    const uuid = fleet.gpus.uuid[gpu] ?? null;
    if (state === "reporting" || (uuid !== null && told.has(uuid))) continue;
    if (state === "lost" && uuid !== null) {
      const text = `${gpuName(fleet, gpu)} is lost: its node should have it, and it does not report`;
      found.push({ key: uuid, severity: "critical", text, action: LOST, sinceMs: null, uuid });
    } else if (state === "silent" && uuid !== null) {
      const text = `${gpuName(fleet, gpu)} does not report, though a pod holds it`;
      found.push({ key: uuid, severity: "warning", text, action: SILENT, sinceMs: null, uuid });
    } else {
      const key = `${state} ${fleet.gpus.node[gpu] ?? -1}`;
      unnamed.set(key, (unnamed.get(key) ?? 0) + 1);
    }
  }
  for (const [key, n] of unnamed) {
    const [state, node] = key.split(" ");
    const name = fleet.nodes.name[Number(node)] ?? "";
    const isLost = state === "lost";
    const text = isLost
      ? `${plural(n, "GPU")} of ${name} never reported, though the node offers them`
      : `No GPU of ${name} reports: ${plural(n, "GPU")} of which nothing is known`;
    found.push({ key, severity: isLost ? "critical" : "warning", text, action: isLost ? LOST : BLIND, sinceMs: null, uuid: null });
  }
  return found;
}

const LOST = "Look at the kernel's log of the node for Xid 79, and reset the GPU or drain the node.";
const SILENT = "Ask its node: nvidia-smi there tells whether the GPU or only its exporter is silent.";
const BLIND = "See whether dcgm-exporter runs on the node and is scraped; Doctor has what Trilens tried.";

function outOfService(fleet: Fleet): Trouble[] {
  const found: Trouble[] = [];
  for (const [node, state] of fleet.nodes.state.entries()) {
    if (state !== "cordoned" && state !== "not-ready") continue;
    const name = fleet.nodes.name[node] ?? "";
    const reason = fleet.nodes.reason[node];
    const isDown = state === "not-ready";
    const text = `${name} is ${isDown ? "not ready" : "cordoned"}${reason == null ? "" : ` (${reason})`}: ${plural(
      fleet.nodes.gpus[node] ?? 0,
      "GPU",
    )} ${isDown ? "out of service" : "take no new pods"}`;
    const action = isDown ? "Its kubelet does not answer: see the machine." : "Uncordon it when it is whole again.";
    found.push({ key: `node ${node}`, severity: isDown ? "critical" : "info", text, action, sinceMs: null, uuid: null });
  }
  return found;
}

/** `hasLooked`: it is known how the GPUs are. */
export function Broken({ troubles, hasLooked }: { troubles: Trouble[]; hasLooked: boolean }) {
  if (troubles.length === 0) {
    return (
      <Card title="Broken or lost">
        <p class="soft">
          {hasLooked ? "Nothing: every GPU that should be there reports, and none has a fault that is not mended." : "Not known yet: nobody has looked."}
        </p>
      </Card>
    );
  }
  const rest = troubles.length - SHOWN;
  return (
    <Card title="Broken or lost" note="what is wrong with GPUs and nodes themselves, the worst first">
      <ul class="fleet-broken">
        {troubles.slice(0, SHOWN).map((one) => (
          <li key={one.key}>
            <Badge tone={severityTone(one.severity)}>{one.severity}</Badge>
            <div>
              <div>
                {one.uuid === null ? one.text : <Link to={`/fleet/gpus/${encodeURIComponent(one.uuid)}`}>{one.text}</Link>}
                {one.sinceMs !== null && (
                  <span class="soft">
                    {" "}
                    since <Time ms={one.sinceMs} />
                  </span>
                )}
              </div>
              <div class="soft">
                <Prose text={one.action} />
              </div>
            </div>
          </li>
        ))}
      </ul>
      {rest > 0 && <p class="soft">and {rest.toLocaleString("en-US")} more: the map shows them all</p>}
    </Card>
  );
}

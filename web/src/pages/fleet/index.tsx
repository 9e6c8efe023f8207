// The fleet: a map of every GPU, coloured by what is asked, and what is broken first.
import { useMemo } from "preact/hooks";
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { useParam } from "../../core/route";
import { count, percent, plural } from "../../format/numbers";
import { Search, Select, Tabs } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import { Broken, troublesOf } from "./broken";
import { devicesOf, type Fleet, type Grouping } from "./gpus";
import { MapLegend } from "./legend";
import { DIMENSIONS, paintingOf, type Dimension } from "./looks";
import { FleetMap } from "./map";
import "./fleet.css";

const EVERY_MS = 5000;

export default function FleetPage() {
  const live = useAnswer("fleet", (signal) => get("/api/fleet", {}, signal), { everyMs: EVERY_MS });
  return (
    <Shown live={live} what="Looking at every GPU">
      {(fleet) => (fleet.gpus.node.length > 0 ? <Known fleet={fleet} /> : fleet.at_ms === null ? <NotLooked /> : <NoGpus />)}
    </Shown>
  );
}

function Known({ fleet }: { fleet: Fleet }) {
  const [by, setBy] = useParam("by", "health");
  const groupings = useMemo(() => groupingsOf(fleet), [fleet]);
  const [group, setGroup] = useParam("group", groupings[0]?.value ?? "none");
  const [q, setQ] = useParam("q");
  const dimension = DIMENSIONS.find((one) => one.value === by)?.value ?? "health";
  const grouping = groupings.find((one) => one.value === group)?.value ?? "none";
  const painting = useMemo(() => paintingOf(fleet, dimension), [fleet, dimension]);
  const troubles = useMemo(() => troublesOf(fleet), [fleet]);
  return (
    <div class="fleet stack">
      <Headline fleet={fleet} />
      <section class="card" aria-label="Map">
        <div class="fleet-controls row">
          <Tabs label="Colour by" value={dimension} choices={DIMENSIONS} onChange={(value) => setBy(value as Dimension)} />
          <Select label="Group by" value={grouping} choices={groupings} onChange={setGroup} />
          <Search label="Search the map" value={q} onChange={setQ} />
        </div>
        <MapLegend painting={painting} isDivided={fleet.gpus.instance.some((part) => part !== null)} />
        <FleetMap fleet={fleet} by={dimension} group={grouping} q={q} />
      </section>
      <Broken troubles={troubles} hasLooked={fleet.at_ms !== null} />
    </div>
  );
}

function groupingsOf(fleet: Fleet): { value: Grouping; label: string }[] {
  const found: { value: Grouping; label: string }[] = [];
  if (fleet.models.length > 1) found.push({ value: "model", label: "model" });
  if (fleet.nodes.rack.some((rack) => rack !== null)) found.push({ value: "rack", label: "rack" });
  found.push({ value: "cluster", label: "cluster" }, { value: "none", label: "nothing" });
  return found;
}

function Headline({ fleet }: { fleet: Fleet }) {
  const { gpus } = fleet;
  const devices = devicesOf(fleet, gpus.node.keys());
  const all = devices.length;
  let [broken, missing, warned, used, free] = [0, 0, 0, 0, 0];
  let [busy, told] = [0, 0];
  for (const gpu of devices) {
    const state = gpus.state[gpu] ?? "";
    const health = gpus.health[gpu] ?? "";
    if (state === "lost" || health === "critical") broken += 1;
    else if (state !== "reporting") missing += 1;
    else if (health === "warning") warned += 1;
    if ((gpus.holders[gpu] ?? 0) > 0) used += 1;
    else if (state === "reporting") free += 1;
    const share = gpus.utilization[gpu];
    if (share != null) {
      busy += share;
      told += 1;
    }
  }
  const parts = [
    broken > 0 ? <strong class="fleet-bad">{count(broken)} broken or lost</strong> : null,
    missing > 0 ? <strong>{count(missing)} do not report</strong> : null,
    warned > 0 ? <span>{count(warned)} not well</span> : null,
  ].filter((part) => part !== null);
  return (
    <header>
      <h1>
        {fleet.at_ms === null && parts.length === 0
          ? `${plural(all, "GPU")}; how they are is not known yet`
          : parts.length === 0
            ? `All ${plural(all, "GPU")} report and are well`
            : [`Of ${plural(all, "GPU")} `, ...parts.flatMap((part, i) => (i === 0 ? [part] : [", ", part]))]}
      </h1>
      <p class="soft">
        {plural(fleet.nodes.name.length, "node")}; {count(used)} GPUs held, {count(free)} free
        {told > 0 && <>; {percent(busy / told)} busy on the average</>}
      </p>
    </header>
  );
}

function NotLooked() {
  return <Empty what="Which GPUs there are is not known yet." todo="The first look comes within half a minute." />;
}

function NoGpus() {
  return (
    <Empty
      what="Trilens sees no GPU yet."
      todo={
        <ul>
          <li>
            on a machine with GPUs: <code>trilens up</code> finds them by itself
          </li>
          <li>
            in a cluster: name it in <code>kubernetes.clusters</code>, and dcgm-exporter in <code>scrape_configs</code>
          </li>
          <li>
            <a href="/doctor">Doctor</a> says what is missing
          </li>
        </ul>
      }
    />
  );
}

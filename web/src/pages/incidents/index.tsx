// What is wrong and was, who is told of it, and the rules behind that.
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { useParam, useRange } from "../../core/route";
import { Tabs } from "../../parts/inputs";
import { AlertsTab } from "./alerts";
import { IncidentList } from "./list";
import { headline } from "./model";
import { ReceiversTab } from "./receivers";
import { RulesTab } from "./rules";
import { SilencesTab } from "./silences";
import "./incidents.css";

const EVERY_MS = 10_000;
const TABS = [
  { value: "incidents", label: "Incidents" },
  { value: "alerts", label: "Alerts" },
  { value: "rules", label: "Rules" },
  { value: "silences", label: "Silences" },
  { value: "receivers", label: "Receivers" },
];

export default function IncidentsPage() {
  const range = useRange();
  const [tab, setTab] = useParam("tab", "incidents");
  const live = useAnswer(
    `incidents ${range.key}`,
    (signal) => get("/api/incidents", { query: { from: range.fromMs / 1000, to: range.toMs / 1000 } }, signal),
    { everyMs: range.isLive ? EVERY_MS : undefined },
  );
  return (
    <div class="stack">
      <div class="spread">
        <h1>{live.data === undefined || live.isOther ? "Incidents" : headline(live.data)}</h1>
        <Tabs label="What to show" value={tab} choices={TABS} onChange={setTab} />
      </div>
      {tab === "incidents" && <IncidentList live={live} />}
      {tab === "alerts" && <AlertsTab />}
      {tab === "rules" && <RulesTab />}
      {tab === "silences" && <SilencesTab />}
      {tab === "receivers" && <ReceiversTab />}
    </div>
  );
}

// What Trilens cannot see, what that costs, and what to do about it.
import { useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { useParam } from "../../core/route";
import { plural } from "../../format/numbers";
import { duration } from "../../format/time";
import { Badge } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Copied, Tabs } from "../../parts/inputs";
import { Shown } from "../../parts/states";
import { Time } from "../../parts/time";
import { Area } from "./area";
import { TONES, WORDS, type Doctor, type Kind } from "./model";
import "./doctor.css";

const AGAIN_MS = 15_000;
const CLOCK_OFF_MS = 5_000;

export default function DoctorPage() {
  const [clicks, setClicks] = useState(0); // how often somebody asked to look again
  const looked = useRef(0); // the last of them that was asked for: later asks take what was found
  const live = useAnswer(
    `doctor ${clicks}`,
    (signal) => {
      const fresh = clicks > looked.current ? true : null;
      looked.current = clicks;
      return get("/api/doctor", { query: { fresh } }, signal);
    },
    { everyMs: AGAIN_MS },
  );
  return (
    <Shown live={live} what="Examining what this server sees">
      {(doctor) => <Examined doctor={doctor} isLooking={live.isLoading} again={() => setClicks(clicks + 1)} atMs={live.atMs} />}
    </Shown>
  );
}

function Examined({
  doctor,
  isLooking,
  again,
  atMs,
}: {
  doctor: Doctor;
  isLooking: boolean;
  again: () => void;
  atMs: number | null;
}) {
  const [kind, setKind] = useParam("show", "all");
  const found = doctor.areas.flatMap((area) => area.found);
  const many = (of: Kind) => found.filter((one) => one.kind === of).length;
  const ahead = atMs === null ? 0 : doctor.now_ms - atMs;
  return (
    <div class="stack doctor">
      <header class="doctor-head">
        <div>
          <h1>{headline(many("problem"), many("note"), many("unconnected"))}</h1>
          <p class="soft">
            {plural(doctor.areas.reduce((sum, area) => sum + area.layers.length, 0), "layer")} examined, last{" "}
            <Time ms={doctor.examined_ms} relative />, in {duration(doctor.took_ms / 1000)}.
          </p>
        </div>
        <button type="button" onClick={again} disabled={isLooking}>
          {isLooking ? "Looking…" : "Look again"}
        </button>
      </header>
      {Math.abs(ahead) > CLOCK_OFF_MS && (
        <p class="notice notice-warning">
          The server’s clock is {duration(ahead / 1000)} {ahead > 0 ? "ahead of" : "behind"} this browser’s: one of them is
          wrong. See chrony or systemd-timesyncd on both.
        </p>
      )}
      <nav class="doctor-jumps" aria-label="Areas">
        {doctor.areas.map((area) => (
          <a key={area.area} href={`#${area.area}`}>
            {area.title} <Badge tone={TONES[area.state]}>{WORDS[area.state]}</Badge>
          </a>
        ))}
      </nav>
      {found.length > 0 && (
        <Tabs
          label="Show"
          value={kind}
          onChange={setKind}
          choices={[
            { value: "all", label: `All ${found.length}` },
            { value: "problem", label: `Problems ${many("problem")}` },
            { value: "note", label: `Notes ${many("note")}` },
            { value: "unconnected", label: `Not connected ${many("unconnected")}` },
          ]}
        />
      )}
      <div class="doctor-areas">
        {doctor.areas.map((area) => (
          <div key={area.area} id={area.area}>
            <Area area={area} kind={kind} />
          </div>
        ))}
      </div>
      <Card title="What only you can look at" note="a server sees neither your machine nor your rights in the cluster">
        <ul class="doctor-elsewhere">
          {doctor.elsewhere.map((one) => (
            <li key={one.command}>
              <div>
                {one.what} <span class="soft">({one.where})</span>
              </div>
              <Copied text={one.command.replace("{server}", location.origin)} />
            </li>
          ))}
        </ul>
      </Card>
    </div>
  );
}

function headline(problems: number, notes: number, unconnected: number): string {
  if (problems > 0) {
    return `${plural(problems, "problem")} ${problems === 1 ? "keeps" : "keep"} Trilens from seeing what it should.`;
  }
  if (notes === 0 && unconnected === 0) return "Trilens sees all that it can: nothing is missing.";
  const said = [
    notes > 0 ? `${plural(notes, "thing")} worth knowing` : "",
    unconnected > 0 ? `${unconnected} not connected yet` : "",
  ];
  return `Nothing is wrong. ${said.filter((one) => one !== "").join(", ")}.`;
}

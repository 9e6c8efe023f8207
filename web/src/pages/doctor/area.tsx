// One part of the picture: what is there of it, what is missing, what to do.
import { Badge } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Copied } from "../../parts/inputs";
import { Prose } from "../../parts/prose";
import { TONES, WORDS, type DoctorArea, type DoctorFinding } from "./model";

export function Area({ area, kind }: { area: DoctorArea; kind: string }) {
  const shown = area.found.filter((one) => kind === "all" || one.kind === kind);
  return (
    <Card title={area.title} actions={<Badge tone={TONES[area.state]}>{WORDS[area.state]}</Badge>}>
      <p class="soft">{area.gives}</p>
      <ul class="doctor-layers">
        {area.layers.map((layer) => (
          <li key={layer.layer}>
            <span class={`doctor-dot tone-${TONES[layer.state]}`} aria-hidden="true">
              {layer.state === "ok" ? "✓" : layer.state === "problem" ? "●" : layer.state === "note" ? "▲" : "○"}
            </span>
            <b>{layer.layer}</b>
            <span class="soft">{layer.sees === "" ? WORDS[layer.state] : layer.sees}</span>
          </li>
        ))}
      </ul>
      {shown.map((one) => (
        <Found key={`${one.check} ${one.what}`} found={one} />
      ))}
      {area.found.length === 0 && <p class="doctor-well">Nothing is missing here.</p>}
      {area.found.length > 0 && shown.length === 0 && <p class="soft">Nothing of that kind here.</p>}
    </Card>
  );
}

function Found({ found }: { found: DoctorFinding }) {
  return (
    <article class={`doctor-found is-${found.kind}`}>
      <h3>
        <Badge tone={TONES[found.kind]}>{WORDS[found.kind]}</Badge> {found.what}
      </h3>
      <dl>
        <dt>Costs you</dt>
        <dd>
          <Prose text={found.means} />
        </dd>
        {found.remedy !== "" && (
          <>
            <dt>To do</dt>
            <dd>
              <Prose text={found.remedy} />
            </dd>
          </>
        )}
      </dl>
      {found.copy !== null && (
        <>
          {found.where !== null && <p class="doctor-where">in {found.where}:</p>}
          <Copied text={found.copy} />
        </>
      )}
    </article>
  );
}

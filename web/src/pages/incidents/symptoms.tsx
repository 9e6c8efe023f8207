import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { Link } from "../../core/route";
import { percent, plural } from "../../format/numbers";
import { clock } from "../../format/time";
import { Badge, severityTone } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Prose } from "../../parts/prose";
import type { Finding, Incident, Symptom } from "./model";

const BEFORE_MS = 600_000;

/** What the incident is made of, the root first; findings with what they rest on. */
export function Symptoms({ incident }: { incident: Incident }) {
  const hasFindings = incident.symptoms.some((one) => one.kind === "finding");
  const findings = useAnswer(hasFindings ? `findings of ${incident.id} ${incident.symptoms.length}` : null, (signal) =>
    get(
      "/api/findings",
      { query: { from: (incident.onset_ms - BEFORE_MS) / 1000, to: ((incident.resolved_ms ?? Date.now()) + BEFORE_MS) / 1000 } },
      signal,
    ),
  );
  return (
    <Card title="Evidence" note={`${plural(incident.symptoms.length + incident.more_symptoms, "symptom")} of one cause, the root first`}>
      <ul class="symptoms">
        {incident.symptoms.map((one, i) => (
          <Row key={`${one.kind}/${one.name}/${one.onset_ms}/${one.text}`} symptom={one} isRoot={i === 0} finding={found(one, findings.data ?? [])} />
        ))}
      </ul>
      {incident.more_symptoms > 0 && <p class="soft">and {incident.more_symptoms} more that last</p>}
    </Card>
  );
}

/** The finding that a symptom tells of: of that detector, about the same, at that time. */
function found(symptom: Symptom, findings: Finding[]): Finding | undefined {
  if (symptom.kind !== "finding") return undefined;
  const { subject } = symptom;
  const same = findings.filter(
    (one) =>
      one.code === symptom.name &&
      one.workload?.uid === subject.workload?.uid &&
      one.node === subject.node &&
      one.rank === subject.rank &&
      one.gpu === subject.gpu,
  );
  return same.find((one) => one.onset_ms === symptom.onset_ms) ?? same[0];
}

function Row({ symptom, isRoot, finding }: { symptom: Symptom; isRoot: boolean; finding: Finding | undefined }) {
  const text = finding?.text ?? symptom.text;
  const isOver = symptom.ended_ms !== null;
  return (
    <li>
      <div class="symptom-head">
        <Badge tone={severityTone(symptom.severity)}>{symptom.severity}</Badge>
        <b>{symptom.name}</b>
        {isRoot && <Badge tone="plain">root</Badge>}
        <span class="soft">
          {symptom.kind} · {clock(symptom.onset_ms)}
          {isOver ? ` to ${clock(symptom.ended_ms)}` : ", lasts"}
          {finding !== undefined && ` · sure: ${percent(finding.confidence)}`}
        </span>
      </div>
      <p>
        <Prose text={text} />
      </p>
      {finding !== undefined && finding.evidence.length > 0 && (
        <ul class="plain-list">
          {finding.evidence.map((one) => (
            <li key={one.text}>
              {one.text}{" "}
              {one.query !== null && (
                <Link to="/explore" params={{ query: one.query }}>
                  graph
                </Link>
              )}
            </li>
          ))}
        </ul>
      )}
      {finding?.doubts.map((doubt) => (
        <p key={doubt.code} class="soft">
          Doubt: {doubt.text}
        </p>
      ))}
      {!isRoot && symptom.action !== "" && (
        <p class="soft">
          <Prose text={symptom.action} />
        </p>
      )}
    </li>
  );
}

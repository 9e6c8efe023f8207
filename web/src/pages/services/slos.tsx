import { Badge } from "../../parts/badge";
import { Copied } from "../../parts/inputs";
import { Empty } from "../../parts/states";
import { burnText, leftText, promise, share, stateOf, type Service, type Slo } from "./model";

/** How much of an error budget is left, as a bar; what is overspent fills it in another pattern. */
export function Budget({ slo }: { slo: Slo }) {
  const left = slo.budget_left;
  const said = leftText(left);
  const width = left == null ? 0 : Math.min(1, Math.abs(left)) * 100;
  const tone = left == null ? "muted" : left <= 0 ? "critical" : stateOf(slo.state).tone;
  return (
    <span class="budget">
      <span class="budget-track" role="img" aria-label={`Error budget of ${slo.name}: ${said}`}>
        <span class={`budget-left tone-${tone} ${left != null && left < 0 ? "is-over" : ""}`} style={{ width: `${width}%` }} />
      </span>
      <span class="budget-text">{said}</span>
    </span>
  );
}

export function Slos({ service }: { service: Service }) {
  if (service.slos.length === 0) return <NoSlo service={service} />;
  return (
    <ul class="slos">
      {service.slos.map((slo) => {
        const { tone, word } = stateOf(slo.state);
        return (
          <li key={`${slo.name}/${slo.model ?? ""}`}>
            <div class="slo-head">
              <b>{slo.name}</b>
              {slo.model !== null && service.models.length > 1 && <span class="soft">{slo.model}</span>}
              <Badge tone={tone}>{word}</Badge>
            </div>
            <p>
              Promised: {promise(slo)}, over {slo.window}.{" "}
              <span class="soft">{slo.current === null ? "Nothing is measured yet." : `Now ${share(slo.current)}.`}</span>
            </p>
            <Budget slo={slo} />
            {slo.burn.length > 0 && (
              <p class="soft slo-burn">
                {slo.burn.map((one) => (
                  <span key={one.window} class={one.rate > 1 ? "is-fast" : ""}>
                    {one.window} <b>{burnText(one.rate)}</b>
                  </span>
                ))}
                <span>the pace of spending; above 1× it does not last for {slo.window}</span>
              </p>
            )}
            {slo.description !== "" && <p class="soft">{slo.description}</p>}
          </li>
        );
      })}
    </ul>
  );
}

function NoSlo({ service }: { service: Service }) {
  const where = [service.namespace && `namespace: ${service.namespace}`, `workload: ${service.name}`].filter(Boolean).join(", ");
  const file = `slos:\n- name: ${service.name}-latency\n  service: {${where}}\n  indicator: latency\n  threshold: 2s\n  objective: 99`;
  return (
    <Empty
      what="Nothing is promised of this service, so nobody is told when it gets slow."
      todo={
        <>
          <p>
            Write what people may expect into a file, name it in the settings under <code>rules.slo_files</code>, and reload:
          </p>
          <Copied text={file} />
        </>
      }
    />
  );
}

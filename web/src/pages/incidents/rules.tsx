import { useAnswer } from "../../api/use";
import { Link, useParam } from "../../core/route";
import { plural } from "../../format/numbers";
import { duration } from "../../format/time";
import { Badge, severityTone, type Tone } from "../../parts/badge";
import { Card } from "../../parts/card";
import { Copied, Search, Select } from "../../parts/inputs";
import { Prose } from "../../parts/prose";
import { Empty, Shown } from "../../parts/states";
import { askRules, type Rule } from "./prometheus";

const EVERY_MS = 30_000;

type Named = Rule & { group: string };

const STATES: Record<string, [Tone, string]> = {
  blind: ["warning", "blind"],
  broken: ["critical", "fails"],
  firing: ["critical", "fires"],
  pending: ["warning", "pending"],
  inactive: ["good", "quiet"],
};

function stateOf(rule: Rule): string {
  if (rule.health === "err") return "broken";
  return rule.blind !== undefined ? "blind" : rule.state;
}

export function RulesTab() {
  const live = useAnswer("rules", askRules, { everyMs: EVERY_MS });
  const [q, setQ] = useParam("q");
  const [state, setState] = useParam("state");
  return (
    <Shown live={live} what="Reading rules">
      {({ groups }) => {
        const rules: Named[] = groups.flatMap((group) => group.rules.map((rule) => ({ ...rule, group: group.name })));
        if (rules.length === 0) return <NoRules />;
        const counts = new Map<string, number>();
        for (const rule of rules) counts.set(stateOf(rule), (counts.get(stateOf(rule)) ?? 0) + 1);
        const shown = rules.filter(
          (rule) => (state === "" || stateOf(rule) === state) && `${rule.name} ${rule.group}`.toLowerCase().includes(q.toLowerCase()),
        );
        const blind = counts.get("blind") ?? 0;
        return (
          <div class="stack">
            <div class="row">
              <Search value={q} onChange={setQ} label="Rule or group" />
              <Select
                label="State"
                value={state}
                choices={[
                  { value: "", label: `all (${rules.length})` },
                  ...Object.entries(STATES)
                    .filter(([name]) => counts.has(name) || name === state)
                    .map(([name, [, word]]) => ({ value: name, label: `${word} (${counts.get(name) ?? 0})` })),
                ]}
                onChange={setState}
              />
            </div>
            {blind > 0 && state !== "blind" && (
              <p class="notice notice-warning">
                {plural(blind, "rule is", "rules are")} blind: nobody tells what {blind === 1 ? "it looks" : "they look"} at, so{" "}
                {blind === 1 ? "it" : "they"} cannot fire.{" "}
                <button type="button" onClick={() => setState("blind")}>
                  Show what to switch on
                </button>
              </p>
            )}
            <Card title={plural(shown.length, "alerting rule")}>
              {shown.length === 0 && <Empty what="No rule is like that." />}
              <ul class="rules">
                {shown.map((rule) => (
                  <RuleRow key={`${rule.group}/${rule.name}/${rule.query}`} rule={rule} />
                ))}
              </ul>
            </Card>
          </div>
        );
      }}
    </Shown>
  );
}

function RuleRow({ rule }: { rule: Named }) {
  const [tone, word] = STATES[stateOf(rule)] ?? ["plain", rule.state];
  const severity = rule.labels["severity"] ?? "";
  return (
    <li>
      <details open={rule.blind !== undefined || rule.health === "err"}>
        <summary>
          <Badge tone={tone}>{word}</Badge> <b>{rule.name}</b>
          {severity !== "" && !severity.includes("{{") && <Badge tone={severityTone(severity)}>{severity}</Badge>}
          <span class="soft">{rule.group}</span>
        </summary>
        {rule.lastError !== undefined && rule.lastError !== "" && <p class="notice notice-critical">{rule.lastError}</p>}
        {rule.blind !== undefined && <Blind blind={rule.blind} />}
        <p class="soft">
          {rule.duration > 0 ? `Fires when this holds for ${duration(rule.duration)}.` : "Fires as soon as this holds."}{" "}
          <Link to="/explore" params={{ query: rule.query }}>
            Show it as a graph
          </Link>
        </p>
        <pre class="rule-query">{rule.query}</pre>
      </details>
    </li>
  );
}

function Blind({ blind }: { blind: { missing: string[]; remedy: string } }) {
  const [what, ...lines] = blind.remedy.split("\n");
  return (
    <div>
      <p>
        Nobody tells <code class="wraps">{blind.missing.join(", ")}</code>. What to do: <Prose text={what ?? ""} />
      </p>
      {lines.length > 0 && <Copied text={lines.join("\n")} />}
    </div>
  );
}

function NoRules() {
  return (
    <Empty
      what="No alerting rule is evaluated here."
      todo={
        <>
          <p>
            With <code>source.url</code> that server evaluates rules: write them out for it, and name the file in its configuration.
          </p>
          <Copied text="trilens rules export -o trilens-rules" />
          <p>
            Otherwise <code>rules.builtin</code> is off in the settings.
          </p>
        </>
      }
    />
  );
}

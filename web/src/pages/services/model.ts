// What the page says of services in words.
import type { components } from "../../api/schema";
import { hrefOf } from "../../core/route";
import { duration } from "../../format/time";
import { percent } from "../../format/numbers";
import type { Tone } from "../../parts/badge";

export type Service = components["schemas"]["ServiceAnswer"];
export type Services = components["schemas"]["ServicesAnswer"];
export type Detail = components["schemas"]["ServiceDetail"];
export type Slo = components["schemas"]["SloAnswer"];

const NONE = "-"; // in an address, as a part of it cannot be empty

export function keyOf(service: Pick<Service, "cluster" | "namespace" | "name">): string {
  return [service.cluster || NONE, service.namespace || NONE, service.name].join("/");
}

/** The parts of a key; the name may have slashes of its own. */
export function partsOf(key: string): { cluster: string; namespace: string; name: string } | null {
  const [cluster, namespace, ...name] = key.split("/");
  if (cluster === undefined || namespace === undefined || name.length === 0) return null;
  return { cluster, namespace, name: name.join("/") };
}

export function serviceHref(service: Pick<Service, "cluster" | "namespace" | "name">): string {
  return hrefOf("/services", { service: keyOf(service) });
}

const STATES: Record<string, [Tone, string]> = {
  down: ["critical", "down"],
  fast: ["critical", "burning fast"],
  spent: ["critical", "budget spent"],
  slow: ["warning", "burning slowly"],
  unmeasured: ["muted", "not measured"],
  ok: ["good", "on target"],
};

export function stateOf(state: string): { tone: Tone; word: string; rank: number } {
  const rank = Object.keys(STATES).indexOf(state);
  const [tone, word] = STATES[state] ?? ["plain", "no objective"];
  return { tone, word, rank: rank < 0 ? Object.keys(STATES).length : rank };
}

const COUNTED: Record<string, (threshold: string) => string> = {
  latency: (threshold) => `of the requests take no longer than ${threshold}`,
  ttft: (threshold) => `of the first tokens come within ${threshold}`,
  errors: () => "of the requests succeed",
  availability: () => "of the time it answers",
};

/** "99 % of the requests take no longer than 2 s, over 30d". */
export function promise(slo: Slo): string {
  const said = COUNTED[slo.indicator]?.(duration(slo.threshold_s)) ?? slo.indicator;
  return `${share(slo.target)} ${said}`;
}

/** As many digits as an objective has. */
export function share(value: number | null | undefined): string {
  if (value == null) return "unknown";
  const text = percent(value, 3);
  return text.replace(/\.?0+ %$/, " %");
}

/** The part of the budget that is left; when that is nothing, how often it was spent. */
export function leftText(left: number | null | undefined): string {
  if (left == null) return "unknown";
  return left < 0 ? `spent ${burnText(1 - left)}` : `${percent(left)} left`;
}

export function burnText(rate: number | null | undefined): string {
  if (rate == null) return "unknown";
  return `${rate >= 10 ? Math.round(rate) : Number(rate.toPrecision(2))}×`;
}

export function seconds(value: number | null | undefined): string {
  return value == null ? "–" : duration(value);
}

const FIGURES: Record<string, string> = {
  requests_per_s: "Requests",
  errors_per_s: "Errors",
  latency: "Latency",
  ttft: "Time to first token",
  per_token: "Time per token",
  running: "Running requests",
  waiting: "Waiting requests",
  per_hour: "Cost",
};

export function figureName(figure: string): string {
  return FIGURES[figure] ?? figure;
}

/** The one thing to say first. */
export function headline(services: Service[]): string {
  const named = (state: string) => services.filter((one) => one.state === state).map((one) => one.name);
  const said = (names: string[], one: string, many: string) =>
    names.length === 1 ? `${names[0]} ${one}` : `${names.length} services ${many}`;
  for (const [state, one, many] of [
    ["down", "does not answer", "do not answer"],
    ["fast", "breaks its promise and burns its error budget fast", "break their promises and burn their error budgets fast"],
    ["spent", "has used up its error budget", "have used up their error budgets"],
    ["slow", "burns its error budget too fast", "burn their error budgets too fast"],
  ] as const) {
    const names = named(state);
    if (names.length > 0) return `${said(names, one, many)}.`;
  }
  const slos = services.flatMap((one) => one.slos);
  if (slos.length === 0) return `${services.length === 1 ? "One service answers" : `${services.length} services answer`}; none has an objective yet.`;
  const unmeasured = slos.filter((one) => one.state === "unmeasured").length;
  if (unmeasured === slos.length) return `Whether ${slos.length === 1 ? "the objective is" : "objectives are"} met is not known: nothing is measured yet.`;
  if (unmeasured > 0) return `${slos.length - unmeasured} of ${slos.length} objectives are met; ${unmeasured === 1 ? "one is" : `${unmeasured} are`} not measured.`;
  return "All objectives are met.";
}

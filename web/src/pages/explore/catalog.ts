// The names that the server knows, each asked for once while the page is open.
import { getPrometheus } from "../../api/client";
import type { Offer } from "./completion";

interface Described {
  type: string;
  help: string;
  unit: string;
}

const kept = new Map<string, Promise<unknown>>();

/** A failure is forgotten: it is asked again the next time. */
function once<T>(key: string, ask: () => Promise<T>): Promise<T> {
  const known = kept.get(key);
  if (known !== undefined) return known as Promise<T>;
  const asked = ask();
  kept.set(key, asked);
  asked.catch(() => kept.delete(key));
  return asked;
}

async function list(path: string, query: Record<string, string | string[]>): Promise<string[]> {
  return (await getPrometheus<string[]>(path, query)).data;
}

export function metadata(): Promise<Record<string, Described[]>> {
  return once("metadata", async () => (await getPrometheus<Record<string, Described[]>>("/api/v1/metadata", {})).data);
}

export function metricOffers(): Promise<Offer[]> {
  return once("metrics", async () => {
    const [names, told] = await Promise.all([list("/api/v1/label/__name__/values", {}), metadata()]);
    return names.map((name) => {
      const about = told[name]?.[0] ?? told[name.replace(/_(total|count|sum|bucket)$/, "")]?.[0];
      const note = about?.type ?? (name.includes(":") ? "recorded by a rule" : "metric");
      return { text: name, label: name, note, help: about?.help ?? "", back: 0 };
    });
  });
}

export function labelOffers(metrics: string[]): Promise<Offer[]> {
  const match = metrics.map(selector);
  return once(`labels ${match.join()}`, async () => {
    const names = await list("/api/v1/labels", match.length > 0 ? { "match[]": match } : {});
    return names
      .filter((name) => name !== "__name__")
      .map((name) => ({ text: name, label: name, note: "label", help: "", back: 0 }));
  });
}

const MOST_VALUES = 500;

export function valueOffers(label: string, metric: string, quote: string): Promise<Offer[]> {
  return once(`values ${label} ${metric} ${quote}`, async () => {
    const path = `/api/v1/label/${encodeURIComponent(label)}/values`;
    const match: Record<string, string> = metric === "" ? {} : { "match[]": selector(metric) };
    const values = await list(path, { ...match, limit: String(MOST_VALUES) });
    return values.map((value) => ({ text: written(value, quote), label: value, note: "value", help: "", back: 0 }));
  });
}

/** A value as it is written between quotes. */
function written(value: string, quote: string): string {
  return quote === "`" ? value : value.replace(/\\/g, "\\\\").replaceAll(quote, `\\${quote}`).replace(/\n/g, "\\n");
}

function selector(metric: string): string {
  return `{__name__=${JSON.stringify(metric)}}`;
}

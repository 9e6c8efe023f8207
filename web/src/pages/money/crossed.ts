// Lines of the ledger as rows and columns: the largest columns by name, all others together.
import type { components } from "../../api/schema";
import { keyLabel, textOf, type Key } from "./dimensions";

export type Cost = components["schemas"]["CostAnswer"];

export interface Row {
  key: Key;
  text: string;
  label: string;
  cells: number[]; // by column
  total: number | null; // null where nothing of it has a price
  before: number | null; // null where it is not compared, or not all of the span before is booked
  gpuHours: number;
  unpricedHours: number;
}

export interface Crossed {
  columns: { text: string; label: string; key: Key }[];
  rows: Row[];
}

const HOUR_MS = 3_600_000;
const MOST_COLUMNS = 7;
export const MOST_PARTS = 12; // of a stack: all buckets
export const OTHERS = "(others)";

/** What a span cost of which a part is booked is less than all of it: nothing can be compared with that. */
export function isBeforeWhole({ hours_before: before }: Cost): boolean {
  return before !== null && before.booked === before.asked;
}

/** Of one currency; time without any price stands with it. */
export function crossed(cost: Cost, currency: string | null, most = MOST_COLUMNS): Crossed {
  const [rowName = "", columnName = ""] = cost.by;
  const lines = cost.lines.filter((line) => line.currency === currency || line.currency === null);
  const sizes = new Map<string, { key: Key; size: number }>();
  for (const line of lines) {
    const key = line.keys[columnName] ?? null;
    const known = sizes.get(textOf(key)) ?? { key, size: 0 };
    known.size += Number(line.now?.amount ?? 0);
    sizes.set(textOf(key), known);
  }
  const largest = [...sizes].sort(([, a], [, b]) => b.size - a.size);
  const columns = largest
    .slice(0, largest.length > most + 1 ? most : largest.length)
    .map(([text, { key }]) => ({ text, key, label: keyLabel(columnName, key) }));
  if (columns.length < largest.length) {
    columns.push({ text: OTHERS, key: OTHERS, label: `${largest.length - columns.length} others` });
  }
  const place = new Map(columns.map((column, i) => [column.text, i]));
  const rows = new Map<string, Row>();
  for (const line of lines) {
    const key = line.keys[rowName] ?? null;
    const text = textOf(key);
    const row = rows.get(text) ?? empty(key, text, keyLabel(rowName, key), columns.length, cost.compared && isBeforeWhole(cost));
    rows.set(text, row);
    const amount = line.now?.amount == null ? null : Number(line.now.amount);
    const at = place.get(textOf(line.keys[columnName] ?? null)) ?? columns.length - 1;
    row.cells[at] = (row.cells[at] ?? 0) + (amount ?? 0);
    if (amount !== null) row.total = (row.total ?? 0) + amount;
    if (row.before !== null) row.before += Number(line.before?.amount ?? 0);
    row.gpuHours += (line.now?.gpu_ms ?? 0) / HOUR_MS;
    row.unpricedHours += (line.now?.unpriced_gpu_ms ?? 0) / HOUR_MS;
  }
  return { columns, rows: [...rows.values()].sort((a, b) => (b.total ?? 0) - (a.total ?? 0)) };
}

function empty(key: Key, text: string, label: string, columns: number, isCompared: boolean): Row {
  const cells = Array.from({ length: columns }, () => 0);
  return { key, text, label, cells, total: null, before: isCompared ? 0 : null, gpuHours: 0, unpricedHours: 0 };
}

/** What is shown, for a spreadsheet: names that it would take for a formula are kept from that. */
export function asCsv(cost: Cost): string {
  const head = [...cost.by, "currency", "amount", "amount_before", "gpu_hours", "gpu_hours_without_price"];
  const lines = cost.lines.map((line) => [
    ...cost.by.map((name) => harmless(keyText(name, line.keys[name] ?? null))),
    line.currency ?? "",
    line.now?.amount ?? "",
    cost.compared ? (line.before?.amount ?? "") : "",
    hours(line.now?.gpu_ms),
    hours(line.now?.unpriced_gpu_ms),
  ]);
  return [head, ...lines].map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function keyText(name: string, key: Key): string {
  return name === "hour" || name === "day" ? new Date(Number(key)).toISOString() : textOf(key);
}

function hours(ms: number | undefined): string {
  return ms === undefined ? "" : (ms / HOUR_MS).toFixed(3);
}

function harmless(text: string): string {
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

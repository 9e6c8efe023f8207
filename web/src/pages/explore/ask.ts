// What is asked of the server for a query, and where its faults stand.
import { get, getPrometheus, type Answer, type Data } from "../../api/client";
import type { Fault } from "./editor";
import type { Labels } from "./series";

export const DRAWN = 200;
export const LISTED = 1000;

export interface RangeSeries {
  metric: Labels;
  values: [number, string][];
}

export interface InstantSeries {
  metric: Labels;
  value: [number, string];
}

export type Instant =
  | { resultType: "vector"; result: InstantSeries[] }
  | { resultType: "matrix"; result: RangeSeries[] }
  | { resultType: "scalar"; result: [number, string] }
  | { resultType: "string"; result: [number, string] };

export interface Graphed {
  series: RangeSeries[];
  total: number | null; // null where it is not known
  fromMs: number;
  toMs: number;
  stepMs: number;
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];
const POINTS = 300;

/** About three hundred points, a round time apart. */
export function stepMs(fromMs: number, toMs: number): number {
  const wanted = (toMs - fromMs) / 1000 / POINTS;
  return 1000 * (STEPS_S.find((step) => step >= wanted) ?? Math.ceil(wanted / 86_400) * 86_400);
}

export async function graphed(
  query: string,
  fromMs: number,
  toMs: number,
  signal: AbortSignal,
): Promise<Answer<Graphed>> {
  const step = stepMs(fromMs, toMs);
  // The last point is the end of the span: round moments would leave out what a young server has only just heard.
  const end = Math.floor(toMs / 1000) * 1000;
  const start = end - Math.floor((end - fromMs) / step) * step;
  const asked = { query, start: start / 1000, end: end / 1000, step: step / 1000, limit: DRAWN };
  const { data, warnings } = await getPrometheus<{ result: RangeSeries[] }>("/api/v1/query_range", asked, signal);
  const isCut = data.result.length >= DRAWN;
  const total = isCut ? await counted(query, end, signal) : data.result.length;
  const answer = { series: data.result, total, fromMs: start, toMs: end, stepMs: step };
  return { data: answer, warnings: warnings.filter((line) => !isAboutLimit(line)) };
}

export interface Listed {
  answer: Instant;
  total: number | null;
}

export async function listed(query: string, atMs: number, signal: AbortSignal): Promise<Answer<Listed>> {
  const asked = { query, time: atMs / 1000, limit: LISTED };
  const { data, warnings } = await getPrometheus<Instant>("/api/v1/query", asked, signal);
  const isCut = data.resultType === "vector" && data.result.length >= LISTED;
  const total = isCut ? await counted(query, atMs, signal) : data.result.length;
  return { data: { answer: data, total }, warnings: warnings.filter((line) => !isAboutLimit(line)) };
}

function isAboutLimit(line: string): boolean {
  return /truncated due to limit/i.test(line);
}

/** How many there are at a moment; an answer without it is an answer still. */
async function counted(query: string, atMs: number, signal: AbortSignal): Promise<number | null> {
  try {
    const asked = { query: `count(${query}\n)`, time: atMs / 1000 };
    const { data } = await getPrometheus<Instant>("/api/v1/query", asked, signal);
    return data.resultType === "vector" && data.result[0] !== undefined ? Number(data.result[0].value[1]) : null;
  } catch (e) {
    if (signal.aborted) throw e;
    return null;
  }
}

export type Checked = Data<"/api/promql/check">;

/** Whether the server can read it, and how it would write it. */
export async function checked(query: string, signal?: AbortSignal): Promise<Checked> {
  return (await get("/api/promql/check", { query: { query } }, signal)).data;
}

/** Where in the query a fault stands: the server counts characters, the field UTF-16 units. */
export function faultIn(query: string, found: Checked): Fault | null {
  if (found.fault === null) return null;
  const { position, text } = found.fault;
  return { at: position === null ? 0 : [...query].slice(0, position).join("").length, text };
}

// The unit of an answer, guessed from the names in the query; a wrong guess would be worse than none.
import { bytes, celsius, figure, percent, short, watts } from "../../format/numbers";
import { duration } from "../../format/time";
import { metricsIn } from "./tokens";

export interface Unit {
  name: string; // empty where none is known
  say: (value: number) => string;
}

const PLAIN: Unit = { name: "", say: short };

const BY_NAME: [RegExp, Unit][] = [
  [/timestamp_seconds$/, PLAIN],
  [/_seconds(_total|_sum)?$|:seconds$/, { name: "time", say: duration }],
  [/_bytes(_total)?$|:bytes$/, { name: "bytes", say: bytes }],
  [/_ratio$|:ratio$|^DCGM_FI_PROF_.*_ACTIVE$/, { name: "share", say: (value) => percent(value, value < 0.1 ? 1 : 0) }],
  [/_celsius$|:celsius$|GPU_TEMP$|MEMORY_TEMP$/, { name: "temperature", say: celsius }],
  [/_watts$|:watts$|POWER_USAGE$/, { name: "power", say: watts }],
  [/_joules(_total)?$/, { name: "energy", say: (value) => `${short(value)} J` }],
  [/(SM|MEM)_CLOCK$/, { name: "clock", say: (value) => `${figure(value)} MHz` }],
  [/FB_(USED|FREE|RESERVED|TOTAL)$/, { name: "bytes", say: (value) => bytes(value * 2 ** 20) }],
  [/(GPU|MEM_COPY|ENC|DEC)_UTIL$|_percent$/, { name: "percent", say: (value) => `${figure(value)} %` }],
  [/_per_hour$/, { name: "an hour", say: (value) => `${short(value)}/h` }],
];

export function unitOf(query: string): Unit {
  const metrics = metricsIn(query);
  const units = new Set(metrics.map((name) => BY_NAME.find(([pattern]) => pattern.test(name))?.[1] ?? PLAIN));
  const [unit] = units;
  if (unit === undefined || units.size > 1) return PLAIN;
  if (/^\s*(count|count_values|group)\b/.test(query) || /[*/^]|[<>=!]=?\s*bool/.test(outside(query))) return PLAIN;
  if (/\b(rate|irate|deriv)\s*\(/.test(query)) {
    if (unit.name === "bytes") return { name: "bytes a second", say: (value) => `${bytes(value)}/s` };
    if (unit.name === "energy") return { name: "power", say: watts };
    if (unit.name === "time") return { name: "seconds a second", say: short };
    return { name: "a second", say: (value) => `${short(value)}/s` };
  }
  return unit;
}

/** Without what stands in braces and quotes. */
function outside(query: string): string {
  return query.replace(/"(?:[^"\\]|\\.)*"/g, "").replace(/\{[^}]*\}/g, "");
}

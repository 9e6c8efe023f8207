// How a GPU looks on the map: by what it is coloured, in words, and with a pattern where colour alone would not tell.
import { celsius, percent, watts } from "../../format/numbers";
import { holderOf, type Fleet } from "./gpus";

export type Dimension = "health" | "use" | "temperature" | "power" | "memory" | "owner";
export type Pattern = "cross" | "stripes" | "hollow" | "dot" | null;

export interface Look {
  word: string;
  colour: string; // a CSS colour, or the name of a variable of the theme
  pattern: Pattern;
}

export interface Painting {
  of: (gpu: number) => Look;
  legend: (Look & { count: number })[];
  scale: { low: string; high: string; colours: string[] } | null; // of figures
}

export const DIMENSIONS: { value: Dimension; label: string }[] = [
  { value: "health", label: "Health" },
  { value: "use", label: "Use" },
  { value: "temperature", label: "Temperature" },
  { value: "power", label: "Power" },
  { value: "memory", label: "Memory" },
  { value: "owner", label: "Owner" },
];

// From dark blue over grey to yellow: told apart by everybody, and in grey as well.
const RAMP = ["#00204d", "#00336f", "#39486b", "#575c6d", "#707173", "#8a8779", "#a69d75", "#c4b56c", "#e4cf5b", "#ffea46"];
const NOT_KNOWN: Look = { word: "not known", colour: "--text-soft", pattern: "hollow" };

const HEALTH: Record<string, Look> = {
  lost: { word: "lost", colour: "--critical", pattern: "cross" },
  critical: { word: "critical", colour: "--critical", pattern: "dot" },
  warning: { word: "warning", colour: "--fleet-warning", pattern: "stripes" },
  silent: { word: "silent", colour: "--fleet-warning", pattern: "hollow" },
  info: { word: "worth a look", colour: "--series-6", pattern: null },
  blind: { word: "nothing reports", colour: "--text-soft", pattern: "hollow" },
  ok: { word: "healthy", colour: "--fleet-good", pattern: null },
};
const HEALTH_ORDER = ["lost", "critical", "warning", "silent", "blind", "info", "ok"];

const USE: Record<string, Look> = {
  idle: { word: "held, but idle", colour: "--series-2", pattern: "stripes" },
  light: { word: "5 to 50 % busy", colour: "--series-6", pattern: null },
  busy: { word: "over 50 % busy", colour: "--series-1", pattern: null },
  free: { word: "free", colour: "--line", pattern: null },
  unknown: NOT_KNOWN,
};
const USE_ORDER = ["idle", "light", "busy", "free", "unknown"];

export function paintingOf(fleet: Fleet, by: Dimension): Painting {
  switch (by) {
    case "health":
      return byWord(fleet, (gpu) => healthOf(fleet, gpu), HEALTH, HEALTH_ORDER);
    case "use":
      return byWord(fleet, (gpu) => useOf(fleet, gpu), USE, USE_ORDER);
    case "temperature":
      return byFigure(fleet.gpus.temperature_celsius, 30, 95, celsius);
    case "power":
      return byFigure(fleet.gpus.power_watts, 0, mostWatts(fleet), watts);
    case "memory":
      return byFigure(fleet.gpus.memory_used, 0, 1, percent);
    case "owner":
      return byOwner(fleet);
  }
}

export function healthOf(fleet: Fleet, gpu: number): string {
  const state = fleet.gpus.state[gpu] ?? "reporting";
  const health = fleet.gpus.health[gpu] ?? "ok";
  if (state === "lost" || state === "blind") return state;
  if (state === "silent" && health !== "critical") return "silent";
  return HEALTH[health] === undefined ? "blind" : health;
}

export function healthWord(fleet: Fleet, gpu: number): string {
  return HEALTH[healthOf(fleet, gpu)]?.word ?? "not known";
}

function useOf(fleet: Fleet, gpu: number): string {
  const share = fleet.gpus.utilization[gpu];
  if (share == null) return "unknown";
  if (share >= 0.5) return "busy";
  if (share >= 0.05) return "light";
  return (fleet.gpus.holders[gpu] ?? 0) > 0 ? "idle" : "free";
}

function byWord(fleet: Fleet, of: (gpu: number) => string, looks: Record<string, Look>, order: string[]): Painting {
  const counts = new Map<string, number>();
  const keys = fleet.gpus.node.map((_, gpu) => of(gpu));
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return {
    of: (gpu) => looks[keys[gpu] ?? ""] ?? NOT_KNOWN,
    legend: order.flatMap((key) => {
      const look = looks[key];
      const count = counts.get(key) ?? 0;
      return look !== undefined && count > 0 ? [{ ...look, count }] : [];
    }),
    scale: null,
  };
}

function byFigure(values: (number | null)[], low: number, high: number, say: (value: number) => string): Painting {
  const unknown = values.reduce<number>((n, value) => n + (value == null ? 1 : 0), 0);
  return {
    of: (gpu) => {
      const value = values[gpu];
      if (value == null) return NOT_KNOWN;
      const share = Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
      return { word: say(value), colour: RAMP[Math.round(share * (RAMP.length - 1))] ?? "", pattern: null };
    },
    legend: unknown > 0 ? [{ ...NOT_KNOWN, count: unknown }] : [],
    scale: { low: say(low), high: `${say(high)} or more`, colours: RAMP },
  };
}

function mostWatts(fleet: Fleet): number {
  const most = fleet.gpus.power_watts.reduce<number>((top, value) => Math.max(top, value ?? 0), 0);
  return Math.max(100, Math.ceil(most / 100) * 100);
}

const COLOURS = 8;
const SHOWN_TEAMS = 2 * COLOURS; // the second eight are striped

/** By team; what has none, by its workload's namespace. */
function byOwner(fleet: Fleet): Painting {
  const owner = (gpu: number): string | null => {
    const holder = holderOf(fleet, gpu);
    return holder === null ? null : (holder.team ?? holder.namespace);
  };
  const counts = new Map<string, number>();
  let [free, shared] = [0, 0];
  for (let gpu = 0; gpu < fleet.gpus.node.length; gpu += 1) {
    const name = owner(gpu);
    if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
    else if ((fleet.gpus.holders[gpu] ?? 0) > 0) shared += 1;
    else free += 1;
  }
  const names = [...counts].sort(([a, n], [b, m]) => m - n || a.localeCompare(b)).map(([name]) => name);
  const looks = new Map<string, Look>();
  for (const [place, name] of names.slice(0, SHOWN_TEAMS).entries()) {
    looks.set(name, {
      word: name,
      colour: `--series-${(place % COLOURS) + 1}`,
      pattern: place >= COLOURS ? "stripes" : null,
    });
  }
  const others: Look = { word: "others", colour: "--text-soft", pattern: null };
  const several: Look = { word: "shared, or not known", colour: "--text-soft", pattern: "stripes" };
  const nobody: Look = { word: "free", colour: "--line", pattern: null };
  const rest = names.slice(SHOWN_TEAMS).reduce((sum, name) => sum + (counts.get(name) ?? 0), 0);
  const last = [
    { ...others, count: rest },
    { ...several, count: shared },
    { ...nobody, count: free },
  ].filter((one) => one.count > 0);
  return {
    of: (gpu) => {
      const name = owner(gpu);
      if (name !== null) return looks.get(name) ?? others;
      return (fleet.gpus.holders[gpu] ?? 0) > 0 ? several : nobody;
    },
    legend: [...[...looks.values()].map((look) => ({ ...look, count: counts.get(look.word) ?? 0 })), ...last],
    scale: null,
  };
}

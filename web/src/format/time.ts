// Times as the viewer's clock has them, and spans as a person says them.
const UNITS: [string, number][] = [
  ["w", 604_800_000],
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
];

/** "90m" in milliseconds; null where it is no span. */
export function spanMs(text: string): number | null {
  const found = /^(\d+(?:\.\d+)?)([wdhms])$/.exec(text.trim());
  if (found === null) return null;
  const unit = UNITS.find(([name]) => name === found[2]);
  return unit === undefined ? null : Number(found[1]) * unit[1];
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const CLOCK_S = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const DAY_OF_YEAR = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

export function clock(ms: number | null | undefined, withSeconds = false): string {
  return ms == null ? "unknown" : (withSeconds ? CLOCK_S : CLOCK).format(ms);
}

/** "01:12" today, else with its day, and with the year where it is another. */
export function moment(ms: number | null | undefined): string {
  if (ms == null) return "unknown";
  const [at, now] = [new Date(ms), new Date()];
  if (at.toDateString() === now.toDateString()) return CLOCK.format(ms);
  const day = at.getFullYear() === now.getFullYear() ? DAY : DAY_OF_YEAR;
  return `${day.format(ms)} ${CLOCK.format(ms)}`;
}

export function fullMoment(ms: number): string {
  return FULL.format(ms);
}

/** "41 min", "3 h 20 min", "2 d 4 h". */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return "unknown";
  const s = Math.abs(seconds);
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1).replace(/\.0$/, "")} s`;
  if (s < 90) return `${Math.round(s)} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 90) return `${minutes} min`;
  if (minutes < 48 * 60) return joined(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(s / 3600);
  return joined(Math.floor(hours / 24), "d", hours % 24, "h");
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

export function ago(ms: number | null | undefined, nowMs = Date.now()): string {
  if (ms == null) return "unknown";
  const seconds = (nowMs - ms) / 1000;
  return seconds < 5 ? "just now" : `${duration(seconds)} ago`;
}

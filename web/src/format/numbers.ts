// Figures with their units; what is not known is said, never shown as zero.
type Figure = number | null | undefined;

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function known(value: Figure): value is number {
  return value != null && Number.isFinite(value);
}

export function count(value: Figure): string {
  return known(value) ? WHOLE.format(value) : "unknown";
}

export function figure(value: Figure, digits = 3): string {
  if (!known(value)) return "unknown";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  if (size >= 1000) return WHOLE.format(value);
  return String(Number(value.toPrecision(digits)));
}

export function percent(share: Figure, digits = 0): string {
  return known(share) ? `${(share * 100).toFixed(digits)} %` : "unknown";
}

export function celsius(value: Figure): string {
  return known(value) ? `${Math.round(value)} °C` : "unknown";
}

export function watts(value: Figure): string {
  if (!known(value)) return "unknown";
  return Math.abs(value) >= 10_000 ? `${figure(value / 1000)} kW` : `${Math.round(value)} W`;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: Figure): string {
  if (!known(value)) return "unknown";
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < SIZES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${Number(size.toPrecision(3))} ${SIZES[unit] ?? "B"}`;
}

const LARGE: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** 1,240,000 as "1.24M": for axes and tight columns. */
export function short(value: Figure): string {
  if (!known(value)) return "unknown";
  for (const [size, letter] of LARGE) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${letter}`;
  }
  return figure(value);
}

export function rate(value: Figure, of: string): string {
  return known(value) ? `${short(value)} ${of}/s` : "unknown";
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${WHOLE.format(n)} ${n === 1 ? one : many}`;
}

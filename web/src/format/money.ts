// Money as it is said: whole units from ten on, cents below.
const formats = new Map<string, (value: number) => string>();

function format(currency: string, digits: number): (value: number) => string {
  const key = `${currency}/${digits}`;
  let found = formats.get(key);
  if (found === undefined) {
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    try {
      const known = new Intl.NumberFormat("en-US", { style: "currency", currency, ...options });
      found = (value) => known.format(value);
    } catch {
      // A unit of somebody's own: its name follows.
      const plain = new Intl.NumberFormat("en-US", options);
      found = (value) => `${plain.format(value)} ${currency}`;
    }
    formats.set(key, found);
  }
  return found;
}

/** The API gives money as a decimal in a string, so that nothing is lost on the way. */
export function money(amount: number | string | null | undefined, currency = "USD"): string {
  if (amount == null || amount === "") return "unknown";
  const value = Number(amount);
  if (!Number.isFinite(value)) return "unknown";
  return format(currency, Math.abs(value) < 10 && value !== 0 ? 2 : 0)(value);
}

export function perHour(amount: number | string | null | undefined, currency = "USD"): string {
  const text = money(amount, currency);
  return text === "unknown" ? text : `${text}/h`;
}

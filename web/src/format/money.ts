// Money as it is said: whole units from ten on, cents below.
const formats = new Map<string, Intl.NumberFormat>();

function format(currency: string, digits: number): Intl.NumberFormat {
  const key = `${currency}/${digits}`;
  let found = formats.get(key);
  if (found === undefined) {
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    try {
      found = new Intl.NumberFormat("en-US", { style: "currency", currency, ...options });
    } catch {
      found = new Intl.NumberFormat("en-US", options); // a unit of somebody's own: its name follows
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
  return format(currency, Math.abs(value) < 10 && value !== 0 ? 2 : 0).format(value);
}

export function perHour(amount: number | string | null | undefined, currency = "USD"): string {
  const text = money(amount, currency);
  return text === "unknown" ? text : `${text}/h`;
}

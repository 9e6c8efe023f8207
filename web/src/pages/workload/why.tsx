import type { Range } from "../../core/route";
import { Why } from "../../parts/verdicts";

const MOST_MS = 6.5 * 86_400_000; // a case is about a week at most
const NONE = { what: "Nothing is out of the ordinary in this time.", todo: "Choose another span of time, or ask again in half a minute." };

export function WhyOf({ subject, range }: { subject: string; range: Range }) {
  const from = Math.max(range.fromMs, range.toMs - MOST_MS) / 1000;
  const to = range.isLive ? undefined : range.toMs / 1000;
  return <Why question={`${subject} ${range.key}`} query={{ subject, from, to }} none={NONE} />;
}

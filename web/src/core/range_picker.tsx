import { clock, moment } from "../format/time";
import { useRange } from "./route";

const SPANS = ["15m", "1h", "3h", "6h", "12h", "24h", "2d", "7d", "30d"];

export function RangePicker() {
  const range = useRange();
  return (
    <span class="range">
      <label>
        <span class="hidden">Span of time</span>
        <select value={range.text} onChange={(event) => range.set(event.currentTarget.value)}>
          {!range.isLive && <option value="">{spanText(range.fromMs, range.toMs)}</option>}
          {(SPANS.includes(range.text) || !range.isLive ? SPANS : [range.text, ...SPANS]).map((span) => (
            <option key={span} value={span}>
              last {span}
            </option>
          ))}
        </select>
      </label>
    </span>
  );
}

function spanText(fromMs: number, toMs: number): string {
  const isOneDay = new Date(fromMs).toDateString() === new Date(toMs).toDateString();
  return `${moment(fromMs)} – ${isOneDay ? clock(toMs) : moment(toMs)}`;
}

import { moment } from "../format/time";
import { useRange } from "./route";

const SPANS = ["15m", "1h", "3h", "6h", "12h", "24h", "2d", "7d", "30d"];

export function RangePicker() {
  const range = useRange();
  return (
    <span class="range">
      {!range.isLive && (
        <span class="range-span">
          {moment(range.fromMs)} – {moment(range.toMs)}
        </span>
      )}
      <label>
        <span class="hidden">Span of time</span>
        <select value={range.text} onChange={(event) => range.set(event.currentTarget.value)}>
          {!range.isLive && <option value="">as chosen</option>}
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

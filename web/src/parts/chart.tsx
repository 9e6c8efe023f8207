// Curves over time. The cursor moves on canvas and in the line above it: nothing of the page is drawn anew.
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { THEME_CHANGED } from "../core/theme_event";
import { short } from "../format/numbers";
import { clock } from "../format/time";
import { colourOf, dataOf, heightOf, optionsOf, type ChartProps, type Line, type Values } from "./chart_plot";
import { inTurn, withFrame } from "./turns";
import "./chart.css";

export type { ChartMark, Line } from "./chart_plot";

const HEAD_PX = 18;

export function Chart(props: ChartProps) {
  const holder = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const shape = JSON.stringify([
    props.lines.map((line) => [line.label, line.colour, line.low !== undefined, line.isFilled, line.dash]),
    props.sync,
    props.height,
    props.noTimes,
    props.fromZero,
  ]);
  const drawn = useMemo(() => ({ isSeen: true, isOld: false, told: "" }), []);

  const tell = useMemo(
    () => () => {
      if (!drawn.isSeen || head.current === null) return;
      const at = plot.current?.cursor.idx ?? null;
      const words = wordsOf(latest.current, at);
      const told = words.join("\n");
      if (told === drawn.told) return;
      drawn.told = told;
      for (const [i, element] of [...head.current.querySelectorAll("[data-told]")].entries()) {
        if (element.textContent !== words[i]) element.textContent = words[i] ?? "";
      }
    },
    [],
  );

  useEffect(() => {
    const element = holder.current;
    if (element === null) return;
    const make = () => {
      plot.current?.destroy();
      const options = optionsOf(latest, element.clientWidth, () => withFrame(tell));
      plot.current = new uPlot(options, dataOf(latest.current), element);
      drawn.isOld = false;
    };
    let takeBack = inTurn(make);
    const again = () => {
      takeBack = inTurn(make);
    };
    drawn.told = "";
    tell();
    const resized = new ResizeObserver(() => {
      const width = element.clientWidth;
      if (plot.current !== null && plot.current.width !== width) plot.current.setSize({ width, height: heightOf(latest.current) });
    });
    resized.observe(element);
    const seen = new IntersectionObserver(([one]) => {
      drawn.isSeen = one?.isIntersecting ?? true;
      tell();
    });
    seen.observe(element);
    window.addEventListener(THEME_CHANGED, again);
    return () => {
      takeBack();
      resized.disconnect();
      seen.disconnect();
      window.removeEventListener(THEME_CHANGED, again);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    tell();
    drawn.isOld = true;
    return inTurn(() => {
      if (drawn.isOld) plot.current?.setData(dataOf(latest.current));
      drawn.isOld = false;
    });
  }, [props.timesMs, props.lines, props.marks, props.fromMs, props.toMs]);

  return (
    <div class="chart" role="img" aria-label={props.label} style={{ height: `${heightOf(props) + HEAD_PX}px` }}>
      <div class="chart-head" ref={head}>
        {props.lines.map((line, i) => (
          <span key={line.label}>
            <i class={line.dash === undefined ? "" : "is-dashed"} style={{ borderColor: cssOf(line, i) }} />
            {line.label} <b data-told />
          </span>
        ))}
        <span class="chart-time" data-told />
      </div>
      <div ref={holder} />
    </div>
  );
}

function cssOf(line: Line, i: number): string {
  const name = colourOf(line, i);
  return name.startsWith("--") ? `var(${name})` : name;
}

/** What stands above the curves: the values under the cursor and their time, else the last ones. */
function wordsOf(props: ChartProps, at: number | null): string[] {
  const say = props.say ?? short;
  const words = props.lines.map((line) => {
    const i = at ?? lastOf(line.values);
    const value = line.values[i];
    if (value == null) return "–";
    const low = line.low?.[i];
    const high = line.high?.[i];
    const isBand = low != null && high != null && say(low) !== say(high);
    return isBand ? `${say(value)} (${say(low)} to ${say(high)})` : say(value);
  });
  return [...words, at === null ? "" : clock(props.timesMs[at], true)];
}

function lastOf(values: Values): number {
  let i = values.length - 1;
  while (i >= 0 && values[i] == null) i -= 1;
  return i;
}

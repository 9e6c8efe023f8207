// Curves over time. The cursor moves on canvas and in uPlot's own legend: nothing of the page is drawn anew.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { THEME_CHANGED } from "../core/theme_event";
import { clock, moment } from "../format/time";
import { short } from "../format/numbers";
import type { Tone } from "./badge";

type Values = (number | null)[];

export interface Line {
  label: string;
  values: Values;
  colour?: string; // as --series-2; else the next of the palette
  low?: Values; // the band around it
  high?: Values;
  isFilled?: boolean;
  dash?: number[];
  width?: number;
}

export interface ChartMark {
  atMs: number;
  toMs?: number;
  label: string;
  tone: Tone;
}

interface ChartProps {
  label: string;
  timesMs: number[];
  lines: Line[];
  height?: number;
  say?: (value: number) => string; // a value with its unit
  sync?: string; // charts of one name share their cursor
  marks?: ChartMark[];
  onZoom?: (fromMs: number, toMs: number) => void; // a stretch was dragged over
  onPick?: (index: number) => void; // a point was clicked
  fromZero?: boolean;
  noTimes?: boolean; // the axis below another chart's has them
  fromMs?: number; // where the axis begins and ends, when the data do not
  toMs?: number;
}

const SERIES = 8;

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colourOf(line: Line, i: number): string {
  const name = line.colour ?? `--series-${(i % SERIES) + 1}`;
  return name.startsWith("--") ? css(name) : name;
}

export function Chart(props: ChartProps) {
  const holder = useRef<HTMLDivElement>(null);
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

  useEffect(() => {
    const element = holder.current;
    if (element === null) return;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(latest, element.clientWidth), data(latest.current), element);
    };
    make();
    const resized = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: latest.current.height ?? 160 });
    });
    resized.observe(element);
    window.addEventListener(THEME_CHANGED, make);
    return () => {
      resized.disconnect();
      window.removeEventListener(THEME_CHANGED, make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData(data(props));
  }, [props.timesMs, props.lines, props.marks, props.fromMs, props.toMs]);

  return <div class="chart" role="img" aria-label={props.label} ref={holder} />;
}

function data(props: ChartProps): uPlot.AlignedData {
  const columns: Values[] = [];
  for (const line of props.lines) {
    columns.push(line.values);
    if (line.low !== undefined && line.high !== undefined) columns.push(line.low, line.high);
  }
  return [props.timesMs, ...columns] as uPlot.AlignedData;
}

function options(latest: { current: ChartProps }, width: number): uPlot.Options {
  const props = latest.current;
  const say = (value: number | null | undefined) =>
    value == null ? "–" : (latest.current.say ?? short)(value);
  const series: uPlot.Series[] = [{ label: "", value: (_, ms) => (ms == null ? "" : clock(ms, true)) }];
  const bands: uPlot.Band[] = [];
  for (const [i, line] of props.lines.entries()) {
    const colour = colourOf(line, i);
    series.push({
      label: line.label,
      stroke: colour,
      width: line.width ?? 1.5,
      dash: line.dash,
      fill: line.isFilled ? `${colour}33` : undefined,
      points: { show: false },
      spanGaps: false,
      value: (_, value) => say(value),
    });
    if (line.low !== undefined && line.high !== undefined) {
      const hidden = { stroke: "transparent", width: 0, points: { show: false }, class: "chart-hidden", label: "" };
      series.push(hidden, hidden);
      bands.push({ series: [series.length - 1, series.length - 2], fill: `${colour}2e` });
    }
  }
  const text = css("--text-soft");
  const grid = { stroke: css("--line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  return {
    width,
    height: props.height ?? 160,
    ms: 1,
    series,
    bands,
    scales: {
      x: {
        time: true,
        range: (_, low, high) => [latest.current.fromMs ?? low, latest.current.toMs ?? high],
      },
      y: { range: (_, low, high) => rangeOf(low, high, latest.current.fromZero === true) },
    },
    axes: [
      {
        stroke: text,
        grid: { show: false },
        ticks: grid,
        font,
        size: props.noTimes ? 8 : 28,
        values: (_, splits) => (latest.current.noTimes ? splits.map(() => "") : splits.map((ms) => timeLabel(ms, splits))),
      },
      { stroke: text, grid, ticks: { show: false }, font, size: 58, values: (_, splits) => splits.map((v) => say(v)) },
    ],
    cursor: {
      sync: props.sync === undefined ? undefined : { key: props.sync, setSeries: false },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
    },
    legend: { live: true },
    hooks: {
      setSelect: [
        (u) => {
          const { left, width: dragged } = u.select;
          const zoom = latest.current.onZoom;
          if (dragged > 4 && zoom !== undefined) zoom(u.posToVal(left, "x"), u.posToVal(left + dragged, "x"));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      drawClear: [(u) => drawMarks(u, latest.current.marks ?? [])],
      ready: [
        (u) =>
          u.over.addEventListener("click", () => {
            const i = u.cursor.idx;
            if (i != null) latest.current.onPick?.(i);
          }),
      ],
    },
  };
}

function timeLabel(ms: number, splits: number[]): string {
  const span = (splits.at(-1) ?? ms) - (splits[0] ?? ms);
  return span > 36 * 3_600_000 ? moment(ms) : clock(ms, span < 180_000);
}

function rangeOf(low: number | null, high: number | null, fromZero: boolean): [number, number] {
  if (low == null || high == null) return [0, 1];
  const bottom = fromZero ? Math.min(0, low) : low;
  const room = (high - bottom || Math.abs(high) || 1) * 0.06;
  return [fromZero && bottom === 0 ? 0 : bottom - room, high + room];
}

const TONES: Record<Tone, string> = {
  plain: "--text-soft",
  muted: "--text-soft",
  good: "--good",
  info: "--info",
  warning: "--warning",
  critical: "--critical",
};

function drawMarks(u: uPlot, marks: ChartMark[]): void {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  for (const mark of marks) {
    const x = u.valToPos(mark.atMs, "x", true);
    const colour = css(TONES[mark.tone]);
    if (mark.toMs !== undefined) {
      const to = u.valToPos(mark.toMs, "x", true);
      ctx.fillStyle = `${colour}1f`;
      ctx.fillRect(x, top, Math.max(1, to - x), height);
    }
    ctx.strokeStyle = colour;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
  }
  ctx.restore();
}

// What uPlot is told to draw: scales, axes, lines with their bands, and marks behind them.
import uPlot from "uplot";
import { short } from "../format/numbers";
import { clock, moment } from "../format/time";
import type { Tone } from "./badge";

export type Values = (number | null)[];

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

export interface ChartProps {
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
const HEIGHT = 160;
const POINT_PX = 6;

export function heightOf(props: ChartProps): number {
  return props.height ?? HEIGHT;
}

/** As --series-2, or a colour. */
export function colourOf(line: Line, i: number): string {
  return line.colour ?? `--series-${(i % SERIES) + 1}`;
}

export function dataOf(props: ChartProps): uPlot.AlignedData {
  const columns: Values[] = [];
  for (const line of props.lines) {
    columns.push(line.values);
    if (line.low !== undefined && line.high !== undefined) columns.push(line.low, line.high);
  }
  return [props.timesMs, ...columns] as uPlot.AlignedData;
}

export function optionsOf(latest: { current: ChartProps }, width: number, onCursor: () => void): uPlot.Options {
  const props = latest.current;
  const style = getComputedStyle(document.documentElement);
  const css = (name: string) => (name.startsWith("--") ? style.getPropertyValue(name).trim() : name);
  const say = (value: number | null | undefined) => (value == null ? "–" : (latest.current.say ?? short)(value));
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  const pointColours: (string | null)[] = [null];
  for (const [i, line] of props.lines.entries()) {
    const colour = css(colourOf(line, i));
    series.push({
      stroke: colour,
      width: line.width ?? 1.5,
      dash: line.dash,
      fill: line.isFilled ? `${colour}33` : undefined,
      points: { show: false },
      spanGaps: false,
    });
    pointColours.push(colour);
    if (line.low !== undefined && line.high !== undefined) {
      const hidden = { stroke: "transparent", width: 0, points: { show: false } };
      series.push(hidden, hidden);
      pointColours.push(null, null);
      bands.push({ series: [series.length - 1, series.length - 2], fill: `${colour}2e` });
    }
  }
  const text = css("--text-soft");
  const grid = { stroke: css("--line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  return {
    width,
    height: heightOf(props),
    ms: 1,
    padding: [6, null, null, null],
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
      y: false,
      sync: props.sync === undefined ? undefined : { key: props.sync, setSeries: false },
      drag: { x: true, y: false, setScale: false },
      // The edges of a band have none. That a point may be left out is not in the types.
      points: { show: ((_: uPlot, i: number) => pointOf(pointColours[i] ?? null)) as unknown as boolean },
    },
    legend: { show: false },
    hooks: {
      setSelect: [
        (u) => {
          const { left, width: dragged } = u.select;
          const zoom = latest.current.onZoom;
          if (dragged > 4 && zoom !== undefined) zoom(u.posToVal(left, "x"), u.posToVal(left + dragged, "x"));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      setCursor: [onCursor],
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

function pointOf(colour: string | null): HTMLElement | false {
  if (colour === null) return false;
  const point = document.createElement("div");
  const half = `${-POINT_PX / 2}px`;
  Object.assign(point.style, { width: `${POINT_PX}px`, height: `${POINT_PX}px`, marginLeft: half, marginTop: half, background: colour });
  return point;
}

export function timeLabel(ms: number, splits: number[]): string {
  const span = (splits.at(-1) ?? ms) - (splits[0] ?? ms);
  return span > 36 * 3_600_000 ? moment(ms) : clock(ms, span < 180_000);
}

export function rangeOf(low: number | null, high: number | null, fromZero: boolean): [number, number] {
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
  const style = getComputedStyle(document.documentElement);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  let shadedTo = left;
  for (const mark of [...marks].sort((a, b) => a.atMs - b.atMs)) {
    const x = u.valToPos(mark.atMs, "x", true);
    const colour = style.getPropertyValue(TONES[mark.tone]).trim();
    if (mark.toMs !== undefined) {
      const to = u.valToPos(mark.toMs, "x", true);
      const from = Math.max(x, shadedTo);
      ctx.fillStyle = `${colour}1f`;
      // Once, however many last there: several on each other would hide the curves.
      if (to > from) ctx.fillRect(from, top, Math.max(1, to - from), height);
      shadedTo = Math.max(shadedTo, to);
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

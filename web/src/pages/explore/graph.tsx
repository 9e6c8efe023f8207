// Up to two hundred series on one canvas; the nearest to the cursor is named beside it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { THEME_CHANGED } from "../../core/theme_event";
import { clock } from "../../format/time";
import { rangeOf, timeLabel } from "../../parts/chart_plot";
import type { Graphed } from "./ask";
import { naming, seriesText } from "./series";
import type { Unit } from "./units";

const HEIGHT = 340;
const COLOURS = 8;
const DASHES: number[][] = [[], [6, 3], [2, 3], [8, 3, 2, 3]]; // after eight colours the strokes differ
const NEAR_PX = 30;

interface Drawn {
  name: string;
  full: string; // all of its labels
  values: (number | null)[];
  last: number | null;
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function dashOf(i: number): number[] {
  return DASHES[Math.floor(i / COLOURS) % DASHES.length] ?? [];
}

export function Graph({
  found,
  unit,
  onZoom,
}: {
  found: Graphed;
  unit: Unit;
  onZoom: (fromMs: number, toMs: number) => void;
}) {
  const { timesMs, lines, shared } = useMemo(() => columns(found), [found]);
  const [only, setOnly] = useState<string | null>(null);
  const holder = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const shown = only === null ? lines : lines.filter((line) => line.full === only);
  const isOnly = shown.length === 0 ? null : only;

  useEffect(() => {
    const element = holder.current;
    if (element === null) return;
    const drawn = shown.length === 0 ? lines : shown;
    const make = () => {
      plot.current?.destroy();
      const first = drawn.length === lines.length ? 0 : lines.findIndex((line) => line.full === isOnly);
      const data = [timesMs, ...drawn.map((line) => line.values)] as uPlot.AlignedData;
      plot.current = new uPlot(options(drawn, first, unit, element, tip, zoom), data, element);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    window.addEventListener(THEME_CHANGED, make);
    return () => {
      resized.disconnect();
      window.removeEventListener(THEME_CHANGED, make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [timesMs, lines, isOnly, unit]);

  return (
    <>
      {Object.keys(shared).length > 0 && lines.length > 1 && (
        <p class="shared-labels">
          All of them:{" "}
          {Object.entries(shared).map(([name, value]) => (
            <span key={name}>
              {name === "__name__" ? "" : `${name}=`}
              <b>{value}</b>
            </span>
          ))}
        </p>
      )}
      <div class="graph">
        <div ref={holder} role="img" aria-label={`${lines.length} series over time; the table has their values`} />
        <div ref={tip} class="graph-tip" hidden />
      </div>
      <ul class="graph-legend" aria-label="Series">
        {lines.map((line, i) => (
          <li key={line.full}>
            <button
              type="button"
              aria-pressed={isOnly === line.full}
              title={`${line.full}\n${isOnly === line.full ? "Click to show all" : "Click to show it alone"}`}
              onClick={() => setOnly(isOnly === line.full ? null : line.full)}
              onMouseEnter={() => isOnly === null && plot.current?.setSeries(i + 1, { focus: true })}
              onMouseLeave={() => plot.current?.setSeries(null, { focus: false })}
            >
              <svg width="18" height="8" aria-hidden="true">
                <line
                  x1="0"
                  y1="4"
                  x2="18"
                  y2="4"
                  stroke={`var(--series-${(i % COLOURS) + 1})`}
                  stroke-width="3"
                  stroke-dasharray={dashOf(i).join(" ")}
                />
              </svg>
              <span class="graph-name">{line.name}</span>
              <b>{line.last === null ? "–" : unit.say(line.last)}</b>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

/** All series on the same moments; where one has none, it is interrupted. */
function columns(found: Graphed): { timesMs: number[]; lines: Drawn[]; shared: Record<string, string> } {
  const { fromMs, toMs, stepMs, series } = found;
  const timesMs: number[] = [];
  for (let ms = fromMs; ms <= toMs; ms += stepMs) timesMs.push(ms);
  const names = naming(series.map((one) => one.metric));
  const lines = series.map((one) => {
    const values: (number | null)[] = Array<number | null>(timesMs.length).fill(null);
    let last: number | null = null;
    for (const [seconds, text] of one.values) {
      const value = Number(text);
      if (!Number.isFinite(value)) continue;
      values[Math.round((seconds * 1000 - fromMs) / stepMs)] = value;
      last = value;
    }
    return { name: names.name(one.metric), full: seriesText(one.metric), values, last };
  });
  return { timesMs, lines, shared: names.shared };
}

function options(
  lines: Drawn[],
  firstColour: number,
  unit: Unit,
  element: HTMLElement,
  tip: { current: HTMLElement | null },
  zoom: { current: (fromMs: number, toMs: number) => void },
): uPlot.Options {
  const text = css("--text-soft");
  const grid = { stroke: css("--line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  let near: number | null = null;
  return {
    width: element.clientWidth,
    height: HEIGHT,
    ms: 1,
    legend: { show: false },
    focus: { alpha: 0.25 },
    cursor: {
      focus: { prox: NEAR_PX },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      y: false,
    },
    scales: { x: { time: true }, y: { range: (_, low, high) => rangeOf(low, high, isNearZero(low, high)) } },
    axes: [
      { stroke: text, grid: { show: false }, ticks: grid, font, size: 28, values: (_, splits) => splits.map((ms) => timeLabel(ms, splits)) },
      {
        stroke: text,
        grid,
        ticks: { show: false },
        font,
        size: 68,
        values: (_, splits) => splits.map((value) => unit.say(value)),
      },
    ],
    series: [
      {},
      ...lines.map((line, i): uPlot.Series => {
        const colour = css(`--series-${((firstColour + i) % COLOURS) + 1}`);
        return { label: line.name, stroke: colour, width: 1.5, dash: dashOf(firstColour + i), points: { show: isLonely(line) } };
      }),
    ],
    hooks: {
      setSeries: [(_, i) => void (near = i)],
      setCursor: [(u) => showTip(u, tip.current, lines, near, unit)],
      setSelect: [
        (u) => {
          const { left, width } = u.select;
          if (width > 4) zoom.current(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** A single sample has no line to be seen by. */
function isLonely(line: Drawn): boolean {
  return line.values.filter((value) => value !== null).length < 2;
}

function showTip(u: uPlot, tip: HTMLElement | null, lines: Drawn[], near: number | null, unit: Unit): void {
  if (tip === null) return;
  const { idx, left = -1, top = 0 } = u.cursor;
  const line = lines.length === 1 ? lines[0] : near === null ? undefined : lines[near - 1];
  const ms = idx == null ? undefined : u.data[0][idx];
  if (idx == null || left < 0 || ms === undefined || line === undefined) {
    tip.hidden = true;
    return;
  }
  const value = line.values[idx];
  tip.hidden = false;
  tip.textContent = `${clock(ms, true)}   ${value == null ? "–" : unit.say(value)}\n${line.name}`;
  const x = u.bbox.left / devicePixelRatio + left;
  const isRight = x > u.width / 2;
  tip.style.left = isRight ? "auto" : `${x + 14}px`;
  tip.style.right = isRight ? `${u.width - x + 14}px` : "auto";
  tip.style.top = `${Math.max(0, top - 20)}px`;
}

/** The lowest is not far above it, for how far the values are apart: the axis then begins there. */
function isNearZero(low: number | null, high: number | null): boolean {
  return low != null && high != null && low >= 0 && low < (high - low) * 0.5;
}

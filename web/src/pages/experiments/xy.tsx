// Curves against anything but time, drawn as SVG: a few hundred points each.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

export interface XyLine {
  key: string;
  label: string;
  colour: string;
  dash: string;
  x: number[];
  y: number[];
  isFaint: boolean;
}

export interface XyPoint {
  key: string;
  label: string;
  colour: string;
  x: number;
  y: number;
  isFront: boolean;
}

interface XyProps {
  label: string;
  lines: XyLine[];
  points: XyPoint[];
  front: [number, number][]; // from the cheapest on
  sayX: (value: number) => string;
  sayY: (value: number) => string;
  titleX: string;
  titleY: string;
  onPick: (key: string) => void;
}

const HEIGHT = 360;
const LEFT = 62;
const RIGHT = 18;
const TOP = 14;
const BOTTOM = 42;
const TICKS = 6;
const NEAR_PX = 40;

interface Near {
  key: string;
  label: string;
  x: number;
  y: number;
  left: number;
  top: number;
}

export function Xy(props: XyProps) {
  const { lines, points, front, sayX, sayY } = props;
  const holder = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [near, setNear] = useState<Near | null>(null);
  // Before it is painted: a guess would push the page out of a phone for a moment.
  useLayoutEffect(() => {
    const element = holder.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  const [fromX, toX, fromY, toY] = useMemo(() => extent(lines, points), [lines, points]);
  const px = (x: number) => LEFT + ((x - fromX) / (toX - fromX || 1)) * (width - LEFT - RIGHT);
  const py = (y: number) => HEIGHT - BOTTOM - ((y - fromY) / (toY - fromY || 1)) * (HEIGHT - TOP - BOTTOM);
  const path = (x: number[], y: number[]) =>
    x.map((one, i) => `${i === 0 ? "M" : "L"}${px(one).toFixed(1)} ${py(y[i] ?? 0).toFixed(1)}`).join("");

  const moved = (event: MouseEvent) => {
    const box = holder.current?.getBoundingClientRect();
    if (box === undefined) return;
    setNear(nearest(props, px, py, event.clientX - box.left, event.clientY - box.top));
  };
  return (
    <div class="xy" ref={holder} onMouseMove={moved} onMouseLeave={() => setNear(null)} onClick={() => near !== null && props.onPick(near.key)}>
      <svg width={width} height={HEIGHT} role="img" aria-label={props.label}>
        {ticks(fromY, toY, TICKS).map((y) => (
          <g key={`y${y}`}>
            <line x1={LEFT} x2={width - RIGHT} y1={py(y)} y2={py(y)} class="xy-grid" />
            <text x={LEFT - 8} y={py(y) + 4} class="xy-tick" text-anchor="end">
              {sayY(y)}
            </text>
          </g>
        ))}
        {ticks(fromX, toX, width < 500 ? 4 : 8).map((x) => (
          <text key={`x${x}`} x={px(x)} y={HEIGHT - BOTTOM + 18} class="xy-tick" text-anchor="middle">
            {sayX(x)}
          </text>
        ))}
        <text x={width - RIGHT} y={HEIGHT - 6} class="xy-title" text-anchor="end">
          {props.titleX} →
        </text>
        <text x={LEFT + 6} y={TOP + 4} class="xy-title">
          {props.titleY}
        </text>
        {lines.map((line) => (
          <path
            key={line.key}
            d={path(line.x, line.y)}
            fill="none"
            stroke={line.colour}
            stroke-width={near?.key === line.key ? 3 : 1.7}
            stroke-dasharray={line.dash}
            opacity={line.isFaint && near?.key !== line.key ? 0.22 : 1}
          />
        ))}
        {front.length > 1 && <path d={stairs(front.map(([x, y]) => [px(x), py(y)]))} class="xy-front" />}
        {points.map((point) => (
          <g key={point.key} transform={`translate(${px(point.x).toFixed(1)} ${py(point.y).toFixed(1)})`}>
            {point.isFront ? (
              <rect x="-5" y="-5" width="10" height="10" transform="rotate(45)" fill={point.colour} class="xy-mark" />
            ) : (
              <circle r="4" fill="var(--raised)" stroke={point.colour} stroke-width="2" />
            )}
          </g>
        ))}
        {near !== null && <circle cx={near.left} cy={near.top} r="5" class="xy-near" />}
      </svg>
      {near !== null && (
        <div
          class="graph-tip"
          style={
            near.left > width / 2
              ? { right: `${width - near.left + 12}px`, top: `${Math.max(0, near.top - 24)}px` }
              : { left: `${near.left + 12}px`, top: `${Math.max(0, near.top - 24)}px` }
          }
        >
          <b>{near.label}</b>
          {`\n${props.titleY} ${sayY(near.y)} at ${sayX(near.x)}`}
        </div>
      )}
    </div>
  );
}

function nearest(
  { lines, points }: XyProps,
  px: (x: number) => number,
  py: (y: number) => number,
  left: number,
  top: number,
): Near | null {
  let found: Near | null = null;
  let least = NEAR_PX ** 2;
  const look = (key: string, label: string, x: number, y: number) => {
    const distance = (px(x) - left) ** 2 + (py(y) - top) ** 2;
    if (distance < least) {
      least = distance;
      found = { key, label, x, y, left: px(x), top: py(y) };
    }
  };
  for (const line of lines) for (const [i, x] of line.x.entries()) look(line.key, line.label, x, line.y[i] ?? 0);
  for (const point of points) look(point.key, point.label, point.x, point.y);
  return found;
}

function extent(lines: XyLine[], points: XyPoint[]): [number, number, number, number] {
  let [toX, fromY, toY] = [0, Infinity, -Infinity];
  const take = (x: number, y: number) => {
    toX = Math.max(toX, x);
    fromY = Math.min(fromY, y);
    toY = Math.max(toY, y);
  };
  for (const line of lines) for (const [i, x] of line.x.entries()) take(x, line.y[i] ?? 0);
  for (const point of points) take(point.x, point.y);
  if (fromY > toY) return [0, 1, 0, 1];
  const room = (toY - fromY || Math.abs(toY) || 1) * 0.06;
  return [0, toX * 1.02 || 1, fromY - room, toY + room];
}

/** Round values within a span. */
function ticks(from: number, to: number, many: number): number[] {
  const rough = (to - from) / many;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * size).find((one) => one >= rough) ?? rough;
  const found = [];
  for (let i = Math.ceil(from / step); i * step <= to + step * 1e-9; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** What money buys stays the same until the next run that is better. */
function stairs(points: [number, number][]): string {
  return points.map(([x, y], i) => (i === 0 ? `M${x} ${y}` : `H${x}V${y}`)).join("");
}

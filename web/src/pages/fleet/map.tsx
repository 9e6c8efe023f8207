// The map: one canvas for all GPUs. The pointer moves an outline and a note; the canvas is drawn anew only for new data.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { THEME_CHANGED } from "../../core/theme_event";
import { go, hrefOf } from "../../core/route";
import { gpuAt, layoutOf, placesOf, type Layout } from "./layout";
import { gpuName, groupsOf, meant, type Fleet, type Grouping } from "./gpus";
import { paintingOf, type Dimension, type Look, type Painting } from "./looks";
import { tellOf } from "./tell";

const SCREEN_SHARE = 0.62; // of the window's height: the map and what is broken fit one screen
const LEAST_PX = 320;
const SMALL_PX = 6; // a pattern is not seen in less

interface MapProps {
  fleet: Fleet;
  by: Dimension;
  group: Grouping;
  q: string;
}

export function FleetMap({ fleet, by, group, q }: MapProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState<number | null>(null); // the GPU under the pointer, or chosen by keys
  const groups = useMemo(() => groupsOf(fleet, group), [fleet, group]);
  const height = Math.max(LEAST_PX, window.innerHeight * SCREEN_SHARE);
  const layout = useMemo(() => layoutOf(groups, width, height), [groups, width, height]);
  const places = useMemo(() => placesOf(layout), [layout]);
  const painting = useMemo(() => paintingOf(fleet, by), [fleet, by]);
  const wanted = useMemo(() => meant(fleet, q), [fleet, q]);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = canvas.current;
    if (element === null || width === 0) return;
    const draw = () => paint(element, width, fleet, layout, painting, wanted);
    draw();
    window.addEventListener(THEME_CHANGED, draw);
    return () => window.removeEventListener(THEME_CHANGED, draw);
  }, [width, fleet, layout, painting, wanted]);

  const under = (event: MouseEvent): number | null => {
    const area = canvas.current?.getBoundingClientRect();
    return area === undefined ? null : gpuAt(layout, event.clientX - area.left, event.clientY - area.top);
  };
  const open = (gpu: number | null) => {
    const uuid = gpu === null ? null : fleet.gpus.uuid[gpu];
    if (uuid != null) go(hrefOf(`/fleet/gpus/${encodeURIComponent(uuid)}`));
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      const order = layout.blocks.flatMap((block) => block.gpus);
      const place = at === null ? -1 : order.indexOf(at);
      setAt(order[Math.min(order.length - 1, Math.max(0, place + step))] ?? null);
    } else if (event.key === "Enter") open(at);
    else if (event.key === "Escape") setAt(null);
  };
  const place = at === null ? undefined : places.get(at);
  return (
    <div
      class="fleet-map"
      ref={box}
      tabIndex={0}
      role="application"
      aria-label="Map of GPUs. Arrow keys go from one to the next, Enter opens its life."
      onKeyDown={pressed}
      onBlur={() => setAt(null)}
    >
      <canvas
        ref={canvas}
        aria-hidden="true"
        style={{ height: `${layout.height}px`, cursor: at === null ? "default" : "pointer" }}
        onMouseMove={(event) => setAt(under(event))}
        onMouseLeave={() => setAt(null)}
        onClick={(event) => open(under(event))}
      />
      {place !== undefined && at !== null && (
        <>
          <span
            class="fleet-at"
            style={{ left: `${place.x}px`, top: `${place.y}px`, width: `${layout.cell}px`, height: `${layout.cell}px` }}
          />
          <Note fleet={fleet} gpu={at} look={painting.of(at)} x={place.x} y={place.y + layout.cell} width={width} />
        </>
      )}
    </div>
  );
}

const NOTE_PX = 300;

function Note({ fleet, gpu, look, x, y, width }: { fleet: Fleet; gpu: number; look: Look; x: number; y: number; width: number }) {
  const left = Math.max(0, Math.min(x, width - NOTE_PX));
  return (
    <div class="fleet-note" role="status" style={{ left: `${left}px`, top: `${y + 6}px` }}>
      <b>{gpuName(fleet, gpu)}</b> <span class="soft">{look.word}</span>
      {tellOf(fleet, gpu).map((line) => (
        <div key={line}>{line}</div>
      ))}
    </div>
  );
}

function paint(
  canvas: HTMLCanvasElement,
  width: number,
  fleet: Fleet,
  layout: Layout,
  painting: Painting,
  wanted: boolean[] | null,
): void {
  const scale = devicePixelRatio;
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(layout.height * scale));
  const ink = canvas.getContext("2d");
  if (ink === null) return;
  ink.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const colours = new Map<string, string>();
  const colourOf = (name: string): string => {
    let found = colours.get(name);
    if (found === undefined) colours.set(name, (found = name.startsWith("--") ? style.getPropertyValue(name).trim() : name));
    return found;
  };
  ink.textBaseline = "alphabetic";
  for (const head of layout.heads) {
    ink.font = "600 12px system-ui, sans-serif";
    ink.fillStyle = colourOf("--text");
    ink.fillText(head.title, head.x, head.y);
    const after = ink.measureText(head.title).width + 8;
    ink.font = "12px system-ui, sans-serif";
    ink.fillStyle = colourOf("--text-soft");
    ink.fillText(head.note, head.x + after, head.y);
  }
  const { cell } = layout;
  const size = cell - (cell >= 8 ? 2 : 1);
  const isSmall = size < SMALL_PX;
  const ground = colourOf("--raised");
  const later: (() => void)[] = []; // what stands out is drawn over its neighbours
  for (const block of layout.blocks) {
    drawNode(ink, fleet, layout, block.node, block.x, block.y, block.columns, colourOf);
    for (const [i, gpu] of block.gpus.entries()) {
      const look = painting.of(gpu);
      const x = block.x + (i % block.columns) * cell;
      const y = block.y + Math.floor(i / block.columns) * cell;
      const draw = () => {
        ink.globalAlpha = wanted === null || wanted[gpu] === true ? 1 : 0.13;
        if (isSmall && look.pattern !== null && look.pattern !== "hollow") {
          ink.fillStyle = colourOf(look.colour);
          ink.fillRect(x - 1, y - 1, size + 2, size + 2);
        } else drawCell(ink, x, y, size, colourOf(look.colour), look, ground);
      };
      if (look.pattern === null) draw();
      else later.push(draw);
    }
  }
  for (const draw of later) draw();
  ink.globalAlpha = 1;
}

function drawNode(
  ink: CanvasRenderingContext2D,
  fleet: Fleet,
  layout: Layout,
  node: number,
  x: number,
  y: number,
  columns: number,
  colourOf: (name: string) => string,
): void {
  const state = fleet.nodes.state[node];
  const isOut = state === "cordoned" || state === "not-ready";
  if (layout.hasNames) {
    const room = columns * layout.cell;
    ink.font = `${isOut ? "600 " : ""}10px system-ui, sans-serif`;
    ink.fillStyle = colourOf(isOut ? "--fleet-warning" : "--text-soft");
    const name = `${isOut ? "⊘ " : ""}${fleet.nodes.name[node] ?? ""}`;
    ink.fillText(fitted(ink, name, room), x, y - 3);
  } else if (isOut) {
    ink.fillStyle = colourOf("--fleet-warning");
    ink.fillRect(x, y - 2, columns * layout.cell - 1, 1.5);
  }
}

/** The end of a name tells nodes apart. */
function fitted(ink: CanvasRenderingContext2D, name: string, room: number): string {
  let text = name;
  while (text.length > 3 && ink.measureText(text).width > room) text = `…${text.slice(text.startsWith("…") ? 2 : 1)}`;
  return text;
}

function drawCell(
  ink: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  colour: string,
  { pattern }: Look,
  ground: string,
): void {
  if (pattern === "hollow") {
    ink.strokeStyle = colour;
    ink.lineWidth = 1;
    ink.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    return;
  }
  ink.fillStyle = colour;
  ink.fillRect(x, y, size, size);
  if (pattern === null) return;
  ink.strokeStyle = ground;
  ink.fillStyle = ground;
  ink.lineWidth = Math.max(1, size / 8);
  ink.beginPath();
  if (pattern === "dot") {
    ink.arc(x + size / 2, y + size / 2, size / 5, 0, 2 * Math.PI);
    ink.fill();
    return;
  }
  ink.moveTo(x, y + size);
  ink.lineTo(x + size, y);
  if (pattern === "cross") {
    ink.moveTo(x, y);
    ink.lineTo(x + size, y + size);
  } else {
    ink.moveTo(x, y + size / 2);
    ink.lineTo(x + size / 2, y);
    ink.moveTo(x + size / 2, y + size);
    ink.lineTo(x + size, y + size / 2);
  }
  ink.stroke();
}

// Rows and columns of one figure as colours: a picture of one pixel a cell, drawn large.
import { useEffect, useRef } from "preact/hooks";
import { THEME_CHANGED } from "../core/theme_event";

interface HeatProps {
  label: string;
  values: (number | null)[][]; // by row
  low: number; // where the palette begins, and where it ends
  high: number;
  tell: (row: number, column: number) => string; // lines for the cell under the pointer
  onPick?: (row: number, column: number) => void;
  chosenRow?: number;
  height?: number;
}

// From dark blue over grey to yellow: told apart by everybody, and in grey as well.
const PALETTE: [number, number, number][] = [
  [0, 32, 77],
  [0, 67, 110],
  [67, 86, 107],
  [110, 110, 115],
  [151, 137, 116],
  [196, 167, 94],
  [255, 213, 50],
];

function colourOf(share: number): [number, number, number] {
  const at = Math.min(1, Math.max(0, share)) * (PALETTE.length - 1);
  const i = Math.min(PALETTE.length - 2, Math.floor(at));
  const [a, b] = [PALETTE[i] ?? [0, 0, 0], PALETTE[i + 1] ?? [0, 0, 0]];
  const part = at - i;
  return [0, 1, 2].map((k) => Math.round((a[k] ?? 0) + ((b[k] ?? 0) - (a[k] ?? 0)) * part)) as [number, number, number];
}

export function Heat(props: HeatProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const height = props.height ?? Math.min(420, Math.max(120, props.values.length * 12));

  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const draw = () => paint(element, latest.current, height);
    draw();
    const resized = new ResizeObserver(draw);
    resized.observe(element);
    window.addEventListener(THEME_CHANGED, draw);
    return () => {
      resized.disconnect();
      window.removeEventListener(THEME_CHANGED, draw);
    };
  }, [props.values, props.low, props.high, props.chosenRow, height]);

  const cellAt = (event: MouseEvent): [number, number] | null => {
    const element = canvas.current;
    if (element === null) return null;
    const box = element.getBoundingClientRect();
    const rows = latest.current.values.length;
    const columns = latest.current.values[0]?.length ?? 0;
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  };
  const show = (event: MouseEvent) => {
    const element = tip.current;
    const cell = cellAt(event);
    if (element === null) return;
    element.hidden = cell === null;
    if (cell === null) return;
    element.textContent = latest.current.tell(...cell);
    const box = canvas.current?.getBoundingClientRect();
    if (box === undefined) return;
    const x = event.clientX - box.left;
    element.style.transform = `translate(${x > box.width / 2 ? x - element.offsetWidth - 12 : x + 12}px, ${event.clientY - box.top + 12}px)`;
  };
  return (
    <div class="heat">
      <canvas
        ref={canvas}
        role="img"
        aria-label={props.label}
        style={{ height: `${height}px` }}
        onMouseMove={show}
        onMouseLeave={() => tip.current !== null && (tip.current.hidden = true)}
        onClick={(event) => {
          const cell = cellAt(event);
          if (cell !== null) props.onPick?.(...cell);
        }}
      />
      <div class="heat-tip" ref={tip} hidden />
    </div>
  );
}

function paint(canvas: HTMLCanvasElement, { values, low, high, chosenRow }: HeatProps, height: number): void {
  const rows = values.length;
  const columns = values[0]?.length ?? 0;
  const width = canvas.clientWidth;
  canvas.width = Math.max(1, Math.round(width * devicePixelRatio));
  canvas.height = Math.max(1, Math.round(height * devicePixelRatio));
  const context = canvas.getContext("2d");
  if (context === null || rows === 0 || columns === 0) return;
  const small = new OffscreenCanvas(columns, rows);
  const picture = small.getContext("2d");
  if (picture === null) return;
  const image = picture.createImageData(columns, rows);
  const span = high - low || 1;
  for (const [r, row] of values.entries()) {
    for (const [c, value] of row.entries()) {
      const at = (r * columns + c) * 4;
      if (value == null) continue; // see-through: nothing is known there
      const [red, green, blue] = colourOf((value - low) / span);
      image.data.set([red, green, blue, 255], at);
    }
  }
  picture.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (chosenRow !== undefined && chosenRow >= 0) {
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--critical").trim();
    context.lineWidth = 2 * devicePixelRatio;
    const tall = canvas.height / rows;
    context.strokeRect(0, chosenRow * tall, canvas.width, Math.max(2, tall));
  }
}

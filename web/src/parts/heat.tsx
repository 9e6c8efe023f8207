// Rows and columns of one figure as colours: a picture of one pixel a cell, drawn large.
import { useCallback, useEffect, useRef } from "preact/hooks";
import { THEME_CHANGED } from "../core/theme_event";
import { inTurn, withFrame } from "./turns";

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

const SHADES = 256;
const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** The palette in so many steps, each as one number of an ImageData. */
const shades = Uint32Array.from({ length: SHADES }, (_, step) => {
  const at = (step / (SHADES - 1)) * (PALETTE.length - 1);
  const i = Math.min(PALETTE.length - 2, Math.floor(at));
  const [a, b] = [PALETTE[i] ?? [0, 0, 0], PALETTE[i + 1] ?? [0, 0, 0]];
  const [red, green, blue] = [0, 1, 2].map((k) => Math.round((a[k] ?? 0) + ((b[k] ?? 0) - (a[k] ?? 0)) * (at - i)));
  const bytes = [red ?? 0, green ?? 0, blue ?? 0, 255];
  return (LITTLE_ENDIAN ? bytes.reverse() : bytes).reduce((all, one) => all * 256 + one, 0);
});

export function Heat(props: HeatProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const pointed = useRef<{ cell: [number, number]; x: number; y: number; isRight: boolean } | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const height = props.height ?? Math.min(420, Math.max(120, props.values.length * 12));

  useEffect(() => {
    const element = canvas.current;
    if (element === null) return;
    const draw = () => paint(element, latest.current, height);
    let takeBack = inTurn(draw);
    const again = () => {
      takeBack = inTurn(draw);
    };
    const resized = new ResizeObserver(again);
    resized.observe(element);
    window.addEventListener(THEME_CHANGED, again);
    return () => {
      takeBack();
      resized.disconnect();
      window.removeEventListener(THEME_CHANGED, again);
    };
  }, [props.values, props.low, props.high, props.chosenRow, height]);

  const cellAt = (event: MouseEvent): [number, number] | null => {
    const element = canvas.current;
    if (element === null) return null;
    const rows = latest.current.values.length;
    const columns = latest.current.values[0]?.length ?? 0;
    const row = Math.floor((event.offsetY / element.clientHeight) * rows);
    const column = Math.floor((event.offsetX / element.clientWidth) * columns);
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  };
  const write = useCallback(() => {
    const element = tip.current;
    if (element === null) return;
    const at = pointed.current;
    element.hidden = at === null;
    if (at === null) return;
    element.textContent = latest.current.tell(...at.cell);
    // By its own width, whatever that is: asking for it would have the page laid out at once.
    element.style.transform = `translate(${at.x}px, ${at.y + 12}px) translateX(${at.isRight ? "calc(-100% - 12px)" : "12px"})`;
  }, []);
  const show = (event: MouseEvent | null) => {
    const cell = event === null ? null : cellAt(event);
    const isRight = event !== null && event.offsetX > (canvas.current?.clientWidth ?? 0) / 2;
    pointed.current = event === null || cell === null ? null : { cell, x: event.offsetX, y: event.offsetY, isRight };
    withFrame(write);
  };
  return (
    <div class="heat">
      <canvas
        ref={canvas}
        role="img"
        aria-label={props.label}
        style={{ height: `${height}px` }}
        onMouseMove={show}
        onMouseLeave={() => show(null)}
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
  const cells = new Uint32Array(image.data.buffer);
  const scale = (SHADES - 1) / (high - low || 1);
  for (let r = 0; r < rows; r += 1) {
    const row = values[r] ?? [];
    for (let c = 0; c < columns; c += 1) {
      const value = row[c];
      if (value == null) continue; // see-through: nothing is known there
      const step = Math.round((value - low) * scale);
      cells[r * columns + c] = shades[step < 0 ? 0 : step < SHADES ? step : SHADES - 1] ?? 0;
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

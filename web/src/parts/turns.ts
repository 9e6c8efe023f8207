// Drawing takes turns: what a page has to draw at once must not be one long frame.

const waiting = new Set<() => void>();
let timer: ReturnType<typeof setTimeout> | undefined;

/** Soon, in a task of its own; once, however often it is asked for until then. Gives the way to take it back. */
export function inTurn(draw: () => void): () => void {
  waiting.add(draw);
  timer ??= setTimeout(next);
  return () => void waiting.delete(draw);
}

function next(): void {
  timer = undefined;
  const [draw] = waiting;
  if (draw === undefined) return;
  waiting.delete(draw);
  if (waiting.size > 0) timer = setTimeout(next);
  draw();
}

const due = new Set<() => void>();

/** With the next frame; once, however many moves of the pointer come before it. */
export function withFrame(write: () => void): void {
  if (due.size === 0) requestAnimationFrame(writeAll);
  due.add(write);
}

function writeAll(): void {
  const writes = [...due];
  due.clear();
  for (const write of writes) write();
}

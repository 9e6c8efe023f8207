import { useEffect, useState } from "preact/hooks";
import { ago, fullMoment, moment } from "../format/time";

const TICK_MS = 5000;

export function Time({ ms, relative = false }: { ms: number | null | undefined; relative?: boolean }) {
  if (ms == null) return <span>unknown</span>;
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return <span>unknown</span>; // no clock reaches so far
  return (
    <time dateTime={at.toISOString()} title={fullMoment(ms)}>
      {relative ? ago(ms) : moment(ms)}
    </time>
  );
}

/** How long ago, and it goes on. */
export function Ago({ ms }: { ms: number }) {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && setTick((tick) => tick + 1), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return <Time ms={ms} relative />;
}

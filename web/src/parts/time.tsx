import { ago, fullMoment, moment } from "../format/time";

export function Time({ ms, relative = false }: { ms: number | null | undefined; relative?: boolean }) {
  if (ms == null) return <span>unknown</span>;
  return (
    <time dateTime={new Date(ms).toISOString()} title={fullMoment(ms)}>
      {relative ? ago(ms) : moment(ms)}
    </time>
  );
}

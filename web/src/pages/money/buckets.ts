// What money is spent on, in words and colours: what was for nothing is hatched as well.
export interface Bucket {
  label: string;
  colour: string;
  isForNothing: boolean;
}

const BUCKETS: Record<string, Bucket> = {
  productive: { label: "Training steps", colour: "var(--series-1)", isForNothing: false },
  serving_busy: { label: "Serving requests", colour: "var(--series-6)", isForNothing: false },
  checkpoint: { label: "Writing checkpoints", colour: "var(--series-3)", isForNothing: false },
  stalled: { label: "Stalled or hung", colour: "var(--series-2)", isForNothing: true },
  recompute: { label: "Steps lost in a crash", colour: "var(--critical)", isForNothing: true },
  allocated_idle: { label: "Held, but idle", colour: "var(--series-4)", isForNothing: true },
  serving_idle: { label: "Serving nobody", colour: "var(--series-5)", isForNothing: true },
  data_wait: { label: "Waiting for data", colour: "var(--series-3)", isForNothing: true },
  sync_wait: { label: "Waiting for other ranks", colour: "var(--series-8)", isForNothing: true },
  starting: { label: "Starting", colour: "var(--series-6)", isForNothing: true },
  unallocated: { label: "Free GPUs", colour: "var(--series-7)", isForNothing: true },
  broken: { label: "Broken GPUs", colour: "var(--text-soft)", isForNothing: true },
};

/** In the order in which they are stacked: of use first. */
export const bucketNames = Object.keys(BUCKETS);

export function bucketOf(name: string): Bucket {
  return BUCKETS[name] ?? { label: name, colour: "var(--text-soft)", isForNothing: false };
}

// How the ledger is asked.
import type { Asked } from "../../api/client";

export type Query = NonNullable<Asked["query"]>;
export const EVERY_MS = 30_000; // an hour that runs is booked once a minute

// How grave things are, for what must come first.
const ORDER: Record<string, number> = { page: 0, critical: 0, warning: 1, info: 2, ok: 4 };
const OF_ONES_OWN = 3; // a severity that somebody made up for a rule: less than those that are known

/** 0 is the gravest. */
export function gravityOf(severity: string | null | undefined): number {
  return ORDER[severity ?? "ok"] ?? OF_ONES_OWN;
}

export function byGravity(a: { severity: string }, b: { severity: string }): number {
  return gravityOf(a.severity) - gravityOf(b.severity);
}

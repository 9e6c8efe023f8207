// Series by what tells them apart.
export type Labels = Record<string, string>;

export interface Naming {
  shared: Labels; // what all of them have alike
  differing: string[]; // the labels by which they differ, those first that tell them apart
  name: (labels: Labels) => string;
}

export function naming(series: Labels[]): Naming {
  const values = new Map<string, Map<string, number>>();
  for (const labels of series) {
    for (const [name, value] of Object.entries(labels)) {
      let found = values.get(name);
      if (found === undefined) values.set(name, (found = new Map()));
      found.set(value, (found.get(value) ?? 0) + 1);
    }
  }
  const shared: Labels = {};
  const differing: [string, number][] = [];
  for (const [name, counts] of values) {
    const [first] = counts;
    if (counts.size === 1 && first !== undefined && first[1] === series.length) shared[name] = first[0];
    else differing.push([name, counts.size]);
  }
  differing.sort(([a, many], [b, more]) => Number(isLong(a)) - Number(isLong(b)) || more - many || a.localeCompare(b));
  const names = differing.map(([name]) => name);
  const order = telling(series, names);
  return {
    shared,
    differing: [...order, ...names.filter((name) => !order.includes(name))],
    name: (labels) => {
      const told = order.filter((name) => labels[name] !== undefined).map((name) => `${name}=${labels[name] ?? ""}`);
      return told.length > 0 ? told.join(", ") : seriesText(labels);
    },
  };
}

/** As few labels as tell all series apart, each the one that tells the most; identifiers only where they must. */
function telling(series: Labels[], names: string[]): string[] {
  const chosen: string[] = [];
  let keys = series.map(() => "");
  let many = 1;
  for (const candidates of [names.filter((name) => !isLong(name)), names.filter(isLong)]) {
    const left = new Set(candidates);
    while (many < series.length && left.size > 0) {
      let best: { name: string; keys: string[]; many: number } | null = null;
      for (const name of left) {
        const next = series.map((labels, i) => `${keys[i] ?? ""}\0${labels[name] ?? ""}`);
        const count = new Set(next).size;
        if (count > (best?.many ?? many)) best = { name, keys: next, many: count };
      }
      if (best === null) break;
      chosen.push(best.name);
      left.delete(best.name);
      keys = best.keys;
      many = best.many;
    }
  }
  return chosen.length > 0 ? chosen : names;
}

/** Identifiers that nobody reads come after what a person would say. */
function isLong(label: string): boolean {
  return /uuid|uid|id$|__name__|instance|pci/i.test(label);
}

export function seriesText(labels: Labels): string {
  const { __name__: name = "", ...rest } = labels;
  if (Object.keys(labels).length === 0) return "without labels";
  const told = Object.entries(rest).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return told.length > 0 || name === "" ? `${name}{${told.join(", ")}}` : name;
}

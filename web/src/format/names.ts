// What is said of a workload, where its name stands beside it already.

/** "makes no steps" of "JobSet research/moe-1 makes no steps"; "rank 5 is slow" of "rank 5 of it is slow". */
export function withoutName(text: string, of: { kind: string; namespace: string; name: string }): string {
  const name = `${of.namespace}/${of.name}`;
  const subject = [`${of.kind} ${name}`, name].find((one) => text.startsWith(one));
  if (subject !== undefined) return text.slice(subject.length).replace(/^[\s:,]+/, "");
  return text.replace(` of ${of.kind} ${name}`, "");
}

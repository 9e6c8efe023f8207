// PromQL in pieces, as far as colours and completion need it; what is right is the server's to say.
import { CALLED, RESERVED } from "./words";

export type Kind = "space" | "comment" | "text" | "number" | "word" | "sign";

export interface Token {
  kind: Kind;
  text: string;
  at: number;
}

const PATTERN =
  /(\s+)|(#[^\n]*)|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`[^`]*`?)|((?:\d+(?:\.\d+)?(?:ms|[smhdwy]))+|\d+(?:\.\d*)?(?:e[+-]?\d+)?)|([A-Za-z_:][\w:]*)|(=~|!~|[!=<>]=|[\s\S])/gy;
const KINDS: Kind[] = ["space", "comment", "text", "number", "word", "sign"];

export function tokens(query: string): Token[] {
  const found: Token[] = [];
  PATTERN.lastIndex = 0;
  for (let match = PATTERN.exec(query); match !== null && match[0] !== ""; match = PATTERN.exec(query)) {
    const kind = KINDS[match.slice(1).findIndex((group) => group !== undefined)] ?? "sign";
    found.push({ kind, text: match[0], at: match.index });
  }
  return found;
}

/** The class that a token is drawn with. */
export function look(token: Token, next: Token | undefined): string {
  if (token.kind !== "word") return `q-${token.kind}`;
  if (RESERVED.has(token.text)) return "q-keyword";
  if (CALLED.has(token.text) && next?.text === "(") return "q-function";
  if (CALLED.has(token.text) && (next?.text === "by" || next?.text === "without")) return "q-function";
  return "q-name";
}

/** The names of metrics in a query. */
export function metricsIn(query: string): string[] {
  const every = tokens(query).filter((one) => one.kind !== "space" && one.kind !== "comment");
  const found = new Set<string>();
  let braces = 0;
  let grouping = 0; // depth of brackets behind by, on and the like
  for (const [i, one] of every.entries()) {
    const before = every[i - 1]?.text ?? "";
    if (one.text === "{") braces += 1;
    else if (one.text === "}") braces -= 1;
    else if (one.text === "(") grouping = grouping > 0 || isGrouping(before) ? grouping + 1 : 0;
    else if (one.text === ")") grouping = Math.max(0, grouping - 1);
    else if (one.kind === "word" && braces === 0 && grouping === 0) {
      const isCalled = CALLED.has(one.text) && /^(\(|by|without)$/.test(every[i + 1]?.text ?? "");
      if (!isCalled && !RESERVED.has(one.text)) found.add(one.text);
    }
  }
  return [...found];
}

export function isGrouping(word: string): boolean {
  return /^(by|without|on|ignoring|group_left|group_right)$/.test(word);
}

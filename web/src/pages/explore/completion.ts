// What may stand where the caret is.
import { isGrouping, metricsIn, tokens, type Token } from "./tokens";
import { AGGREGATIONS, FUNCTIONS, KEYWORDS, SPANS, type Word } from "./words";

export type Wanted =
  | { kind: "name"; typed: string; from: number }
  | { kind: "label"; typed: string; from: number; metrics: string[] }
  | { kind: "value"; typed: string; from: number; label: string; metric: string; quote: string }
  | { kind: "span"; typed: string; from: number }
  | { kind: "none" };

export interface Offer {
  text: string; // what is put in
  label: string;
  note: string; // what it is
  help: string;
  back: number; // so many characters before its end the caret comes to stand
}

const NOTHING: Wanted = { kind: "none" };

export function wantedAt(query: string, caret: number): Wanted {
  const before = tokens(query.slice(0, caret)).filter((one) => one.kind !== "space");
  const last = before.at(-1);
  if (last?.kind === "comment") return NOTHING;
  const braces = unclosed(before, "{", "}");
  const isOpenText = last?.kind === "text" && isOpen(last.text);
  if (braces !== null) return inBraces(before, braces, last, caret, isOpenText);
  if (isOpenText) return NOTHING;
  const bracket = unclosed(before, "[", "]");
  const touches = last !== undefined && last.at + last.text.length === caret;
  if (bracket !== null) {
    const typed = touches && (last.kind === "number" || last.kind === "word") ? last.text : "";
    return { kind: "span", typed, from: caret - typed.length };
  }
  const typed = touches && last.kind === "word" ? last.text : "";
  const from = caret - typed.length;
  const group = unclosed(before, "(", ")");
  if (group !== null && isGrouping(before[group - 1]?.text ?? "")) {
    return { kind: "label", typed, from, metrics: metricsIn(query) };
  }
  if (touches && last.kind === "number") return NOTHING;
  return { kind: "name", typed, from };
}

function inBraces(before: Token[], open: number, last: Token | undefined, caret: number, isOpenText: boolean): Wanted {
  const name = before[open - 1];
  const metric = name?.kind === "word" ? name.text : "";
  if (isOpenText && last !== undefined) {
    const label = before.at(-3)?.text ?? "";
    const isValue = /^(=|!=|=~|!~)$/.test(before.at(-2)?.text ?? "");
    if (!isValue) return NOTHING;
    return { kind: "value", typed: last.text.slice(1), from: last.at + 1, label, metric, quote: last.text[0] ?? '"' };
  }
  const touches = last !== undefined && last.kind === "word" && last.at + last.text.length === caret;
  const ahead = touches ? before.at(-2) : last;
  if (ahead?.text !== "{" && ahead?.text !== ",") return NOTHING;
  const typed = touches ? last.text : "";
  return { kind: "label", typed, from: caret - typed.length, metrics: metric === "" ? [] : [metric] };
}

/** Where the innermost bracket stands that is not closed. */
function unclosed(before: Token[], open: string, close: string): number | null {
  let depth = 0;
  for (let i = before.length - 1; i >= 0; i -= 1) {
    const text = before[i]?.text;
    if (text === close) depth += 1;
    else if (text === open && depth-- === 0) return i;
  }
  return null;
}

function isOpen(text: string): boolean {
  return text.length === 1 || !text.endsWith(text[0] ?? "") || /(^|[^\\])(\\\\)*\\["']$/.test(text);
}

const MOST = 40;

/** Those that fit what was typed: that begin with it first, then those with a part that does. */
export function fitting(offers: Offer[], typed: string): Offer[] {
  const wanted = typed.toLowerCase();
  if (wanted === "") return offers.slice(0, MOST);
  const ranked: [number, Offer][] = [];
  for (const offer of offers) {
    const at = offer.label.toLowerCase().indexOf(wanted);
    if (at < 0) continue;
    const isPart = at === 0 || /[^a-z0-9]/i.test(offer.label[at - 1] ?? "");
    ranked.push([at === 0 ? 0 : isPart ? 1 : 2, offer]);
  }
  ranked.sort(([a, one], [b, other]) => a - b || one.label.length - other.label.length);
  return ranked.slice(0, MOST).map(([, offer]) => offer);
}

export function spanOffers(): Offer[] {
  return SPANS.map((text) => ({ text, label: text, note: "span of time", help: "", back: 0 }));
}

export function wordOffers(): Offer[] {
  const called = (note: string) => (one: Word) => ({
    text: `${one.word}()`,
    label: one.word,
    note,
    help: `${one.word}${one.takes}: ${one.gives}`,
    back: one.takes === "()" ? 0 : 1,
  });
  return [
    ...AGGREGATIONS.map(called("aggregation")),
    ...FUNCTIONS.map(called("function")),
    ...KEYWORDS.map((one) => ({ text: `${one.word} `, label: one.word, note: "keyword", help: one.gives, back: 0 })),
  ];
}

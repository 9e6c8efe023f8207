// Everything that a page shows is in its address: a link shows a colleague the same.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { pages, type PageEntry } from "../pages";
import { spanMs } from "../format/time";

export interface Route {
  page: PageEntry | null;
  args: Record<string, string>;
  query: URLSearchParams;
  path: string;
}

const listeners = new Set<() => void>();
const DEFAULT_RANGE = "12h";
const LATEST_MS = Date.UTC(9999, 0);

function changed(): void {
  for (const listener of [...listeners]) listener();
}
window.addEventListener("popstate", changed);

function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const args: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    const value = given[i] ?? "";
    if (!part.startsWith(":")) {
      if (part !== value) return null;
      continue;
    }
    const found = decoded(value);
    if (found === null) return null;
    args[part.slice(1)] = found;
  }
  return args;
}

/** null where somebody cut an address off in the middle of a letter. */
export function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function current(): Route {
  const path = location.pathname.length > 1 ? location.pathname.replace(/\/$/, "") : "/";
  const query = new URLSearchParams(location.search);
  for (const page of pages) {
    const args = match(page.path, path);
    if (args !== null) return { page, args, query, path };
  }
  return { page: null, args: {}, query, path };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const listener = () => setRoute(current());
    listeners.add(listener);
    listener();
    return () => void listeners.delete(listener);
  }, []);
  return route;
}

export function go(to: string): void {
  history.pushState(null, "", to);
  changed();
  window.scrollTo(0, 0);
}

/** Changes the query of this address in its place. An empty value leaves the name out. */
export function setParams(values: Record<string, string>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : "") + location.hash);
  changed();
}

export function useParam(name: string, fallback = ""): [string, (value: string) => void] {
  const { query } = useRoute();
  return [query.get(name) ?? fallback, (value) => setParams({ [name]: value === fallback ? "" : value })];
}

export interface Range {
  fromMs: number;
  toMs: number;
  isLive: boolean;
  text: string; // as the address has it: 12h, or empty where both ends are given
  key: string; // names the span: a live one by its length, as it moves on
  set: (text: string) => void;
  setSpan: (fromMs: number, toMs: number) => void;
}

/** The span of time that all pages share. A live one ends now, and moves on in steps of some seconds. */
export function useRange(): Range {
  const { query } = useRoute();
  const [nowMs, setNow] = useState(() => Date.now());
  const from = Number(query.get("from"));
  const to = Number(query.get("to"));
  const isLive = !(from > 0 && to > from && to < LATEST_MS);
  useEffect(() => {
    if (!isLive) return;
    const timer = setInterval(() => {
      if (!document.hidden) setNow(Date.now());
    }, 5000);
    return () => clearInterval(timer);
  }, [isLive]);
  const asked = query.get("range") ?? "";
  const askedMs = spanMs(asked);
  const isSpan = askedMs !== null && askedMs > 0 && askedMs < nowMs;
  const given = isSpan ? asked : DEFAULT_RANGE;
  const lengthMs = isSpan ? askedMs : (spanMs(DEFAULT_RANGE) ?? 0);
  return {
    fromMs: isLive ? nowMs - lengthMs : from,
    toMs: isLive ? nowMs : to,
    isLive,
    text: isLive ? given : "",
    key: isLive ? given : `${from}-${to}`,
    set: (text) => setParams({ range: text === DEFAULT_RANGE ? "" : text, from: "", to: "" }),
    setSpan: (fromMs, toMs) =>
      setParams({ range: "", from: String(Math.round(fromMs)), to: String(Math.round(toMs)) }),
  };
}

const CARRIED = ["range", "from", "to"];

/** An address with the span of time that is shown now. */
export function hrefOf(path: string, params: Record<string, string> = {}): string {
  const here = new URLSearchParams(location.search);
  const query = new URLSearchParams();
  for (const name of CARRIED) {
    const value = here.get(name);
    if (value !== null) query.set(name, value);
  }
  for (const [name, value] of Object.entries(params)) if (value !== "") query.set(name, value);
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

interface LinkProps {
  to: string;
  params?: Record<string, string>;
  class?: string;
  style?: Record<string, string>;
  title?: string;
  "aria-label"?: string;
  "aria-current"?: "page" | undefined;
  children?: ComponentChildren;
}

export function Link({ to, params, children, ...rest }: LinkProps) {
  const href = hrefOf(to, params);
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(href);
  };
  return (
    <a {...rest} href={href} onClick={follow}>
      {children}
    </a>
  );
}

export function workloadPath(one: { cluster: string; namespace: string; kind: string; name: string }): string {
  return `/workloads/${[one.cluster, one.namespace, one.kind, one.name].map(encodeURIComponent).join("/")}`;
}

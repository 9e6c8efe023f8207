// One way to the server: typed by its own schema, with errors that say what to do.
import type { paths } from "./schema";
import { heard, missed } from "./standing";
import { keptToken, refused } from "./token";

export type ErrorKind = "network" | "auth" | "server" | "request";

export class ApiError extends Error {
  constructor(
    readonly kind: ErrorKind,
    message: string,
    readonly status = 0,
    readonly hint = "",
    readonly body: unknown = null,
    readonly waitMs = 0, // how long the server wants to be left alone
  ) {
    super(message);
  }
}

export interface Answer<T> {
  data: T;
  warnings: string[];
}

type Method = "get" | "post";
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer O> ? O : never;
type Envelope<O> = O extends { responses: { 200: { content: { "application/json": infer B } } } } ? B : never;
export type Data<P extends keyof paths, M extends Method = "get"> =
  Envelope<Operation<P, M>> extends { data: infer D } ? D : unknown;

const TOO_MANY = 429;
const A_FAULT = "That is a fault of the server: its log says more. The other pages may well work.";
const NOT_REACHED = "Something in between, such as a proxy, does not reach it. This page goes on trying.";
// For answers that say nothing themselves, as those of proxies.
const UNTOLD: Record<number, [string, string]> = {
  429: ["The server is asked too much at once.", "This page asks again by itself, less often."],
  502: ["The server is not reached.", NOT_REACHED],
  503: ["The server is busy or starting.", "This page asks again by itself."],
  504: ["The server is not reached in time.", NOT_REACHED],
};

export interface Asked {
  path?: Record<string, string | number>;
  query?: Record<string, string | number | boolean | string[] | null | undefined>;
  body?: unknown;
}

const PATIENCE_MS = 120_000; // as long as a query may take; a line that went dead would be waited for without end
const FILE_PATIENCE_MS = 1_800_000; // one of many rows is made while it is sent

export function addressOf(path: string, { path: args = {}, query = {} }: Asked = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(args[name] ?? "")));
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value == null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) params.append(name, String(one));
  }
  const text = params.toString();
  return text ? `${filled}?${text}` : filled;
}

interface Heard<C> {
  response: Response;
  content: C;
  token: string; // that it was asked with
}

async function hear<C>(
  method: string,
  address: string,
  body: unknown,
  read: (response: Response) => Promise<C>,
  signal?: AbortSignal,
  patienceMs = PATIENCE_MS,
): Promise<Heard<C>> {
  const headers: Record<string, string> = { Accept: "application/json, */*;q=0.5" };
  const token = keptToken();
  if (token !== "") headers["Authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const patience = AbortSignal.timeout(patienceMs);
  const until = signal === undefined ? patience : AbortSignal.any([signal, patience]);
  try {
    const response = await fetch(address, { method, headers, body: body === undefined ? null : JSON.stringify(body), signal: until });
    const content = await read(response);
    heard();
    return { response, content, token };
  } catch (e) {
    if (signal?.aborted) throw e;
    missed();
    throw new ApiError("network", "The server does not answer.", 0, "Is it running? This page goes on trying.");
  }
}

async function ask<T>(method: string, address: string, body: unknown, signal?: AbortSignal): Promise<Answer<T>> {
  const { response, content, token } = await hear(method, address, body, (found) => found.text(), signal);
  const answer = jsonOf(content);
  if (!response.ok) throw errorOf(response, answer ?? {}, token);
  if (answer === null) {
    throw new ApiError("server", "The server's answer is not JSON.", response.status, "Is there a proxy in between?");
  }
  return { data: answer["data"] as T, warnings: (answer["warnings"] as string[] | undefined) ?? [] };
}

function jsonOf(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return null;
  }
}

function errorOf(response: Response, answer: Record<string, unknown>, token: string): ApiError {
  const { status } = response;
  const hint = typeof answer["hint"] === "string" ? answer["hint"] : "";
  const whole = typeof answer["error"] === "string" ? answer["error"] : "";
  const told = hint !== "" && whole.endsWith(` (${hint})`) ? whole.slice(0, -hint.length - 3) : whole;
  if (status === 401) {
    refused(token);
    return new ApiError("auth", "The server does not know you.", 401, "The top of the page says how to log in.", answer);
  }
  const waitMs = 1000 * (Number(response.headers.get("Retry-After")) || 0); // a date is left alone
  const [what, todo] = UNTOLD[status] ?? [`The server answers ${status}.`, status >= 500 ? A_FAULT : ""];
  const kind = status >= 500 || status === TOO_MANY ? "server" : "request";
  return new ApiError(kind, told || what, status, hint || (told === "" || status === TOO_MANY ? todo : ""), answer, waitMs);
}

export function get<P extends keyof paths & string>(
  path: P,
  asked: Asked = {},
  signal?: AbortSignal,
): Promise<Answer<Data<P>>> {
  return ask<Data<P>>("GET", addressOf(path, asked), undefined, signal);
}

export function post<P extends keyof paths & string>(
  path: P,
  asked: Asked = {},
  signal?: AbortSignal,
): Promise<Answer<Data<P, "post">>> {
  return ask<Data<P, "post">>("POST", addressOf(path, asked), asked.body ?? {}, signal);
}

/** A file to keep, by the name that the server gives it. A link would be followed without the token. */
export async function getFile(path: keyof paths & string, asked: Asked): Promise<{ file: Blob; name: string }> {
  const read = (found: Response): Promise<Blob | string> => (found.ok ? found.blob() : found.text());
  const { response, content, token } = await hear("GET", addressOf(path, asked), undefined, read, undefined, FILE_PATIENCE_MS);
  if (typeof content === "string") throw errorOf(response, jsonOf(content) ?? {}, token);
  const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1];
  return { file: content, name: name ?? "trilens" };
}

/** Prometheus's own API, which is not in the schema. */
export function getPrometheus<T>(path: string, query: Asked["query"], signal?: AbortSignal): Promise<Answer<T>> {
  return ask<T>("GET", addressOf(path, { query }), undefined, signal);
}

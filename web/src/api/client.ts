// One way to the server: typed by its own schema, with errors that say what to do.
import type { paths } from "./schema";

export type ErrorKind = "network" | "auth" | "server" | "request";

export class ApiError extends Error {
  constructor(
    readonly kind: ErrorKind,
    message: string,
    readonly status = 0,
    readonly hint = "",
    readonly body: unknown = null,
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

export interface Asked {
  path?: Record<string, string | number>;
  query?: Record<string, string | number | boolean | string[] | null | undefined>;
  body?: unknown;
}

const TOKEN = "trilens-token";
let onRefused: (message: string) => void = () => undefined;

/** Called when the server wants a token, or another one. */
export function whenRefused(listener: (message: string) => void): void {
  onRefused = listener;
}

export function setToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

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

async function ask<T>(method: string, address: string, body: unknown, signal?: AbortSignal): Promise<Answer<T>> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers["Authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(address, { method, headers, body: body === undefined ? null : JSON.stringify(body), signal });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new ApiError("network", "The server does not answer.", 0, "Is it running? This page goes on trying.");
  }
  const text = await response.text();
  let answer: Record<string, unknown> = {};
  try {
    answer = JSON.parse(text) as Record<string, unknown>;
  } catch {
    if (response.ok) {
      throw new ApiError("server", "The server's answer is not JSON.", response.status, "Is there a proxy in between?");
    }
  }
  if (response.ok) return { data: answer["data"] as T, warnings: (answer["warnings"] as string[] | undefined) ?? [] };
  const message = typeof answer["error"] === "string" ? answer["error"] : `The server answers ${response.status}.`;
  if (response.status === 401) {
    onRefused(message);
    throw new ApiError("auth", message, 401, "Enter the server's token above.", answer);
  }
  const kind = response.status >= 500 ? "server" : "request";
  throw new ApiError(kind, message, response.status, String(answer["hint"] ?? ""), answer);
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

/** Prometheus's own API, which is not in the schema. */
export function getPrometheus<T>(path: string, query: Asked["query"], signal?: AbortSignal): Promise<Answer<T>> {
  return ask<T>("GET", addressOf(path, { query }), undefined, signal);
}

// An answer that keeps itself fresh while somebody looks at it.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Answer } from "./client";
import { untilBack } from "./standing";
import { keptToken, untilToken } from "./token";

export interface Live<T> {
  data: T | undefined;
  warnings: string[];
  error: ApiError | undefined;
  isLoading: boolean;
  isSlow: boolean; // it was asked a while ago, and there is no answer yet
  isOther: boolean; // `data` answers the question before this one
  atMs: number | null; // when `data` was answered
  reload: () => void;
}

interface Options {
  everyMs?: number; // asked once where it is left out
}

const SLOWEST_MS = 30_000;
const SLOW_MS = 5000;

interface State<T> extends Omit<Live<T>, "reload" | "isOther"> {
  key: string | null;
  answered: string | null; // the question that `data` answers
}

/** `key` names the question: another key is another question, null is none. What was answered to the same
 *  question stays while a later ask fails; what was answered to another one, until there is an answer. */
export function useAnswer<T>(
  key: string | null,
  ask: (signal: AbortSignal) => Promise<Answer<T>>,
  { everyMs }: Options = {},
): Live<T> {
  const [state, setState] = useState<State<T>>(() => unasked<T>(key));
  const latest = useRef(ask);
  latest.current = ask;
  const again = useRef<() => void>(() => undefined);

  useEffect(() => {
    if (key === null) {
      setState(unasked<T>(null));
      return;
    }
    const leaving = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let notWaiting: () => void = () => undefined;
    let failures = 0;
    let isAsking = false;
    setState((before) => {
      if (before.key === key) return before;
      return { ...unasked<T>(key), data: before.data, answered: before.answered };
    });

    const next = (error: ApiError | undefined, token: string) => {
      clearTimeout(timer);
      if (error?.kind === "auth") {
        // Who waits for the token is told of it once: another may have been given while this ask was on its way.
        if (keptToken() !== token) void once();
        else notWaiting = untilToken.add(() => void once());
        return;
      }
      if (error?.kind === "network") notWaiting = untilBack.add(seen);
      const delayMs = failures > 0 ? Math.max(error?.waitMs ?? 0, Math.min(SLOWEST_MS, 1000 * 2 ** failures)) : everyMs;
      if (delayMs !== undefined && !document.hidden) timer = setTimeout(() => void once(), delayMs);
    };
    const once = async () => {
      if (isAsking) return;
      isAsking = true;
      clearTimeout(timer);
      notWaiting();
      const slow = setTimeout(() => setState((before) => ({ ...before, isSlow: true })), SLOW_MS);
      const token = keptToken();
      let error: ApiError | undefined;
      try {
        const { data, warnings } = await latest.current(leaving.signal);
        if (leaving.signal.aborted) return;
        failures = 0;
        setState({ ...unasked<T>(key), data, answered: key, warnings, isLoading: false, atMs: Date.now() });
      } catch (e) {
        if (leaving.signal.aborted) return;
        const found = e instanceof ApiError ? e : new ApiError("request", String(e));
        error = found;
        failures = found.kind === "request" ? 0 : failures + 1;
        // Another question's answer must not stand under this one's error.
        setState((before) => ({
          ...before,
          key,
          data: before.answered === key ? before.data : undefined,
          error: found,
          isLoading: false,
          isSlow: false,
        }));
      } finally {
        clearTimeout(slow);
        isAsking = false;
        if (!leaving.signal.aborted) next(error, token);
      }
    };
    const seen = () => {
      if (document.hidden) clearTimeout(timer);
      else if (everyMs !== undefined || failures > 0) void once();
    };
    again.current = () => {
      setState((before) => ({ ...before, isLoading: true }));
      void once();
    };
    document.addEventListener("visibilitychange", seen);
    void once();
    return () => {
      leaving.abort();
      clearTimeout(timer);
      notWaiting();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, everyMs]);

  const reload = useCallback(() => again.current(), []);
  const { key: _, answered, ...live } = state;
  return { ...live, isOther: state.data !== undefined && answered !== key, reload };
}

function unasked<T>(key: string | null): State<T> {
  return {
    key,
    answered: null,
    data: undefined,
    warnings: [],
    error: undefined,
    isLoading: key !== null,
    isSlow: false,
    atMs: null,
  };
}

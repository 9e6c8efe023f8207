// Something that many parts of a page look at, and those that wait for it.
import { useEffect, useState } from "preact/hooks";

export class Watched<T> {
  private readonly watchers = new Set<(now: T) => void>();
  constructor(private value: T) {}

  get now(): T {
    return this.value;
  }

  set(next: T): void {
    if (next === this.value) return;
    this.value = next;
    for (const watcher of [...this.watchers]) watcher(next);
  }

  watch(watcher: (now: T) => void): () => void {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  }
}

export function useWatched<T>(watched: Watched<T>): T {
  const [now, setNow] = useState(() => watched.now);
  useEffect(() => {
    setNow(() => watched.now); // it may have changed before anybody watched
    return watched.watch((next) => setNow(() => next));
  }, [watched]);
  return now;
}

/** Each is called once. */
export class Waiting {
  private readonly callers = new Set<() => void>();

  add(again: () => void): () => void {
    this.callers.add(again);
    return () => void this.callers.delete(again);
  }

  call(): void {
    const all = [...this.callers];
    this.callers.clear();
    for (const again of all) again();
  }
}

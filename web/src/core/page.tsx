// The page of an address: loaded when it is first opened, and whatever happens to it, the rest can still be used.
import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useMemo, useState } from "preact/hooks";
import { untilBack } from "../api/standing";
import { pages, type PageEntry } from "../pages";
import { Loading } from "../parts/states";
import { Link } from "./route";

const IDLE_MS = 4000;
const AGAIN_MS = 5000;
const RELOADED = "trilens-reloaded"; // kept until a page is there: one whose file never comes must not reload for ever

export function PageOf({ entry }: { entry: PageEntry | null }) {
  const [View, setView] = useState<ComponentType | null>(null);
  const [isMissing, setMissing] = useState(false);
  const [broken] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    let isHere = true;
    entry
      ?.load()
      .then((found) => {
        if (!isHere) return;
        sessionStorage.removeItem(RELOADED);
        setView(() => found.default);
      })
      .catch(() => isHere && setMissing(true));
    return () => {
      isHere = false;
    };
  }, [entry]);
  if (entry === null) return <NoSuchPage />;
  if (broken !== undefined) return <Broken error={broken} />;
  if (isMissing) return <NotLoaded />;
  return View === null ? <Loading /> : <View />;
}

function NoSuchPage() {
  return (
    <div class="state state-empty">
      <h1>There is no such page</h1>
      <p>
        <Link to="/">Now</Link> shows what is going on; Ctrl K finds the rest.
      </p>
    </div>
  );
}

function Broken({ error }: { error: unknown }) {
  return (
    <div class="state state-failed" role="alert">
      <h1>This page broke</h1>
      <p>
        It met something that it does not know how to show: <code>{String(error)}</code>
      </p>
      <p>That is a fault of Trilens. The other pages work; so do the commands and the API.</p>
      <Reload />
    </div>
  );
}

/** Its file did not come: the server is away, or is another version than this window. */
function NotLoaded() {
  const wasReloaded = useMemo(() => sessionStorage.getItem(RELOADED) !== null, []);
  useEffect(() => {
    if (wasReloaded) return;
    const look = async () => {
      const answer = await fetch("/healthz").catch(() => null);
      if (!answer?.ok) return;
      sessionStorage.setItem(RELOADED, "1");
      location.reload(); // all that a page shows is in its address
    };
    const stop = untilBack.add(() => void look());
    const timer = setInterval(() => void (document.hidden || look()), AGAIN_MS);
    return () => {
      stop();
      clearInterval(timer);
    };
  }, []);
  return (
    <div class="state" role="alert">
      {wasReloaded ? (
        <p>This page could not be loaded, now again: something in between, such as a proxy, may keep its file back. The other pages may well work.</p>
      ) : (
        <p>This page could not be loaded: the server does not answer, or is a new one. The window loads itself again when it is there.</p>
      )}
      <Reload />
    </div>
  );
}

function Reload() {
  return (
    <button type="button" onClick={() => location.reload()}>
      Reload
    </button>
  );
}

/** The others too, when there is nothing to do: they are small, and the server may be away when they are wanted. */
export function useLoadedPages(): void {
  useEffect(() => {
    const timer = setTimeout(() => {
      for (const page of pages) page.load().catch(() => undefined); // it is tried again when it is opened
    }, IDLE_MS);
    return () => clearTimeout(timer);
  }, []);
}

// What surrounds every page: navigation, the span of time, the theme, the palette, the token.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { setToken, whenRefused } from "../api/client";
import { pages } from "../pages";
import { Loading } from "../parts/states";
import { Palette } from "./palette";
import { RangePicker } from "./range_picker";
import { Link, go, hrefOf, useRoute } from "./route";
import { toggleTheme, useTheme } from "./theme";
import { Tour } from "./tour";

const CHORD_MS = 1200;

export function Shell() {
  const route = useRoute();
  const theme = useTheme();
  const [isAsking, setAsking] = useState(false); // the palette
  const [refused, setRefused] = useState<string | null>(null);
  const [isOpen, setOpen] = useState(false); // the navigation, where the window is narrow
  useEffect(() => whenRefused(setRefused), []);
  useEffect(() => {
    document.title = route.page === null ? "Trilens" : `${route.args["name"] ?? route.page.title} · Trilens`;
    setOpen(false);
  }, [route.path]);
  useShortcuts(() => setAsking(true));

  return (
    <>
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <Link class="brand" to="/" aria-label="Trilens: Now">
          <img src="/icon.svg" alt="" width="22" height="22" /> Trilens
        </Link>
        <button type="button" class="menu" aria-expanded={isOpen} aria-controls="nav" onClick={() => setOpen(!isOpen)}>
          Menu
        </button>
        <nav id="nav" class={isOpen ? "is-open" : ""} aria-label="Pages">
          {pages
            .filter((page) => page.inNav)
            .map((page) => (
              <Link key={page.path} to={page.path} aria-current={isWithin(route.path, page.path) ? "page" : undefined}>
                {page.title}
              </Link>
            ))}
        </nav>
        <div class="tools">
          <button type="button" class="ask" onClick={() => setAsking(true)} aria-keyshortcuts="Control+K">
            Find <kbd>Ctrl K</kbd>
          </button>
          <RangePicker />
          <button type="button" class="theme" onClick={toggleTheme} aria-label={`Theme: ${theme}. Change it.`}>
            {theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}
          </button>
        </div>
      </header>
      {refused !== null && <Token message={refused} onDone={() => setRefused(null)} />}
      <main id="main" tabIndex={-1}>
        <Page key={route.page?.path ?? ""} load={route.page?.load} />
      </main>
      <Tour />
      {isAsking && <Palette onClose={() => setAsking(false)} />}
    </>
  );
}

function isWithin(path: string, page: string): boolean {
  return page === "/" ? path === "/" : path === page || path.startsWith(`${page}/`);
}

function Page({ load }: { load?: () => Promise<{ default: ComponentType }> }) {
  const [View, setView] = useState<ComponentType | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    let isHere = true;
    load?.()
      .then((found) => isHere && setView(() => found.default))
      .catch(() => isHere && setTrouble("This page could not be loaded. Was the server updated? Reload the window."));
    return () => {
      isHere = false;
    };
  }, [load]);
  if (load === undefined) {
    return (
      <div class="state state-empty">
        <h1>There is no such page</h1>
        <p>
          <Link to="/">Now</Link> shows what is going on; Ctrl K finds the rest.
        </p>
      </div>
    );
  }
  if (trouble !== "") {
    return (
      <div class="state state-failed" role="alert">
        <p>{trouble}</p>
        <button type="button" onClick={() => location.reload()}>
          Reload
        </button>
      </div>
    );
  }
  return View === null ? <Loading /> : <View />;
}

/** g and a letter opens a page, / jumps to the search, Ctrl K and ? open the palette. */
function useShortcuts(ask: () => void): void {
  useEffect(() => {
    let chordUntil = 0;
    const pressed = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        ask();
        return;
      }
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
      if (event.timeStamp < chordUntil) {
        chordUntil = 0;
        const page = pages.find((one) => one.key === event.key);
        if (page !== undefined) go(hrefOf(page.path));
      } else if (event.key === "g") chordUntil = event.timeStamp + CHORD_MS;
      else if (event.key === "?") ask();
      else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("[data-shortcut='/']");
        if (search !== null) {
          event.preventDefault();
          search.focus();
        }
      }
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, []);
}

function Token({ message, onDone }: { message: string; onDone: () => void }) {
  const [typed, setTyped] = useState("");
  return (
    <form
      class="notice notice-warning token"
      onSubmit={(event) => {
        event.preventDefault();
        setToken(typed.trim());
        onDone();
        location.reload();
      }}
    >
      <p>{message}</p>
      <label>
        Token{" "}
        <input
          type="password"
          autocomplete="current-password"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Go on</button>
      <p class="soft">It is kept for this tab only. The file is named when the server starts.</p>
    </form>
  );
}

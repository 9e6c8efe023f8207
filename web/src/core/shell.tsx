// What surrounds every page: navigation, the span of time, the theme, the palette, what is wrong with the server.
import { useEffect, useState } from "preact/hooks";
import { pages } from "../pages";
import { Account } from "./account";
import { PageOf, useLoadedPages } from "./page";
import { Palette } from "./palette";
import { RangePicker } from "./range_picker";
import { Link, useRoute } from "./route";
import { Keys, useShortcuts } from "./shortcuts";
import { toggleTheme, useTheme } from "./theme";
import { Tour } from "./tour";
import { Trouble } from "./trouble";
import "./core.css";

export function Shell() {
  const route = useRoute();
  const theme = useTheme();
  const [over, setOver] = useState<{ which: "palette" | "keys" } | null>(null);
  const [isOpen, setOpen] = useState(false); // the navigation, where the window is narrow
  useEffect(() => {
    document.title = route.page === null ? "Trilens" : `${route.args["name"] ?? route.page.title} · Trilens`;
    setOpen(false);
  }, [route.path]);
  useLoadedPages();
  const show = (which: "palette" | "keys") => setOver((now) => (now?.which === which && isShown() ? now : { which }));
  const find = () => show("palette");
  const help = () => show("keys");
  // Told a moment later, when another may be open already, or the same once more.
  const closed = () => setOver((now) => (now === over ? null : now));
  useShortcuts(find, help);

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
          <button type="button" class="ask" onClick={find} aria-keyshortcuts="Control+K">
            Find <kbd>Ctrl K</kbd>
          </button>
          <RangePicker />
          <button type="button" class="theme" onClick={toggleTheme} aria-label={`Theme: ${theme}. Change it.`}>
            {theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}
          </button>
          <Account />
        </div>
      </header>
      <Trouble />
      <main id="main" tabIndex={-1}>
        <PageOf key={route.path} entry={route.page} />
      </main>
      <Tour />
      {over?.which === "palette" && <Palette key={over} onClose={closed} onKeys={help} />}
      {over?.which === "keys" && <Keys key={over} onClose={closed} />}
    </>
  );
}

function isWithin(path: string, page: string): boolean {
  return page === "/" ? path === "/" : path === page || path.startsWith(`${page}/`);
}

function isShown(): boolean {
  return document.querySelector("dialog[open]") !== null;
}

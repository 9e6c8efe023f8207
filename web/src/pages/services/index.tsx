// Servers of models: what was promised of them, and how they keep it.
import { get } from "../../api/client";
import { useAnswer } from "../../api/use";
import { useParam, useRange } from "../../core/route";
import { Copied, Search } from "../../parts/inputs";
import { Empty, Shown } from "../../parts/states";
import { ServiceTable } from "./list";
import { headline, keyOf, stateOf, type Service } from "./model";
import { ServicePanel } from "./panel";
import "./services.css";

const EVERY_MS = 10_000;

export default function ServicesPage() {
  const range = useRange();
  const [chosen, choose] = useParam("service");
  const [search, setSearch] = useParam("q");
  const at = range.isLive ? undefined : range.toMs / 1000;
  const live = useAnswer(`services ${at ?? "now"}`, (signal) => get("/api/services", { query: { at } }, signal), {
    everyMs: range.isLive ? EVERY_MS : undefined,
  });
  return (
    <Shown live={live} what="Reading services">
      {({ services, unmatched }) => {
        if (services.length === 0) return <NoServices />;
        const shown = services.filter((one) => isMeant(one, search));
        const open = chosen || worstOf(services);
        return (
          <div class="stack services">
            <div class="spread">
              <h1>{headline(services)}</h1>
              <Search value={search} onChange={setSearch} label="Name, model or team" />
            </div>
            {unmatched.length > 0 && (
              <p class="notice notice-doubt">
                No service matches the objective{unmatched.length > 1 ? "s" : ""} <b>{unmatched.join(", ")}</b>: compare <code>service</code> in
                its file with the names below.
              </p>
            )}
            <ServiceTable services={shown} chosen={open} onOpen={(one) => choose(keyOf(one))} />
            {open !== "" && <ServicePanel key={open} name={open} />}
          </div>
        );
      }}
    </Shown>
  );
}

function isMeant(service: Service, search: string): boolean {
  const text = [service.name, service.namespace, service.cluster, service.team, ...service.models, ...service.servers].join(" ");
  return text.toLowerCase().includes(search.toLowerCase());
}

/** Where the eye should go first. */
function worstOf(services: Service[]): string {
  const [first] = [...services].sort(
    (a, b) => stateOf(a.state).rank - stateOf(b.state).rank || (b.waiting ?? 0) - (a.waiting ?? 0),
  );
  return first === undefined ? "" : keyOf(first);
}

const MIDDLEWARE = `import trilens.serving\n\napp.add_middleware(trilens.serving.Middleware, model="llama-3.1-8b")`;

function NoServices() {
  return (
    <Empty
      what="No server of models tells of itself."
      todo={
        <>
          <p>
            vLLM, SGLang, Triton and TGI are known as soon as their <code>/metrics</code> is scraped: in a watched cluster by a port named{" "}
            <code>metrics</code>, elsewhere by a job under <code>scrape.scrape_configs</code>. A program of your own tells with two lines:
          </p>
          <Copied text={MIDDLEWARE} />
          <p>What is recorded appears here within a minute.</p>
        </>
      }
    />
  );
}

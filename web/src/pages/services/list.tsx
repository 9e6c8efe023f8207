import { useMemo } from "preact/hooks";
import { money, perHour } from "../../format/money";
import { count, percent, short } from "../../format/numbers";
import { useParam } from "../../core/route";
import { Badge } from "../../parts/badge";
import { Empty } from "../../parts/states";
import { Table, type Column } from "../../parts/table";
import { Budget } from "./slos";
import { keyOf, seconds, serviceHref, stateOf, type Service, type Slo } from "./model";

function dash(value: number | null | undefined, say: (value: number) => string): string {
  return value == null ? "–" : say(value);
}

/** The objective that is worst off. */
function worst(service: Service): Slo | undefined {
  return [...service.slos].sort((a, b) => (a.budget_left ?? 2) - (b.budget_left ?? 2))[0];
}

/** The first column says which one is shown below. */
function nameColumn(chosen: string, isOneCluster: boolean, onOpen: (service: Service) => void): Column<Service> {
  return {
    key: "name",
    title: "Service",
    sort: (row) => row.name,
    cell: (row) => (
      <a
        href={serviceHref(row)}
        class="service-name"
        aria-current={keyOf(row) === chosen ? "true" : undefined}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey) return;
          event.preventDefault();
          onOpen(row);
        }}
      >
        {row.name} <span class="soft">{[row.namespace, !isOneCluster && row.cluster].filter(Boolean).join(" · ")}</span>
      </a>
    ),
  };
}

const COLUMNS: Column<Service>[] = [
  {
    key: "state",
    title: "State",
    sort: (row) => stateOf(row.state).rank,
    cell: (row) => <Badge tone={stateOf(row.state).tone}>{stateOf(row.state).word}</Badge>,
  },
  {
    key: "budget",
    title: "Error budget",
    help: "Of the objective that is worst off",
    sort: (row) => worst(row)?.budget_left,
    cell: (row) => {
      const slo = worst(row);
      return slo === undefined ? <span class="soft">–</span> : <Budget slo={slo} />;
    },
  },
  { key: "rps", title: "Requests/s", align: "end", sort: (row) => row.requests_per_s, cell: (row) => dash(row.requests_per_s, short) },
  { key: "errors", title: "Errors", align: "end", isWide: true, sort: (row) => row.errors_ratio, cell: (row) => dash(row.errors_ratio, (v) => percent(v, 1)) },
  { key: "p50", title: "p50", align: "end", isWide: true, help: "Half of the requests are quicker", sort: (row) => row.latency.p50, cell: (row) => seconds(row.latency.p50) },
  { key: "p95", title: "p95", align: "end", isWide: true, help: "One in twenty requests is slower", sort: (row) => row.latency.p95, cell: (row) => seconds(row.latency.p95) },
  { key: "p99", title: "p99", align: "end", help: "One in a hundred requests is slower", sort: (row) => row.latency.p99, cell: (row) => seconds(row.latency.p99) },
  { key: "ttft", title: "TTFT p95", align: "end", help: "Time to the first token: one in twenty is slower", sort: (row) => row.ttft.p95, cell: (row) => seconds(row.ttft.p95) },
  { key: "waiting", title: "Waiting", align: "end", sort: (row) => row.waiting, cell: (row) => dash(row.waiting, count) },
  { key: "gpus", title: "GPUs", align: "end", isWide: true, sort: (row) => row.gpus, cell: (row) => dash(row.gpus, count) },
  { key: "hour", title: "Per hour", align: "end", isWide: true, sort: (row) => row.per_hour, cell: (row) => dash(row.per_hour, (v) => perHour(v, row.currency ?? undefined)) },
  {
    key: "per1k",
    title: "Per 1k req.",
    align: "end",
    isWide: true,
    help: "What 1,000 requests cost at the present rate",
    sort: (row) => row.per_1k_requests,
    cell: (row) => dash(row.per_1k_requests, (v) => money(v, row.currency ?? undefined)),
  },
];

interface ServiceTableProps {
  services: Service[];
  chosen: string;
  onOpen: (service: Service) => void;
}

export function ServiceTable({ services, chosen, onOpen }: ServiceTableProps) {
  const [sort, setSort] = useParam("sort", "state");
  const isOneCluster = new Set(services.map((one) => one.cluster)).size < 2;
  const columns = useMemo(() => [nameColumn(chosen, isOneCluster, onOpen), ...COLUMNS], [chosen, isOneCluster]);
  return (
    <Table
      label="Services"
      columns={columns}
      rows={services}
      rowKey={keyOf}
      sort={sort}
      onSort={setSort}
      onOpen={onOpen}
      maxHeight="22rem"
      empty={<Empty what="No service has that name, model or team." todo="Clear the search above." />}
    />
  );
}

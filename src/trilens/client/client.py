"""The answers of a server as tables: pandas' by default, Arrow's with `as_arrow`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from trilens.client import plots, shapes
from trilens.client.connection import Connection, warnings_of
from trilens.client.filters import chosen, conditions
from trilens.client.frames import frame
from trilens.client.lineage import lineage_of
from trilens.client.moments import length_s, moment_at, seconds_of, span
from trilens.client.money import cost_table, experiments_table, why_table
from trilens.client.naming import run_meant, workload_meant
from trilens.client.series import long_table, range_table
from trilens.client.steps import curve_table, steps_table
from trilens.client.table import table_of
from trilens.client.why import why_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.client.frames import Frame
    from trilens.client.lineage import Lineage
    from trilens.client.moments import Moment
    from trilens.client.table import Column
    from trilens.client.why import Why

    Length = float | str

_LINES: Final = 100_000


class Client:
    """One server. Without a URL, that of TRILENS_SERVER, or the one on this machine.

    Times are UTC; what is not known is missing, never 0. `attrs` of a table has what is doubtful about it
    (`warnings`), and the `currency` of its amounts.
    """

    def __init__(self, server: str | None = None, *, token: str | None = None) -> None:
        self._connection = Connection(server, token)

    def __repr__(self) -> str:
        return f"<Client of {self._connection.url}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    # The fleet

    def workloads(
        self, *, at: Moment | None = None, last: Length | None = None, as_arrow: bool = False, **only: str
    ) -> Frame:
        """Now, or at a moment; `last` has those too that went away since. Only of a `namespace`, `name`,
        `cluster`, `phase`."""
        now_s = time.time()
        moment = moment_at(at, now_s)
        since = span(last, None, at, now_s) if last is not None else {}
        since.pop("to", None)
        return self._rows(
            "/api/workloads",
            shapes.WORKLOADS,
            {**chosen(only, "namespace", "name", "cluster", "phase"), **moment, **since},
            as_arrow,
        )

    def gpus(self, *, at: Moment | None = None, as_arrow: bool = False, **only: str) -> Frame:
        """Only of a `cluster`, `node`, `namespace`, `workload`; with lost="true" only lost ones."""
        wanted = chosen(only, "cluster", "node", "namespace", "workload", "lost")
        moment = moment_at(at, time.time())
        return self._rows("/api/gpus", shapes.GPUS, {**wanted, **moment}, as_arrow)

    def events(
        self,
        *,
        last: Length | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        limit: int = 1_000,
        as_arrow: bool = False,
        **only: str,
    ) -> Frame:
        """Faults and warnings, the latest first, a day's unless told. Only of a `workload`, `node`."""
        wanted = chosen(only, "workload", "node")
        params = {**wanted, **span(last, start, end, time.time()), "limit": str(limit)}
        return self._rows("/api/events", shapes.EVENTS, params, as_arrow)

    # Trouble

    def findings(
        self,
        *,
        last: Length | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        as_arrow: bool = False,
        **only: str,
    ) -> Frame:
        """What detectors find now; of a span also what is over. Only of a `code`, `severity`, `workload`,
        `namespace`, `run`, `node`."""
        wanted = chosen(only, "code", "severity", "workload", "namespace", "run", "node")
        params = {**wanted, **span(last, start, end, time.time())}
        return self._rows("/api/findings", shapes.FINDINGS, params, as_arrow)

    def incidents(
        self,
        *,
        last: Length | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        as_arrow: bool = False,
        **only: str,
    ) -> Frame:
        """Open ones; of a span also what is over. Only of a `severity`, `workload`, `team`, `node`."""
        wanted = chosen(only, "severity", "workload", "team", "node")
        params = {**wanted, **span(last, start, end, time.time())}
        return self._rows("/api/incidents", shapes.INCIDENTS, params, as_arrow)

    def why(
        self,
        name: str,
        *,
        namespace: str | None = None,
        last: Length | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
    ) -> Why:
        """The verdicts on a workload, a pod, a node or an incident."""
        where = {"namespace": namespace} if namespace is not None else {}
        params = {"subject": name, **where, **span(last, start, end, time.time())}
        return why_of(*self._connection.get("/api/why", params))

    # Money

    def cost(
        self,
        by: Sequence[str] | str = ("team",),
        *,
        last: Length | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        where: Mapping[str, str] | None = None,
        compare: bool = True,
        limit: int = _LINES,
        as_arrow: bool = False,
    ) -> Frame:
        """What was spent, by up to four dimensions: team, workload, bucket, gpu-model, day, ..."""
        params: dict[str, Any] = {
            "by": [by] if isinstance(by, str) else [*by],
            "where": conditions(where),
            "compare": "true" if compare else "false",
            "limit": str(limit),
            **span(last, start, end, time.time()),
        }
        return frame(cost_table(*self._connection.get("/api/cost", params)), as_arrow=as_arrow)

    def cost_why(
        self,
        *,
        last: Length | None = None,
        start: Moment | None = None,
        end: Moment | None = None,
        where: Mapping[str, str] | None = None,
        limit: int | None = None,
        as_arrow: bool = False,
    ) -> Frame:
        """What was spent for nothing, the largest causes first, each as a sentence."""
        params: dict[str, Any] = {"where": conditions(where), **span(last, start, end, time.time())}
        if limit is not None:
            params["limit"] = str(limit)
        return frame(why_table(*self._connection.get("/api/cost/why", params)), as_arrow=as_arrow)

    # Runs

    def runs(self, *, last: Length | None = None, as_arrow: bool = False, **only: str) -> Frame:
        """The newest first. Only of an `experiment`, a `state`, a `workload`, or `named` so."""
        wanted = chosen(only, "experiment", "state", "workload", "named")
        if "workload" in wanted:
            wanted["workload"] = workload_meant(self._connection, wanted["workload"])
        params = {**wanted, **span(last, None, None, time.time()), "limit": "1000"}
        return self._pages("/api/runs", "runs", shapes.RUNS, params, as_arrow)

    def steps(
        self,
        run: str,
        *,
        first: int | None = None,
        last: int | None = None,
        rank: int | None = None,
        as_arrow: bool = False,
    ) -> Frame:
        """Every rank's record of each step: when, how long, its phases, and the values it logged."""
        bounds = {"first": first, "last": last, "rank": rank}
        params = {name: str(value) for name, value in bounds.items() if value is not None}
        pages = [*self._connection.pages(f"{self._run(run)}/steps", {**params, "limit": "20000"})]
        return frame(steps_table([page.data for page in pages], warnings_of(pages)), as_arrow=as_arrow)

    def curve(self, run: str, value: str = "loss", *, as_arrow: bool = False) -> Frame:
        """A value over steps, over all ranks: far less than all records of a large run."""
        answer = self._connection.get(f"{self._run(run)}/curve", {"value": value})
        return frame(curve_table(*answer), as_arrow=as_arrow)

    def experiments(self, experiment: str | None = None, *, as_arrow: bool = False, **options: str) -> Frame:
        """Runs of experiments with parameters, last metrics and cost; of one experiment, `metric` and
        `maximize` say which are `on_front`."""
        named = {"experiment": experiment} if experiment is not None else {}
        answer = self._connection.get(
            "/api/experiments", {**chosen(options, "metric", "maximize", "least_gain", "limit"), **named}
        )
        return frame(experiments_table(*answer), as_arrow=as_arrow)

    def checkpoints(self, run: str, *, as_arrow: bool = False) -> Frame:
        return self._rows(f"{self._run(run)}/checkpoints", shapes.CHECKPOINTS, {}, as_arrow)

    def lineage(self, run: str, step: int, *, as_arrow: bool = False) -> Lineage:
        """What went into the checkpoint of a step."""
        answer = self._connection.get(f"{self._run(run)}/checkpoints/{step}")
        return lineage_of(*answer, as_arrow=as_arrow)

    def batches(self, run: str, step: int, *, as_arrow: bool = False) -> Frame:
        """Every batch that is inside the checkpoint of a step."""
        path = f"{self._run(run)}/checkpoints/{step}/batches"
        return self._pages(path, "batches", shapes.BATCHES, {"limit": "10000"}, as_arrow)

    # Series

    def query(self, promql: str, *, at: Moment = "now", as_arrow: bool = False) -> Frame:
        """Labels, time and value of each sample."""
        moment_s = seconds_of(at, time.time())
        answer = self._connection.post("/api/v1/query", {"query": promql, "time": f"{moment_s:.3f}"})
        return frame(long_table(*answer), as_arrow=as_arrow)

    def query_range(
        self,
        promql: str,
        start: Moment = "-1h",
        end: Moment = "now",
        step: Length | None = None,
        *,
        as_arrow: bool = False,
    ) -> Frame:
        """Over time: a column for each series, and in `attrs["series"]` the labels of each."""
        now_s = time.time()
        start_s, end_s = seconds_of(start, now_s), seconds_of(end, now_s)
        step_s = length_s(step) if step is not None else None
        table = range_table(self._connection, promql, start_s, end_s, step_s)
        return frame(table, as_arrow=as_arrow, index="time")

    # Plots

    def plot_loss(self, *runs: str, value: str = "loss", over: str = "step", ax: Any = None) -> Any:
        """A value of runs over `step` or `time`."""
        return plots.curves({run: self.curve(run, value) for run in runs}, value, over, ax)

    def plot_cost(
        self, by: Sequence[str] | str = ("team", "bucket"), *, ax: Any = None, **window: Any
    ) -> Any:
        """Bars by the first dimension, in pieces by the second; a window as `cost` takes it."""
        names = [by] if isinstance(by, str) else [*by]
        return plots.cost(self.cost(names, compare=False, **window), names, ax)

    def plot_ranks(self, workload: str, *, steps: int = 200, ax: Any = None) -> Any:
        """The step time of each rank, without its waits for others, over the last steps of its run."""
        known = self._connection.get(
            "/api/runs", {"workload": workload_meant(self._connection, workload), "limit": "1"}
        )
        run = plots.newest_run(known.data["runs"], workload)
        first = max(0, run["step"] - plots.fewer_steps(steps, run["ranks"]) + 1)
        return plots.ranks(self.steps(run["run"], first=first), workload, ax)

    def _run(self, written: str) -> str:
        return f"/api/runs/{quote(run_meant(self._connection, written), safe='')}"

    def _rows(self, path: str, columns: Sequence[Column], params: Mapping[str, str], as_arrow: bool) -> Frame:
        answer = self._connection.get(path, params)
        return frame(table_of(columns, *answer), as_arrow=as_arrow)

    def _pages(
        self, path: str, name: str, columns: Sequence[Column], params: Mapping[str, str], as_arrow: bool
    ) -> Frame:
        """`name` is what the answer calls its rows."""
        pages = [*self._connection.pages(path, params)]
        rows = [row for page in pages for row in page.data[name]]
        return frame(table_of(columns, rows, warnings_of(pages)), as_arrow=as_arrow)

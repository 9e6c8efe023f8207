"""`trilens demo --fault`: each goes wrong on a cluster made for it, and what is told of it is followed."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import httpx
import typer

from trilens.cli.client import Client
from trilens.cli.demo_line import to_type
from trilens.cli.demo_show import Show
from trilens.cli.demo_stage import AGE_S, SHOWN, stage
from trilens.cli.plain_table import print_table
from trilens.model.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.cli.demo_server import DemoServer
    from trilens.cli.demo_show import Act
    from trilens.cli.demo_stage import ShownFault
    from trilens.simulate.over_http.described import Described

_LOOK_S: Final = 1.0
_KNOWN: Final = "count(DCGM_FI_DEV_GPU_UTIL * on (UUID) group_left () trilens_workload_gpu_info)"
_ANSWER_S: Final = 10.0


def list_faults(*, as_json: bool) -> None:
    if as_json:
        names = ("name", "what", "alert", "lasts_s", "resolves_s", "is_quick")
        typer.echo(json.dumps([{name: getattr(one, name) for name in names} for one in SHOWN]))
        return
    print_table(
        ["fault", "what goes wrong", "alert", "lasts", "resolved after"],
        [
            [one.name, one.what, one.alert, _seconds(one.lasts_s) if one.lasts_s else "-",
             f"about {_seconds(one.resolves_s)}"]
            for one in SHOWN
        ],
        folds=["what goes wrong"],
    )  # fmt: skip
    quick = ", ".join(one.name for one in SHOWN if one.is_quick)
    typer.echo(f"\nquick: {quick}")


def show_faults(server: DemoServer, faults: Sequence[ShownFault], seed: int, *, as_json: bool) -> bool:
    """Until all of them are resolved, or it is interrupted; whether each was shown as it should be."""
    scenario = stage(faults)
    ended = threading.Event()
    shows: list[Show] = []
    threads: list[threading.Thread] = []

    def announce(url: str, cluster: Described) -> None:
        around = _Around(url, cluster, server.alertmanagers)
        show = Show(
            faults,
            lambda one: one.fault(scenario),
            around,
            has_alertmanager=bool(server.alertmanagers),
            to_type=lambda arguments: to_type(arguments, url),
        )
        shows.append(show)
        _introduce(url, cluster, faults)
        threads.append(threading.Thread(target=_follow, args=(show, ended), name="demo-faults"))
        threads[0].start()

    with TemporaryDirectory(prefix="trilens-stage-") as directory:
        file = Path(directory) / "stage.json"
        file.write_text(scenario.model_dump_json(exclude_defaults=True), encoding="utf-8")
        try:
            server.run(["--scenario", str(file), "--age", f"{AGE_S}s"], announce, seed=seed)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    acts = shows[0].acts if shows else []
    if as_json:
        typer.echo(json.dumps([_told(act) for act in acts]))
    else:
        show_table(acts, has_alertmanager=bool(server.alertmanagers))
    return bool(acts) and all(act.is_shown for act in acts)


class _Around:
    """The simulator, the server and the Alertmanagers, over HTTP."""

    def __init__(self, server: str, cluster: Described, alertmanagers: Sequence[str]) -> None:
        self._server = Client(server)
        self._http = httpx.Client(timeout=_ANSWER_S)
        self._gpus = cluster.gpus
        self._simulator = f"{cluster.url}/faults"
        self._alertmanagers = alertmanagers
        self._known_s: float | None = None  # since when all GPUs are, and who has them

    def watched_s(self) -> float:
        if self._known_s is None:
            found = self._server.get("/api/v1/query", {"query": _KNOWN})["data"]["result"]
            if not found or int(found[0]["value"][1]) < self._gpus:
                return 0.0
            self._known_s = time.monotonic()
        return time.monotonic() - self._known_s

    def strike(self, fault: Mapping[str, Any]) -> dict[str, Any] | None:
        answer = self._http.post(self._simulator, json=fault)
        if answer.status_code == httpx.codes.CONFLICT:
            return None
        answer.raise_for_status()
        told: dict[str, Any] = answer.json()
        return told

    def mend(self, number: int) -> None:
        self._http.delete(f"{self._simulator}/{number}").raise_for_status()

    def faults(self) -> Sequence[dict[str, Any]]:
        told: list[dict[str, Any]] = self._http.get(self._simulator).raise_for_status().json()
        return told

    def firing(self) -> Sequence[dict[str, Any]]:
        alerts = self._server.get("/api/v1/alerts")["data"]["alerts"]
        return [one for one in alerts if one["state"] == "firing"]

    def arrived(self) -> Sequence[dict[str, Any]] | None:
        found: list[dict[str, Any]] | None = None
        for url in self._alertmanagers:
            try:
                answer = self._http.get(f"{url.rstrip('/')}/api/v2/alerts").raise_for_status()
            except httpx.HTTPError:
                continue
            found = [*(found or ()), *answer.json()]
        return found


def _follow(show: Show, ended: threading.Event) -> None:
    while not ended.wait(_LOOK_S):
        now_s = time.time()
        try:
            for act, said in show.look(now_s):
                typer.echo(f"{time.strftime('%H:%M:%S')}  {act.fault.name:18}  {said}", err=True)
        except (ServerError, httpx.HTTPError):
            continue  # it is busy, or ends: the next look tells
        if show.is_over:
            os.kill(os.getpid(), signal.SIGINT)  # the server runs in the main thread, and ends as by Ctrl-C
            return


def _introduce(url: str, cluster: Described, faults: Sequence[ShownFault]) -> None:
    takes_s = max(one.after_s + one.lasts_s + one.resolves_s for one in faults)
    first_s = min(one.after_s for one in faults)
    nodes = "1 node" if cluster.nodes == 1 else f"{cluster.nodes} nodes"
    many = "1 fault is" if len(faults) == 1 else f"{len(faults)} faults are"
    typer.echo(
        f"Trilens runs at {url} with a simulated cluster of {cluster.gpus} GPUs on {nodes}.\n"
        f"It is watched for {first_s} s, then {many} shown on it: "
        f"about {_seconds(takes_s)} in all. Ctrl-C ends it.\n",
        err=True,
    )


def show_table(acts: Sequence[Act], *, has_alertmanager: bool) -> None:
    titles = ["fault", "alert", "names", "fired after", "arrived after", "lasted", "resolved after"]
    rows = [
        [
            act.fault.name,
            act.fault.alert,
            _names(act),
            _since(act.began_s, act.fired_s),
            _since(act.began_s, act.arrived_s),
            _since(act.began_s, act.over_s) if act.fault.lasts_s else "-",
            _since(act.over_s, act.resolved_s),
        ]
        for act in acts
    ]
    shown = [at for at, title in enumerate(titles) if has_alertmanager or title != "arrived after"]
    typer.echo()
    print_table([titles[at] for at in shown], [[row[at] for at in shown] for row in rows], folds=["names"])
    count = sum(act.is_shown for act in acts)
    typer.echo(f"\n{count} of {len(acts)} shown: fired, named rightly, and resolved")


def _names(act: Act) -> str:
    """As people say it; what is wrong with the way that it should be."""
    forms = {"workload": "{}", "rank": "rank {}", "node": "on {}", "cause": "({})"}
    said = " ".join(form.format(act.labels[name]) for name, form in forms.items() if name in act.labels)
    should = ", ".join(f"{name} {value}" for name, value in act.wrong.items())
    return f"{said}; not {should}" if said and should else said


def _told(act: Act) -> dict[str, Any]:
    def moment(at_s: float | None) -> int | None:
        return None if at_s is None else round(1000 * at_s)

    return {
        "fault": act.fault.name,
        "alert": act.fault.alert,
        "labels": dict(act.labels),
        "summary": act.summary,
        "wrong": act.wrong if act.fired_s is not None else {},
        "began_ms": moment(act.began_s),
        "over_ms": moment(act.over_s),
        "fired_ms": moment(act.fired_s),
        "arrived_ms": moment(act.arrived_s),
        "resolved_ms": moment(act.resolved_s),
        "is_shown": act.is_shown,
    }


def _since(begin_s: float | None, end_s: float | None) -> str:
    return "no" if begin_s is None or end_s is None else f"{end_s - begin_s:.0f} s"


def _seconds(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} min"

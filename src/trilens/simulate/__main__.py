"""`python -m trilens.simulate`: a simulated cluster over HTTP, for whatever reads clusters."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from trilens.model.errors import ConfigError
from trilens.simulate.over_http.agents import AGENT_TARGETS
from trilens.simulate.over_http.described import Described
from trilens.simulate.over_http.exporters import DCGM_TARGETS, PROGRAM_TARGETS
from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster, bind, url_of, write_kubeconfig
from trilens.simulate.scenario import Seconds, load_scenario, shipped_scenarios
from trilens.simulate.telling import MOST_RANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.scenario import Scenario
    from trilens.simulate.world import World

_MOST_GPUS = 10_000  # beyond, the first hour takes minutes that look like a hang


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        _serve(asked, ended)
    except ConfigError as e:
        print(f"trilens.simulate: {e}", file=sys.stderr)  # noqa: T201 - a command speaks
        return 2
    return 0


def _serve(asked: argparse.Namespace, ended: threading.Event) -> None:
    scenario = load_scenario(asked.scenario)
    if asked.gpus is not None:
        scenario = scenario.sized(asked.gpus)
    now_ms = asked.until if asked.until is not None else _now_ms()
    with tempfile.TemporaryDirectory(prefix="trilens-simulate-") as folder:
        kubeconfig = asked.kubeconfig or Path(folder) / "kubeconfig"
        try:
            with bind(asked.port) as listener:
                url = url_of(listener)
                write_kubeconfig(kubeconfig, url)
                described = _described(scenario, url, kubeconfig, now_ms, asked)
                print(described.as_json() if asked.json else described.as_text(), flush=True)  # noqa: T201
                world = _grown(scenario, now_ms, asked)  # who comes meanwhile waits for it
                with SimulatedCluster(
                    world, speed=asked.speed, listener=listener, on_end=ended.set
                ) as cluster:
                    if asked.records_to is not None:
                        cluster.send_records_to(asked.records_to)
                    if asked.with_stdin:
                        threading.Thread(target=_follow_stdin, args=(cluster, ended), daemon=True).start()
                    ended.wait()
        except OSError as e:  # the port, or the kubeconfig's folder
            raise ConfigError(str(e)) from e


def _grown(scenario: Scenario, now_ms: int, asked: argparse.Namespace) -> World:
    world = grown(
        scenario,
        now_ms=now_ms,
        age_ms=round(1000 * asked.age),
        seed=asked.seed,
        telling_ranks=asked.telling_ranks,
        identity=asked.identity,
    )
    if asked.told is not None:
        world.telling.go_on_from(_told(asked.told))
    if asked.until is not None:
        world.advance(max(now_ms, _now_ms()))  # it has grown for seconds, which are over
    return world


def _described(
    scenario: Scenario, url: str, kubeconfig: Path, now_ms: int, asked: argparse.Namespace
) -> Described:
    return Described(
        url=url,
        kubeconfig=str(kubeconfig),
        dcgm_targets=url + DCGM_TARGETS,
        program_targets=url + PROGRAM_TARGETS,
        agent_targets=url + AGENT_TARGETS,
        scenario=scenario.name,
        gpus=scenario.gpus,
        nodes=sum(pool.nodes for pool in scenario.pools),
        born_ms=now_ms - round(1000 * asked.age),
        began_ms=now_ms,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _told(file: Path) -> dict[str, dict[str, Any]]:
    try:
        told: dict[str, dict[str, Any]] = json.loads(file.read_bytes())["told"]
    except (OSError, ValueError, KeyError) as e:
        raise ConfigError(f"--told: {file} does not say how far ranks have told: {e}") from e
    return told


def _follow_stdin(cluster: SimulatedCluster, ended: threading.Event) -> None:
    for line in sys.stdin:
        cluster.send_records_to(line.strip())
    ended.set()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trilens.simulate", description=__doc__)
    shipped = ", ".join(shipped_scenarios())
    parser.add_argument(
        "--scenario", default="default", metavar="FILE", help=f"a scenario's file, or one of: {shipped}"
    )
    parser.add_argument(
        "--gpus", type=_count, metavar="N", help="scale the scenario to so many GPUs, up to 10,000"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed, the same world")
    parser.add_argument(
        "--speed", type=_speed, default=1.0, metavar="X", help="how much faster than time it is (1)"
    )
    parser.add_argument(
        "--age",
        type=_duration,
        default=3600.0,
        metavar="DURATION",
        help="how much of it is past already (1h)",
    )
    parser.add_argument(
        "--until", type=int, metavar="MS", help="when its age was that, in milliseconds of the epoch (now)"
    )
    parser.add_argument(
        "--identity", default="", metavar="TEXT", help="worlds of one identity have the same runs"
    )
    parser.add_argument(
        "--telling-ranks",
        type=int,
        default=MOST_RANKS,
        metavar="N",
        help=f"how many training ranks tell of their steps at the most ({MOST_RANKS})",
    )
    parser.add_argument(
        "--told", type=Path, metavar="FILE", help="ranks go on from where this says that they stood"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="PORT", help="on 127.0.0.1; a free one unless given"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="where to write one; else it is gone at the end"
    )
    parser.add_argument(
        "--records-to",
        type=_server,
        metavar="URL",
        help="a Trilens server that training ranks tell of their steps",
    )
    parser.add_argument("--json", action="store_true", help="say where it answers as one line of JSON")
    parser.add_argument(
        "--with-stdin",
        action="store_true",
        help="end when standard input does, for who starts it; a line there is as --records-to",
    )
    return parser


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MOST_GPUS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GPUs from 1 to {_MOST_GPUS}")
    return int(text)


def _server(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL: write http://HOST:PORT")
    return text


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return speed


def _duration(text: str) -> float:
    try:
        return TypeAdapter(Seconds).validate_python(text)
    except ValidationError as e:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90s, 5m or 1h30m") from e


if __name__ == "__main__":
    sys.exit(main())

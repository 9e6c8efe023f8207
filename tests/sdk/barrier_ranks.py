"""A real job of three ranks, for test_distributed_barrier.py. What the barriers of each said is RANK.json in
the folder that is the first argument.

The ranks are forked from one process, because loading PyTorch takes longer than all that they do.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trilens.model.errors import RanksMissing
from trilens.model.flight_recorder import read_flight_recorder, standings
from trilens.sdk.distributed.arrivals import Arrivals
from trilens.sdk.distributed.clock import ClockServer, measure, now_us
from trilens.sdk.distributed.meeting import barrier
from trilens.sdk.distributed.peers import Peers
from trilens.sdk.distributed.process_group import job_store, own_connection
from trilens.sdk.distributed.recorded_collectives import dump_collectives
from trilens.sdk.distributed.whereabouts import tell_where
from trilens.sdk.guard import Guard
from trilens.sdk.identity import Identity
from trilens.sdk.options import Options
from trilens.sdk.recorder import Recorder

LONG = 30.0  # nobody is missing: never waited for
SHORT = 0.5  # somebody is: waited for in full
FOLDER = Path(sys.argv[1])
RANK_0_LIVES = os.pipe()  # as long as its second end is open
RANK = next((rank for rank in range(3) if not os.fork()), None)
told: dict[str, Any] = {}
recorder = Recorder("barriers", Identity(rank=RANK or 0, world_size=3), Options(), Guard())


def notes() -> list[dict[str, object]]:
    return recorder.take_records().get("notes", [])


def met(name: str, timeout: float, **options: Any) -> None:
    missing = barrier(recorder, timeout, **options)
    told[name] = {"missing": list(missing), "unknown": missing.unknown, "notes": notes()}


def stay_away_until(store: Any, moment: str, ranks: list[int]) -> None:
    """Until those ranks have said that they are past the barrier."""
    store.wait([f"{moment}/{rank}" for rank in ranks], datetime.timedelta(seconds=LONG))


def stores_without_a_network() -> None:
    """Three members in three threads, over the stores that are no TCPStore."""
    for name, store in (
        ("hash", dist.HashStore()),
        ("file", dist.FileStore(str(FOLDER / "store"), 1)),
        ("prefix", dist.PrefixStore("of-the-program", dist.HashStore())),
    ):
        found: dict[int, tuple[int, ...]] = {}

        def member(me: int, store: Any = store, found: dict[int, tuple[int, ...]] = found) -> None:
            arrivals = Arrivals(store, "group", (0, 1, 2), me)
            for meeting in (1, 2):
                arrivals.arrive(meeting)
                assert arrivals.wait(meeting, _in(LONG)) == ()
            if me != 1:
                arrivals.arrive(3)
                found[me] = arrivals.wait(3, _in(0.2))

        threads = [threading.Thread(target=member, args=(me,)) for me in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        left = [m for m in (1, 2, 3) if store.check([f"trilens/barrier/group/{m}/0"])]
        told[name] = {"missing": [list(found[me]) for me in (0, 2)], "left": left}


def _in(seconds: float) -> float:
    return time.monotonic() + seconds


def tell() -> None:
    (FOLDER / f"{RANK}.json").write_text(json.dumps(told))


def main() -> None:
    if RANK != 0:
        os.close(RANK_0_LIVES[1])
    os.environ["RANK"] = str(RANK)
    if RANK == 0:
        stores_without_a_network()
    alone = barrier(recorder, LONG)
    told["alone"] = list(alone)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=LONG))
    store: Any = job_store(dist)
    tell_where(store, RANK, 41, "forward")

    met("first", LONG)
    recorder.begin_step()
    met("second", LONG)
    recorder.end_step()
    told["phases of the step"] = sorted(recorder.take_steps(1, all_of_them=True)[0][4])

    if RANK == 2:
        stay_away_until(store, "third", [0, 1])
        met("third", LONG)
    else:
        met("third", SHORT)
        store.set(f"third/{RANK}", "past")
    told["metrics after the third"] = recorder.metrics.text()
    total = torch.ones(1)
    dist.all_reduce(total)
    told["the group still works"] = total.item()

    met("fourth", LONG)
    told["metrics after the fourth"] = recorder.metrics.text()
    old = store.check([f"trilens/barrier/0/2/{RANK}"])
    told["keys of past barriers"] = old

    if RANK == 1:
        stay_away_until(store, "fifth", [0, 2])
        met("fifth", LONG, monitored=False)
    else:
        met("fifth", SHORT, monitored=False)
        store.set(f"fifth/{RANK}", "past")

    if RANK == 1:
        stay_away_until(store, "sixth", [0, 2])
    else:
        store.set(f"sixth/{RANK}", "about to wait")
    met("sixth", LONG)

    pair = dist.new_group([0, 2])
    met("pair", LONG, group=pair)
    met("before raising", LONG)
    if RANK == 2:
        stay_away_until(store, "raising", [0, 1])
        met("raising", LONG)
    else:
        try:
            barrier(recorder, SHORT, raise_missing=True)
        except RanksMissing as error:
            told["raising"] = {"missing": list(error.ranks), "said": str(error)}
        notes()
        store.set(f"raising/{RANK}", "past")
    met("after raising", LONG)

    child = os.fork()
    if not child:
        os._exit(0 if "forked child" in (barrier(recorder, LONG).unknown or "") else 1)
    told["a forked child was refused"] = os.waitpid(child, 0)[1] == 0

    silent = Recorder("off", Identity(rank=RANK, world_size=3), Options(), Guard())
    silent.fall_silent()
    if RANK == 0:  # alone
        told["switched off"] = barrier(silent, LONG, raise_missing=True).unknown

    peers = Peers(recorder)
    peers.look()
    while recorder.clock_offset_us is None or len(peers.whereabouts()) < 3:
        time.sleep(0.01)
    told["clock offset"] = recorder.clock_offset_us
    met("all have told", LONG)
    peers.stop()

    connection = own_connection(store, 3)
    assert connection is not None
    if RANK == 0:
        server = ClockServer(connection, "a machine")
        while not store.check(["measured/1"]):
            server.look()
    elif RANK == 1:
        measured = None
        while measured is None:  # rank 0 gives up who is slow to ask, and is asked again, as Peers does
            measured = measure(connection, "another machine", lambda: now_us() + 5_000_000)
        told["clock"] = measured
        told["clock of the same machine"] = measure(connection, "a machine")
        store.set("measured/1", "")

    dump = dump_collectives({}, RANK, 1 << 20, with_frames=False)
    assert dump is not None
    read = read_flight_recorder(dump)
    told["collectives"] = [f"{one.backend}:{one.operation}" for one in read.entries]
    told["entered"] = max(one.entered for one in standings(read))

    met("before the kill", LONG)
    if RANK == 2:
        tell()
        os.kill(os.getpid(), signal.SIGKILL)
    met("after the kill", SHORT)
    store.set(f"killed/{RANK}", "")
    if RANK == 0:
        stay_away_until(store, "killed", [1])  # the store lives in this process
        tell()
        os._exit(0)  # and dies now, with no goodbye
    os.read(RANK_0_LIVES[0], 1)  # ends when rank 0 is gone
    met("after the store died", LONG)
    tell()
    os._exit(0)


if RANK is not None:
    main()
os.close(RANK_0_LIVES[1])
for _ in range(3):
    os.wait()

"""A preflight as one rank goes through it, together with the others."""

from __future__ import annotations

import datetime
import faulthandler
import os
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trilens.model.errors import PreflightError
from trilens.sdk.distributed.clock import ClockOffset, ClockServer, measure
from trilens.sdk.distributed.peers import machine_id
from trilens.sdk.distributed.preflight.baseline import Baseline, recall, remember
from trilens.sdk.distributed.preflight.facts import find_facts
from trilens.sdk.distributed.preflight.measure import Bench
from trilens.sdk.distributed.preflight.report import RankResult, Report, judge, node_results, summary_of
from trilens.sdk.distributed.process_group import job_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trilens.sdk.distributed.preflight.facts import RankFacts
    from trilens.sdk.distributed.preflight.measure import AllReduce, Link
    from trilens.sdk.identity import Identity

_MEETING_S: Final = 120.0  # for all ranks to come up
_SPARE_S: Final = 60.0  # beyond the time for measuring, until a rank that hangs gives up


def is_rank(identity: Identity, environ: Mapping[str, str]) -> bool:
    """Whether a launcher started this process as one of several that can find each other."""
    return "MASTER_ADDR" in environ and ("RANK" in environ or identity.launcher in ("slurm", "mpi"))


def go_through(
    identity: Identity,
    environ: Mapping[str, str],
    *,
    limit_s: float,
    compare: bool,
    folder: Path | None,
) -> Report | None:
    """On rank 0 the report, on the others None. `folder` is where machines remember; None: nowhere."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        raise PreflightError("a preflight needs PyTorch", hint="install torch, as your job has it") from error
    stage = _Stage(limit_s + _MEETING_S + _SPARE_S, identity.rank)
    try:
        stage.enter("waiting for the other ranks")
        dist.init_process_group(
            "gloo",
            rank=identity.rank,
            world_size=identity.world_size,
            timeout=datetime.timedelta(seconds=_MEETING_S + limit_s),
        )
        own = find_facts(identity, environ, machine_id())
        return _together(torch, own, limit_s, stage, compare=compare, folder=folder)
    except RuntimeError as error:
        raise PreflightError(f"rank {identity.rank}, {stage.name}: {error}") from error
    finally:
        stage.leave()
        if dist.is_initialized():
            dist.destroy_process_group()


def _together(
    torch: Any,
    own: RankFacts,
    limit_s: float,
    stage: _Stage,
    *,
    compare: bool,
    folder: Path | None,
) -> Report | None:
    dist = torch.distributed
    stage.enter("looking at the machines")
    facts: list[RankFacts] = [own] * dist.get_world_size()
    dist.all_gather_object(facts, own)
    gpu = own.gpu if _each_has_its_own(facts) else None
    device = facts[0].gpu.name if gpu is not None and facts[0].gpu is not None else "cpu"
    backend = "gloo" if gpu is None else "nccl"

    stage.enter("comparing clocks")
    clock = _clock(dist, own.machine)

    deadline_s = time.monotonic() + limit_s
    group = None
    if gpu is not None:
        torch.cuda.set_device(gpu.index)
        group = dist.new_group(backend="nccl", timeout=datetime.timedelta(seconds=limit_s + _SPARE_S))
    bench = Bench(torch, "cpu" if gpu is None else f"cuda:{gpu.index}", group, deadline_s)
    stage.enter("computing")
    flops_per_s = bench.compute()
    all_reduces: list[AllReduce] = []
    links: list[Link] = []
    left_out = 0
    if bench.world_size > 1:
        stage.enter("all-reduce over all ranks")
        all_reduces = bench.all_reduces()
        stage.enter("exchanging with one rank after another")
        links, left_out = bench.links([one.node for one in facts])

    stage.enter("gathering the results")
    baseline = (
        Baseline()
        if folder is None
        else recall(folder, own.node, world_size=bench.world_size, backend=backend, device=device)
    )
    result = RankResult(own, clock, flops_per_s, tuple(links), baseline)
    results: list[RankResult] = [result] * bench.world_size
    dist.all_gather_object(results, result)
    report = Report(
        t_ms=time.time_ns() // 1_000_000,
        world_size=bench.world_size,
        backend=backend,
        device=device,
        nodes=node_results(results),
        all_reduce=tuple(all_reduces),
        links=tuple(sorted(link for one in results for link in one.links)),
        links_left_out=left_out,
        results=tuple(results),
    )
    report = replace(report, findings=judge(report, compare=compare))
    if folder is not None and own.local_rank == 0:
        _remember(folder, own.node, report)
    dist.barrier()  # nobody leaves while another still needs the store
    return report if own.rank == 0 else None


def _each_has_its_own(facts: Sequence[RankFacts]) -> bool:
    """A GPU, that is: NCCL needs one for each rank, and refuses two ranks on one."""
    gpus = [one.gpu for one in facts if one.gpu is not None]
    known = [gpu.uuid for gpu in gpus if gpu.uuid is not None]
    return len(gpus) == len(facts) and len(known) == len(set(known))


def _clock(dist: Any, machine: str) -> ClockOffset | None:
    store = job_store(dist)
    if store is None:
        return None
    rank, others = dist.get_rank(), range(1, dist.get_world_size())
    if rank:
        measured = measure(store, machine)
        store.set(f"trilens/preflight/clock/{rank}", "")
        return measured
    server = ClockServer(store, machine)
    while not store.check([f"trilens/preflight/clock/{other}" for other in others]):
        server.look()
        time.sleep(0.01)
    return ClockOffset(0, 0)


def _remember(folder: Path, node: str, report: Report) -> None:
    try:
        remember(folder, node, summary_of(report))
    except OSError as error:
        print(f"trilens: {node} cannot remember this preflight: {error}", file=sys.stderr)  # noqa: T201


class _Stage:
    """What a rank is doing, so that one that hangs can say where before it ends itself."""

    def __init__(self, limit_s: float, rank: int) -> None:
        self.name = "starting"
        self._rank = rank
        self._timer = threading.Timer(limit_s, self._give_up)
        self._timer.daemon = True
        self._timer.start()

    def enter(self, name: str) -> None:
        self.name = name
        if self._rank == 0:
            print(f"trilens: {name}", file=sys.stderr, flush=True)  # noqa: T201 - a program of its own

    def leave(self) -> None:
        self._timer.cancel()

    def _give_up(self) -> None:
        print(f"trilens: rank {self._rank} hangs: {self.name}", file=sys.stderr, flush=True)  # noqa: T201
        faulthandler.dump_traceback(all_threads=True)
        os._exit(1)

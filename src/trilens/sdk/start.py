"""`trilens.init`: reads who and where this process is, and puts a run together."""

from __future__ import annotations

import os
import sys
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from trilens.sdk import lifetime
from trilens.sdk.background import Background
from trilens.sdk.devices import Devices
from trilens.sdk.exposition import MetricsPort
from trilens.sdk.guard import Guard
from trilens.sdk.identity import Identity, identify
from trilens.sdk.loopback import is_out_of_reach
from trilens.sdk.options import DEFAULT_PORT, DEFAULT_SERVER, read_options
from trilens.sdk.own_metrics import show_own_metrics
from trilens.sdk.plain import plain_facts
from trilens.sdk.process_facts import ProcessFacts, listens_beyond_this_machine, reachable
from trilens.sdk.recorder import Recorder
from trilens.sdk.run import Parts, Run
from trilens.sdk.run_names import RunName, name_run
from trilens.sdk.trackers import TrackerWatch
from trilens.sdk.training_metrics import TrainingMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.sdk.options import Options
    from trilens.sdk.outbox import Outbox


def init(
    experiment: str | None = None,
    *,
    name: str | None = None,
    run_id: str | None = None,
    config: object = None,
    tags: Mapping[str, str] | None = None,
    total_steps: int | None = None,
    server: str | None = None,
    token: str | None = None,
    metrics: bool | str | None = None,
    spool: object = None,
    flops_per_step: float | None = None,
    flops_per_token: float | None = None,
    stall_after: float | None = None,
    enabled: bool | None = None,
) -> Run:
    """Begins a run. Call it once in every rank, before the training loop."""
    guard = Guard()
    options = read_options(
        guard,
        experiment=experiment,
        name=name,
        run_id=run_id,
        server=server,
        token=token,
        metrics=metrics,
        spool=spool,
        stall_after=stall_after,
        enabled=enabled,
    )
    given = Given(config, tags, total_steps, flops_per_step, flops_per_token)
    attached = guard.run("run", _attached_run)
    if attached is not None:
        if _goes_the_same_way(attached, options):
            guard.run("run", _describe, attached, options, given)
            return attached
        attached.finish()
        if options.run_id is None:
            options = options._replace(run_id=attached.id)  # it goes on, told in another way
    if not options.enabled:
        return _silent_run(options, guard)
    return guard.run("run", _begin, options, given, guard) or _silent_run(options, guard)


class Given(NamedTuple):
    """What `init` was told of the training itself."""

    config: object = None
    tags: Mapping[str, str] | None = None
    total_steps: int | None = None
    flops_per_step: float | None = None
    flops_per_token: float | None = None


def latest_run() -> Run | None:
    """The run that began last in this process and has not ended."""
    run = lifetime.latest()
    return run if isinstance(run, Run) else None


def _attached_run() -> Run | None:
    """The run that `trilens run` has begun for this program: from now on the program tells it itself."""
    attach = sys.modules.get("trilens.sdk.attach")
    run: Run | None = None if attach is None else attach.hand_over()
    return run


def _goes_the_same_way(run: Run, options: Options) -> bool:
    """Whether the program has not said, say, another server. What a run is called can be told later."""
    begun = run.recorder.options
    same_names = options._replace(
        experiment=begun.experiment, name=begun.name, total_steps=begun.total_steps, environ=begun.environ
    )
    return options.run_id in (None, run.id) and same_names._replace(run_id=begun.run_id) == begun


def _describe(run: Run, options: Options, given: Given) -> None:
    """What the program says of the run that was begun before it could."""
    guard = run.recorder.guard
    run.recorder.flops_per_step = _positive(given.flops_per_step, "flops_per_step", guard)
    run.recorder.flops_per_token = _positive(given.flops_per_token, "flops_per_token", guard)
    run.describe(
        experiment=options.experiment,
        name=options.name,
        config=given.config,
        tags=given.tags,
        total_steps=given.total_steps,
    )


def _begin(options: Options, given: Given, guard: Guard) -> Run:
    identity = identify(options.environ)
    if options.run_id is not None:
        chosen = RunName(options.run_id)
    else:
        chosen = name_run(identity, options.experiment, options.environ)
    if chosen.doubt is not None and identity.rank == 0:
        guard.say("run id", chosen.doubt)
    recorder = Recorder(chosen.id, identity, options, guard)
    recorder.flops_per_step = _positive(given.flops_per_step, "flops_per_step", guard)
    recorder.flops_per_token = _positive(given.flops_per_token, "flops_per_token", guard)
    job_name = options.name or identity.job_name or options.experiment or chosen.id
    recorder.metrics.set_common({"job_name": job_name, "rank": str(identity.rank)})
    total = None if given.total_steps is None else recorder.whole(given.total_steps, "option")
    total_steps = total or options.total_steps
    shown = TrainingMetrics(recorder, total_steps)
    port = _metrics_port(recorder) if options.metrics else None
    address = reachable(port.address if port else None, identity, options.environ.get("POD_IP"))
    outbox = guard.run("records", _outbox, recorder, _scraped(address, options))
    show_own_metrics(recorder, outbox)
    background = Background(recorder, shown, outbox)
    run = Run(recorder, shown, Parts(background, outbox, port, address))
    if identity.rank == 0:
        recorder.on_tick(TrackerWatch(background.add_facts, options.environ).look)
    recorder.on_tick(Devices(recorder).look)
    background.start(_facts(options, given, identity, total_steps, guard) if identity.rank == 0 else None)
    guard.run("watchdog", _watch_over, recorder, total_steps)
    lifetime.join(run)
    return run


def _silent_run(options: Options, guard: Guard) -> Run:
    """Does nothing, for programs that are told to do without, or for which none could be made."""
    recorder = Recorder(options.run_id or "none", Identity(), options, guard)
    recorder.fall_silent()
    return Run(recorder, TrainingMetrics(recorder, None), None)


def _facts(
    options: Options, given: Given, identity: Identity, total_steps: int | None, guard: Guard
) -> dict[str, Any]:
    return {
        "created_ms": time_ns() // 1_000_000,
        "experiment": options.experiment,
        "name": options.name,
        "config": plain_facts(given.config, guard),
        "tags": {str(key): str(value) for key, value in plain_facts(given.tags, guard).items()},
        "world_size": identity.world_size,
        "total_steps": total_steps,
    }


def _positive(value: object, name: str, guard: Guard) -> float | None:
    if value is None:
        return None
    number = guard.run("option", float, value)  # type: ignore[arg-type]
    if number is None or not 0 < number < float("inf"):
        guard.lost("option", why=f"{name}={value!r:.80} is not a number above zero")
        return None
    return number


def _metrics_port(recorder: Recorder) -> MetricsPort:
    host, _, port = (recorder.options.metrics_listen or "").rpartition(":")
    if not host and not listens_beyond_this_machine(recorder.identity):
        host = "127.0.0.1"
    base = int(port) if port else DEFAULT_PORT
    first = base + recorder.identity.local_rank if base else 0
    return MetricsPort(recorder.metrics.text, host.strip("[]"), first, recorder.guard)


def _scraped(address: str | None, options: Options) -> str | None:
    """What the server is told to scrape: it would take an address of loopback for its own machine."""
    if address is None or is_out_of_reach(address, options.server or DEFAULT_SERVER):
        return None
    return address


def _outbox(recorder: Recorder, metrics_address: str | None) -> Outbox:
    from trilens.sdk.outbox import Header
    from trilens.sdk.outbox import Outbox as SpoolingOutbox

    header = Header(run=recorder.run_id, rank=recorder.rank, writer=os.urandom(16).hex())
    facts = ProcessFacts(recorder, metrics_address)
    return SpoolingOutbox(recorder.options, header, recorder.guard, facts.process, facts.state)


def _watch_over(recorder: Recorder, total_steps: int | None) -> None:
    from trilens.sdk.distributed.watch import watch_over

    watch_over(recorder, total_steps=total_steps)

"""A run as the program sees it: what `trilens.init()` returns."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from trilens.sdk import lifetime
from trilens.sdk.blocks import PhaseBlock, StepBlock
from trilens.sdk.guard import describe
from trilens.sdk.moments import Checkpoint, Moments, Validation
from trilens.sdk.options import as_label
from trilens.sdk.plain import plain_facts
from trilens.sdk.values import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from trilens.sdk.background import Background, Outbox
    from trilens.sdk.distributed.meeting import Missing
    from trilens.sdk.exposition import MetricsPort
    from trilens.sdk.recorder import Recorder
    from trilens.sdk.training_metrics import TrainingMetrics

T = TypeVar("T")

MOST_PHASES: Final = 100
_OTHER: Final = "other"
_LAST_VALUES_S: Final = 1.0  # the device is given so long to compute what was logged last


class Parts(NamedTuple):
    """What works behind a run."""

    background: Background
    outbox: Outbox | None
    port: MetricsPort | None
    address: str | None  # of the port, as others reach it


class Run:
    """One training, as this process does it, made by `trilens.init`. Nothing raises into the program."""

    def __init__(self, recorder: Recorder, metrics: TrainingMetrics, parts: Parts | None) -> None:
        """Without `parts` it is silent: everything can be called, nothing happens."""
        self.recorder = recorder
        self._metrics = metrics
        self._parts = parts
        self._step = StepBlock(recorder)
        self._phases: dict[str, PhaseBlock] = {}
        self._moments = Moments(recorder, metrics)
        self._is_finished = parts is None

    @property
    def id(self) -> str:
        return self.recorder.run_id

    @property
    def last_sign_ns(self) -> int:
        """When the last step ended, by the monotonic clock; 0 before the first."""
        return self.recorder.last_step_ended_ns or 0

    @property
    def metrics_address(self) -> str | None:
        """host:port of this process's /metrics."""
        return self._parts.address if self._parts is not None else None

    def step(
        self, number: int | None = None, *, samples: int | None = None, tokens: int | None = None
    ) -> StepBlock:
        """A block that is one step; its number is that of the step before plus one, unless given."""
        block = self._step
        block.number = number
        block.samples = samples
        block.tokens = tokens
        return block

    def phase(self, name: str) -> PhaseBlock:
        """A block whose time is that phase's, in the step in progress (between steps: in the next)."""
        try:
            return self._phases[name]
        except (KeyError, TypeError):
            return self._new_phase(name)

    def log(self, values: Mapping[str, object] | None = None, /, **named: object) -> None:
        """Numbers, or tensors with one element, of the step in progress. A tensor is not read back here."""
        if values is not None:
            self.recorder.log(values)
        if named:
            self.recorder.keep(named)

    def data(self, loader: Iterable[T], *, dataset: str | None = None) -> Iterable[T]:
        """The loader's batches, unchanged; the wait for each is timed, its samples are remembered."""
        if self.recorder.silent:
            return loader
        followed = self.recorder.guard.run("data", _follow, self.recorder, loader, dataset)
        return loader if followed is None else followed

    def batch(
        self,
        *,
        ids: object = None,
        dataset: str = "",
        shard: str | None = None,
        epoch: int | None = None,
        size: int | None = None,
    ) -> None:
        """Which samples the step sees, where `data` cannot know."""
        if self.recorder.silent:
            return
        self.recorder.guard.run("batch", _add_batch, self.recorder, ids, dataset, shard, epoch, size)

    def checkpoint(self, path: object, step: int | None = None) -> Checkpoint:
        """A checkpoint was written; as a `with` block around the writing, it is timed and may fail."""
        moment = Checkpoint(self.recorder, path, self._step_or_last(step))
        self._moments.add(moment)
        return moment

    def resumed(self, step: int, path: object = "") -> None:
        """The program goes on from a checkpoint of `step`: the next step is the one after it."""
        at = self._step_or_last(step)
        self.recorder.resume_at(at + 1)
        loaded = Checkpoint(self.recorder, path, at, loaded=True)
        self._moments.add(loaded)
        self.recorder.note("resumed", f"resumed after step {at}", step=at, data={"path": loaded.path})

    def validation(
        self, values: Mapping[str, object] | None = None, /, step: int | None = None, **named: object
    ) -> Validation:
        """Results on data that was held back; as a `with` block it is timed, with `log` inside."""
        moment = Validation(self.recorder, self._step_or_last(step))
        if values is not None or named:
            moment.log(values, **named)
        self._moments.add(moment)
        return moment

    def describe(
        self,
        *,
        experiment: str | None = None,
        name: str | None = None,
        config: object = None,
        tags: Mapping[str, str] | None = None,
        total_steps: int | None = None,
    ) -> None:
        """What was not known at `init`. `config` and `tags` are added to those that are there."""
        if self._parts is None:
            return
        guard = self.recorder.guard
        total = None if total_steps is None else self.recorder.whole(total_steps, "option")
        more = {
            "experiment": None if experiment is None else guard.run("option", as_label, experiment),
            "name": None if name is None else guard.run("option", as_label, name),
            "config": plain_facts(config, guard),
            "tags": {key: str(value) for key, value in plain_facts(tags, guard).items()},
            "total_steps": total,
        }
        if total is not None:
            self._metrics.set_total_steps(total)
        guard.run("facts", self._parts.background.add_facts, more)

    def watch(self, model: object, optimizer: object = None, **options: Any) -> None:
        """PyTorch: forward, backward, gradient sync and optimizer are found by hooks."""
        if not self.recorder.silent:
            self.recorder.guard.run("watch", _watch, self.recorder, model, optimizer, options)

    def barrier(
        self,
        timeout: float | None = None,
        *,
        group: Any | None = None,
        monitored: bool = True,
        raise_missing: bool = False,
    ) -> Missing:
        """Waits for all ranks, at most `timeout` seconds, and returns those that did not come."""
        from trilens.sdk.distributed.meeting import barrier

        return barrier(self.recorder, timeout, group=group, monitored=monitored, raise_missing=raise_missing)

    def export_to(self, registry: object = None) -> None:
        """Shows the same metrics through prometheus_client: in its REGISTRY, unless another is given."""
        if not self.recorder.silent:
            self.recorder.guard.run("metrics", _export_to, self.recorder, registry)

    def finish(self, *, error: str | None = None) -> None:
        """Sends what is left. Called at the end of the program by itself."""
        if self._is_finished:
            return
        self._is_finished = True
        lifetime.leave(self)
        if self._parts is not None:
            self.recorder.guard.run("finish", self._finish, self._parts, error)

    def leave_to_parent(self) -> None:
        """In a forked child, which has none of the threads: it stays silent, the parent tells."""
        self._is_finished = True
        self.recorder.guard.leave_to_parent()
        self.recorder.metrics.renew_locks()
        self.recorder.fall_silent()
        if self._parts is not None and self._parts.port is not None:
            self._parts.port.abandon()

    def __reduce__(self) -> tuple[Callable[[], Run], tuple[()]]:
        """A copy, in a worker that a dataset was sent to, is silent: this process tells."""
        return _silent_copy, ()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left_well = error is None or (isinstance(error, SystemExit) and error.code in (None, 0))
        self.finish(error=None if left_well or error is None else describe(error))

    def _finish(self, parts: Parts, error: str | None) -> None:
        recorder = self.recorder
        recorder.run_finish_calls()
        recorder.settle_all(_LAST_VALUES_S)
        self._moments.tell_all()
        how = "finished" if error is None else "failed"
        parts.background.stop({"t_ms": time_ns() // 1_000_000, "how": how, "error": error})
        recorder.fall_silent(lambda: recorder.guard.lost("step", why="the run is finished"))
        if parts.outbox is not None:
            parts.outbox.close(recorder.options.close_s)
        if parts.port is not None:
            parts.port.close()

    def _new_phase(self, name: object) -> PhaseBlock:
        """A program that makes up names (one for each step, say) gets one phase for all that are too many."""
        text = str(self.recorder.guard.run("phase name", str, name) or _OTHER)[:LONGEST_NAME]
        if name == "" or not isinstance(name, str):
            self.recorder.guard.lost(
                "phase name", why=f"{text!r:.80} is told for one that is no text, or empty"
            )
        if text not in self._phases and len(self._phases) >= MOST_PHASES:
            self.recorder.guard.lost(
                "phase name", why=f"more than {MOST_PHASES}; the others are one, {_OTHER!r}"
            )
            text = _OTHER
        if text not in self._phases:
            self._phases[text] = PhaseBlock(self.recorder, text)
        return self._phases[text]

    def _step_or_last(self, step: int | None) -> int:
        if step is not None:
            return self.recorder.step_number(step)
        return self.recorder.step or 0


# What is loaded only by the programs that use it.


def _silent_copy() -> Run:
    from trilens.sdk.start import init

    return init(enabled=False)


def _follow(recorder: Recorder, loader: Iterable[T], dataset: str | None) -> Iterable[T]:
    from trilens.sdk.data import follow

    return follow(recorder, loader, dataset)


def _add_batch(
    recorder: Recorder, ids: object, dataset: str, shard: str | None, epoch: int | None, size: int | None
) -> None:
    from trilens.sdk.data import told_batch

    recorder.add_batch(
        told_batch(
            ids,
            dataset,
            shard,
            None if epoch is None else recorder.whole(epoch, "epoch"),
            None if size is None else recorder.whole(size),
        )
    )


def _export_to(recorder: Recorder, registry: object) -> None:
    from trilens.sdk.prometheus_registry import export_to

    export_to(recorder, registry)


def _watch(recorder: Recorder, model: object, optimizer: object, options: dict[str, Any]) -> None:
    from trilens.sdk.pytorch import watch

    watch(recorder, model, optimizer, **options)

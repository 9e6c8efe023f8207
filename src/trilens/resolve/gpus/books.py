"""GPUs and who holds them as intervals, kept through short silences and over a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.model.gpu import HELD_BEFORE_SEEN, BindingInterval, ClaimSource, GpuInterval
from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from trilens.model.gpu import Gpu, GpuBinding, GpuKey
    from trilens.model.workload import GpuUuid, PodKey

QUIET_MS: Final = (
    5 * 60_000
)  # an exporter that restarts, or misses a scrape or two, does not end a GPU's time
REMEMBERED_MS: Final = 30 * 86_400_000  # for so long a GPU that is gone can be named as the one that is lost

_SILENT: Final = Doubt(
    "gpu-silent", "this GPU reports nothing now: the holder is the one that was last told, and is still there"
)

_GUESSED: Final = Doubt(
    HELD_BEFORE_SEEN,
    "nobody saw who held this GPU then: its pod ran already, and has it since",
    "let dcgm-exporter or the agent tell which pod has which GPU",
)
_GIVEN: Final = frozenset((ClaimSource.KUBELET, ClaimSource.DCGM))

_Seat = tuple["GpuKey", "PodKey", str]
# Since when the containers of a pod run, on a machine that was known then; None where nobody tells.
RunningSince = Callable[["PodKey"], int | None]


def _nobody_tells(pod: PodKey) -> int | None:
    del pod
    return None


class GpuSink(Protocol):
    """Keeps what happened: told again with the same beginning, an interval replaces what was told before."""

    def gpu(self, interval: GpuInterval) -> None: ...

    def binding(self, interval: BindingInterval) -> None: ...


class SilentGpu(NamedTuple):
    gpu: Gpu
    seen_ms: int  # when it last reported


class GpuBook:
    """Which GPUs there are, and which there were."""

    def __init__(self, sink: GpuSink) -> None:
        self._sink = sink
        self._open: dict[GpuKey, GpuInterval] = {}
        self._seen_ms: dict[GpuKey, int] = {}
        self._gone: dict[GpuKey, SilentGpu] = {}
        self._reporting: Mapping[GpuKey, Gpu] = {}
        self._energy: Mapping[GpuUuid, float] = {}

    def restore(self, intervals: Iterable[GpuInterval], at_ms: int) -> None:
        """The latest of each GPU. When an open one last reported is not known: it has its time to report."""
        for interval in intervals:
            key = interval.gpu.key
            if interval.to_ms is None:
                self._open[key], self._seen_ms[key] = interval, at_ms
            else:
                self._gone[key] = SilentGpu(interval.gpu, interval.to_ms)

    def update(
        self, reporting: Mapping[GpuKey, Gpu], at_ms: int, energy: Mapping[GpuUuid, float] | None = None
    ) -> None:
        """`energy` is what each has used since its driver was loaded: a GPU that is reset begins anew."""
        if energy is not None:
            self._begin_anew(energy, at_ms)
        if reporting is not self._reporting:
            for key, gpu in reporting.items():
                self._gone.pop(key, None)
                self._report(gpu, at_ms)
        self._reporting = reporting
        self._seen_ms.update(dict.fromkeys(reporting, at_ms))
        for key in [key for key in self._open if at_ms - self._seen_ms[key] > QUIET_MS]:
            known, seen_ms = self._open.pop(key), self._seen_ms.pop(key)
            self._sink.gpu(known._replace(to_ms=max(seen_ms, known.from_ms)))
            self._gone[key] = SilentGpu(known.gpu, seen_ms)
        for key in [key for key, gone in self._gone.items() if at_ms - gone.seen_ms > REMEMBERED_MS]:
            del self._gone[key]
        if len(self._energy) > 2 * (len(self._open) + len(self._gone)):
            known_uuids = {key.uuid for key in (*self._open, *self._gone)}
            self._energy = {uuid: used for uuid, used in self._energy.items() if uuid in known_uuids}

    def _begin_anew(self, energy: Mapping[GpuUuid, float], at_ms: int) -> None:
        before = self._energy
        self._energy = {**before, **energy}
        # Two reporters may be half a minute apart: what is less than half is another count.
        anew = {uuid for uuid, used in energy.items() if used < before.get(uuid, 0.0) / 2}
        if not anew:
            return
        for key, known in [*self._open.items()]:
            if key.uuid in anew and at_ms > known.from_ms:
                self._sink.gpu(known._replace(to_ms=at_ms))
                self._tell(known._replace(from_ms=at_ms))

    def silent(self) -> Iterator[SilentGpu]:
        """Those that reported and do not now, the latest first."""
        quiet = [
            SilentGpu(interval.gpu, self._seen_ms[key])
            for key, interval in self._open.items()
            if key not in self._reporting
        ]
        yield from sorted([*quiet, *self._gone.values()], key=lambda silent: -silent.seen_ms)

    def _report(self, gpu: Gpu, at_ms: int) -> None:
        known = self._open.get(gpu.key)
        if known is None:
            self._tell(GpuInterval(gpu, at_ms, None))
            return
        if known.gpu == gpu or known.gpu == (gpu := _with_what_was_known(gpu, known.gpu)):
            return
        if _with_what_was_known(known.gpu, gpu) != gpu:  # it moved, or was divided anew
            self._sink.gpu(known._replace(to_ms=max(self._seen_ms[gpu.key], known.from_ms)))
            self._tell(GpuInterval(gpu, max(at_ms, known.from_ms), None))
            return
        if (known.gpu.cluster, known.gpu.node) != (gpu.cluster, gpu.node):
            # It was there all the time, and now it is known where that is.
            self._sink.gpu(known._replace(to_ms=known.from_ms))
        self._tell(known._replace(gpu=gpu))

    def _tell(self, interval: GpuInterval) -> None:
        self._open[interval.gpu.key] = interval
        self._sink.gpu(interval)


def _with_what_was_known(gpu: Gpu, known: Gpu) -> Gpu:
    """A reporter may leave out what another has told before, which does not make it untrue."""
    # Before its cluster was read through, a node is only a host's name.
    place = known if known.cluster and not gpu.cluster else gpu
    return replace(
        gpu,
        cluster=place.cluster,
        node=place.node or known.node,
        index=gpu.index or known.index,
        model=gpu.model or known.model,
        profile=gpu.profile or known.profile,
    )


class BindingBook:
    """Who holds which GPU, since when.

    A binding is seen a scrape and a look after it came about; those that are older than Trilens, when it
    begins. So a new one counts since the containers of its pod run: a device is given to a pod for its whole
    life. It does not count over time in which another is known to have held the GPU.
    """

    def __init__(self, sink: GpuSink) -> None:
        self._sink = sink
        self._open: dict[_Seat, BindingInterval] = {}
        self._freed_ms: dict[GpuKey, int] = {}  # when the last one that has ended did
        self._looked_ms: int | None = None  # until then those that are open were seen

    def restore(self, intervals: Iterable[BindingInterval], freed_ms: Mapping[GpuKey, int]) -> None:
        self._freed_ms.update(freed_ms)
        for interval in intervals:
            if interval.to_ms is None:
                self._open[_seat(interval.binding)] = interval

    @property
    def open(self) -> Collection[BindingInterval]:
        return self._open.values()

    def unchanged(self, at_ms: int) -> None:
        """They were looked at, and are as they were."""
        self._looked_ms = at_ms

    def update(
        self,
        bindings: Iterable[GpuBinding],
        reporting: Collection[GpuKey],
        there: Collection[PodKey],
        settled: Collection[str],
        at_ms: int,
        running_since: RunningSince = _nobody_tells,
    ) -> None:
        """`there` are the pods that have not ended, `settled` the clusters of which that is known.

        Nobody tells who holds a GPU that reports nothing, so its holder stays for as long as it is there
        itself, unless another one came. That also ends what was held in a cluster that goes by another name
        now, or is not watched any more.
        """
        now = {_seat(binding): binding for binding in bindings}
        taken = {binding.gpu for binding in now.values()}
        begins = self._begins(now, at_ms, running_since)
        for seat, binding in now.items():
            self._hold(seat, binding, begins.get(seat, at_ms), at_ms)
        given_up: dict[GpuKey, int] = {}
        for (key, _, _), begin_ms in begins.items():
            given_up[key] = min(begin_ms, given_up.get(key, at_ms))
        for seat in [seat for seat in self._open if seat not in now]:
            key, pod, _ = seat
            if pod.cluster not in settled and key not in taken:
                continue
            known = self._open[seat]
            if pod in there and key not in reporting and key not in taken:
                if _SILENT not in known.binding.doubts:
                    doubted = replace(known.binding, doubts=(*known.binding.doubts, _SILENT))
                    self._tell(seat, known._replace(binding=doubted))
                continue
            del self._open[seat]
            self._end(known, given_up.get(key, at_ms))
        self._looked_ms = at_ms
        for key in [key for key, freed_ms in self._freed_ms.items() if freed_ms < at_ms - REMEMBERED_MS]:
            if key not in reporting:  # machines come and go, and instances are cut anew
                del self._freed_ms[key]

    def _begins(
        self, now: Mapping[_Seat, GpuBinding], at_ms: int, running_since: RunningSince
    ) -> dict[_Seat, int]:
        """Since when those that are new hold their GPUs, where that is before now."""
        new = [seat for seat in now if seat not in self._open]
        if not new:
            return {}
        others: dict[GpuKey, int] = {}  # until when others are known to have held it
        for seat, known in self._open.items():
            seen_ms = at_ms if seat in now else max(known.from_ms, self._looked_ms or 0)
            others[seat[0]] = max(seen_ms, others.get(seat[0], 0))
        found: dict[_Seat, int] = {}
        for seat in new:
            key, pod, _ = seat
            since_ms = running_since(pod)
            held_ms = max(self._freed_ms.get(key, 0), others.get(key, 0))
            if since_ms is None or (held_ms and not _is_given_for_life(now[seat])):
                continue  # what is not given for life may have changed hands, if it was in any
            if max(since_ms, held_ms) < at_ms:
                found[seat] = max(since_ms, held_ms)
        return found

    def _hold(self, seat: _Seat, binding: GpuBinding, begin_ms: int, at_ms: int) -> None:
        known = self._open.get(seat)
        if known is None:
            if begin_ms < at_ms and not _is_given_for_life(binding):
                guess = replace(binding, doubts=(*binding.doubts, _GUESSED))
                self._sink.binding(BindingInterval(guess, begin_ms, at_ms))
                begin_ms = at_ms
            self._tell(seat, BindingInterval(binding, begin_ms, None))
        elif known.binding is binding or known.binding == binding:
            return
        elif _is_the_same(known.binding, binding):
            self._tell(seat, known._replace(binding=binding))
        else:
            self._end(known, at_ms)
            self._tell(seat, BindingInterval(binding, max(at_ms, known.from_ms), None))

    def _end(self, known: BindingInterval, at_ms: int) -> None:
        end_ms = max(at_ms, known.from_ms)
        self._sink.binding(known._replace(to_ms=end_ms))
        key = known.binding.gpu
        self._freed_ms[key] = max(end_ms, self._freed_ms.get(key, 0))

    def _tell(self, seat: _Seat, interval: BindingInterval) -> None:
        self._open[seat] = interval
        self._sink.binding(interval)


def _is_given_for_life(binding: GpuBinding) -> bool:
    """A device of a container's own, that the kubelet gave out. How many shared one, or had a process on it,
    before anybody looked, nobody knows."""
    is_own = binding.share == 1 or binding.gpu.instance != ""
    return is_own and not _GIVEN.isdisjoint(binding.sources)


def _seat(binding: GpuBinding) -> _Seat:
    return binding.gpu, binding.pod, binding.container


def _is_the_same(known: GpuBinding, new: GpuBinding) -> bool:
    """But for what is known of it: sources and doubts come and go, and a rank may be learnt later."""
    return known.share == new.share and known.rank in (None, new.rank)

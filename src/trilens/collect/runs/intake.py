"""Takes batches of records in: each once, in the order of its writer, many writers' to disk together."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.collect.cluster_bound import own_cluster
from trilens.collect.runs.records import add_records, facts_of, grown, process_of, with_state
from trilens.collect.runs.standing import Standing
from trilens.collect.runs.wire import ProcessTold, read_lines, unpacked
from trilens.model.errors import Forbidden, RunIntakeBusy, StoreError
from trilens.model.run import Ending, RunFacts, RunId, WriterId
from trilens.model.run_commit import Position, RunCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from trilens.collect.runs.sink import RunSink
    from trilens.collect.runs.wire import BatchLine, Reading
    from trilens.model.errors import RunRecordsError
    from trilens.model.run import RankProcess

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0  # how often it is looked for who is lost
_GATHER_S: Final = 0.05  # what comes together is written together,
_GATHER_LONGEST_S: Final = 1.0  # and more so when many send
_RANKS_A_SECOND: Final = 200  # requests that a core has time for beside everything else
_SHORTEST_INTERVAL_S: Final = 2.0
_LONGEST_INTERVAL_S: Final = 30.0
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024  # unpacked
_MAX_WAITING_BYTES: Final = 128 * 1024 * 1024  # of requests that are not on disk yet
_KEPT_AFTER_S: Final = 900.0  # in memory, after a run or an earlier life of one of its ranks was last heard
_LOOK_BACK_MS: Final = 86_400_000  # at a start, for those that lived when the server went


@dataclass(slots=True)
class RunIntakeStats:
    """Counted since start."""

    steps: int = 0
    taken: int = 0  # batches
    repeated: int = 0
    refused: int = 0
    forbidden: int = 0  # requests whose token is for another cluster


class Taken(NamedTuple):
    seq: int | None  # of the writer's batches, all up to this one are on disk; None when none is
    interval_s: float  # how often it should send from now on


class Receipt(NamedTuple):
    """`taken` is there when all that could be read is on disk; `refusal` is why the rest could not."""

    taken: Future[Taken]
    refusal: RunRecordsError | None


class _Group:
    """What is written together."""

    def __init__(self) -> None:
        self.commit = RunCommit()
        self.done: Future[None] = Future()
        self.writers: dict[tuple[RunId, int, WriterId], _Writer] = {}
        self.facts: dict[RunId, RunFacts] = {}
        self.standings: list[Standing] = []
        self.size_bytes = 0


class _Writer:
    __slots__ = ("group", "heard_s", "kept", "standing", "taken")

    def __init__(self, position: Position, now_s: float, standing: Standing | None = None) -> None:
        self.kept = position  # on disk
        self.taken = position  # with what waits
        self.group: _Group | None = None  # that holds the difference
        self.heard_s = now_s
        self.standing = standing

    @property
    def is_needed(self) -> bool:
        """Something of it is not on disk, or may change without a word from it."""
        standing = self.standing
        return self.group is not None or (standing is not None and (standing.is_alive or standing.is_unsaved))


class _Run:
    def __init__(self, now_s: float, *, has_facts: bool) -> None:
        self.writers: dict[tuple[int, WriterId], _Writer] = {}
        self.left: set[tuple[int, WriterId]] = set()  # known to the sink, and here no more
        self.has_facts = has_facts
        self.facts_kept = has_facts  # on disk
        self.heard_s = now_s
        self.clusters: set[str] = set()  # that its processes are in, as far as that was said
        self._attempts: dict[int, int] = {}  # how many each rank has had

    def add(self, position: Position, now_s: float) -> _Writer:
        writer = self.writers[position.rank, position.writer] = _Writer(position, now_s)
        self._attempts[position.rank] = max(position.attempt + 1, self.next_attempt(position.rank))
        return writer

    def has_process_in(self, cluster: str | None) -> None:
        if cluster is not None:
            self.clusters.add(cluster)

    def next_attempt(self, rank: int) -> int:
        return self._attempts.get(rank, 0)

    def let_go_of_earlier(self, before_s: float) -> None:
        """Lives that are over and written, of ranks that have had another since: a run that crashes and
        starts again for weeks has thousands."""
        for key, writer in [*self.writers.items()]:
            is_earlier = writer.kept.attempt + 1 < self.next_attempt(writer.kept.rank)
            if is_earlier and writer.heard_s < before_s and not writer.is_needed:
                del self.writers[key]
                self.left.add(key)


class RunIntake:
    """Thread-safe. `take` waits for no disk but to learn of a run it has not met since its start, and of
    earlier lives of one that it has let go of."""

    def __init__(
        self,
        sink: RunSink,
        *,
        on_kept: Callable[[RunCommit], None] | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        time_s: Callable[[], float] = time.time,
    ) -> None:
        self._sink = sink
        self._on_kept = on_kept  # what is on disk, to be told on; must not wait
        self._clock_s = clock_s
        self._time_s = time_s
        self._runs: dict[RunId, _Run] = {}
        self._group = _Group()
        self._waiting_bytes = 0
        self._alive = 0
        self._looked_s = clock_s()
        self._change = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="runs-intake", daemon=True)
        self.stats = RunIntakeStats()

    def start(self) -> None:
        with self._change:
            for process in self._sink.unfinished(self._now_ms() - _LOOK_BACK_MS):
                self._run(process.run)
        self._thread.start()

    def stop(self) -> None:
        """Writes what waits, and how every process stands. Safe to call twice."""
        with self._change:
            self._closing = True
            self._change.notify()
        if self._thread.is_alive():
            self._thread.join()

    def receive(
        self,
        body: bytes,
        encoding: str,
        *,
        for_dead: bool = False,
        clusters: frozenset[str] | None = None,
    ) -> Receipt:
        """`read` and `take` of somebody whose word is believed."""
        return self.take(self.read(body, encoding), for_dead=for_dead, clusters=clusters)

    def read(self, body: bytes, encoding: str) -> Reading:
        """What can be taken, with the addresses that were told as they were told."""
        reading = read_lines(unpacked(body, encoding.strip().lower(), _MAX_BODY_BYTES))
        if not reading.lines:
            self.stats.refused += 1
            raise reading.refusal or AssertionError("nothing was read, and nothing was wrong")
        return reading

    def take(
        self, reading: Reading, *, for_dead: bool = False, clusters: frozenset[str] | None = None
    ) -> Receipt:
        """`for_dead`: sent by another process than the one it is of. `clusters` are those that the sender may
        tell of, None all of them; Forbidden means that nothing was taken."""
        with self._change:
            if self._closing:
                raise RunIntakeBusy("the server is stopping")
            if self._waiting_bytes > _MAX_WAITING_BYTES:
                raise RunIntakeBusy("more records wait to be written than there is space for")
            if clusters is not None:
                self._bind(reading.lines, clusters)
            writer = self._take(reading.lines, for_dead, reading.size_bytes)
            group = writer.group
        if reading.refusal is not None:
            self.stats.refused += 1
        taken: Future[Taken] = Future()

        def answer(done: Future[None]) -> None:
            if not taken.set_running_or_notify_cancel():
                return  # whoever sent it did not wait
            if error := done.exception():
                taken.set_exception(error)
            else:
                seq = writer.kept.seq
                taken.set_result(Taken(seq if seq >= 0 else None, self.interval_s))

        if group is not None:
            group.done.add_done_callback(answer)
        else:
            on_disk: Future[None] = Future()
            on_disk.set_result(None)
            answer(on_disk)
        return Receipt(taken, reading.refusal)

    @property
    def interval_s(self) -> float:
        """How often a process should send, so that all of them together are not too many."""
        return min(max(_SHORTEST_INTERVAL_S, self._alive / _RANKS_A_SECOND), _LONGEST_INTERVAL_S)

    @property
    def alive(self) -> int:
        """Processes, as of the last look."""
        return self._alive

    @property
    def waiting_bytes(self) -> int:
        """Of requests that are not on disk yet."""
        return self._waiting_bytes

    def processes(self) -> list[RankProcess]:
        """Those that were heard lately, also those that have ended since."""
        with self._change:
            return [standing.process for standing in self._standings()]

    def _bind(self, lines: list[BatchLine], clusters: frozenset[str]) -> None:
        """A process that names no cluster is in the sender's, where that has just one."""
        first = lines[0]
        run_id, key = RunId(first.run), (first.rank, WriterId(first.writer))
        run = self._run(run_id)
        if first.process is None and self._writer(run_id, run, key) is None:
            first.process = ProcessTold(started_ms=first.t_ms)
        try:
            for cluster in sorted(run.clusters):
                own_cluster(cluster, clusters)
            for told in (line.process for line in lines):
                if told is not None:
                    told.cluster = own_cluster(told.cluster or "", clusters)
        except Forbidden:
            self.stats.forbidden += 1
            raise

    def _take(self, lines: list[BatchLine], for_dead: bool, size_bytes: int) -> _Writer:
        first = lines[0]
        run_id, key = RunId(first.run), (first.rank, WriterId(first.writer))
        run = self._run(run_id)
        run.heard_s = self._clock_s()
        writer = self._writer(run_id, run, key)
        if writer is None:
            writer = run.add(Position(run_id, *key, run.next_attempt(first.rank)), run.heard_s)
        writer.heard_s = run.heard_s
        group = self._group
        was_empty = not group.writers
        for line in lines:
            if line.seq is not None and line.seq <= writer.taken.seq:
                self.stats.repeated += 1  # and still a sign of life
            elif line.seq is not None:
                self._add(line, line.seq, run, writer)
            self._stand(line, run, writer, for_dead)
        if writer.group is group:
            group.size_bytes += size_bytes
            self._waiting_bytes += size_bytes
            if was_empty:
                self._change.notify()
        return writer

    def _add(self, line: BatchLine, seq: int, run: _Run, writer: _Writer) -> None:
        group = self._group
        at = writer.taken
        steps = add_records(line, at.attempt, group.commit)
        writer.taken = at._replace(seq=seq, spans=grown(at.spans, steps))
        writer.group = group
        group.writers[at.run, at.rank, at.writer] = writer
        if (facts := facts_of(line)) is not None:
            group.facts[at.run] = facts
        elif not run.has_facts:  # its lowest rank has not told of it yet
            started_ms = line.process.started_ms if line.process is not None else line.t_ms
            group.facts.setdefault(at.run, RunFacts(at.run, started_ms))
        run.has_facts = True
        self.stats.taken += 1
        self.stats.steps += len(steps)

    def _stand(self, line: BatchLine, run: _Run, writer: _Writer, for_dead: bool) -> None:
        now_s, now_ms = self._clock_s(), self._now_ms()
        standing = writer.standing
        process = process_of(line, writer.taken.attempt, standing.process if standing is not None else None)
        if line.state is not None:
            process = with_state(process, line.state)
        if standing is None:
            standing = writer.standing = Standing(process, now_s, is_saved=False)
        if for_dead:
            standing.told_by_another(process, min(line.t_ms, now_ms))
        else:
            standing.heard(process, now_s, now_ms, line.t_ms)
        if line.process is not None:
            standing.is_unsaved = True
            run.has_process_in(process.cluster)
        if line.end is not None:
            standing.ended(Ending(line.end.how), line.end.t_ms, line.end.error)
        self._sink.heard(standing.process)

    def _run(self, run_id: RunId) -> _Run:
        """From the sink, where it was not met since the start, or long ago."""
        run = self._runs.get(run_id)
        if run is not None:
            return run
        run = _Run(self._clock_s(), has_facts=bool(self._sink.runs(run=run_id)))
        self._learn(run_id, run)
        self._runs[run_id] = run
        return run

    def _writer(self, run_id: RunId, run: _Run, key: tuple[int, WriterId]) -> _Writer | None:
        """None where it is new: one that was let go of is read again, or it would be taken in twice."""
        if key in run.left:
            # All of them at once: who was away for long sends what each life has left.
            self._learn(run_id, run, only=frozenset(run.left))
            run.left.clear()
        return run.writers.get(key)

    def _learn(self, run_id: RunId, run: _Run, only: Collection[tuple[int, WriterId]] | None = None) -> None:
        now_s = self._clock_s()
        for at in self._sink.positions(run_id):
            if only is None or (at.rank, at.writer) in only:
                run.add(at, now_s)
        for process in self._sink.processes([run_id]):
            key = (process.rank, process.writer)
            if only is None or key in only:
                writer = run.writers.get(key) or run.add(Position(run_id, *key, process.attempt), now_s)
                writer.standing = Standing(process, now_s, is_saved=True)
                run.has_process_in(process.cluster)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._group.writers or self._closing, timeout=_LOOK_S)
                closing = self._closing
                if self._group.writers and not closing:
                    self._change.wait_for(lambda: self._closing, timeout=self._gather_s)
            self.settle(everyone=closing)
            if closing and not self._group.writers:
                return

    def settle(self, *, everyone: bool = False) -> None:
        """Looks who is lost, and writes what waits: what the thread does again and again. For whoever has a
        clock of its own, and no thread."""
        with self._change:
            self._look()
            group = self._closed_group()
            self._add_standings(group, everyone=everyone)
        self._write(group)

    @property
    def _gather_s(self) -> float:
        return min(_GATHER_S + self._alive / _RANKS_A_SECOND, _GATHER_LONGEST_S)

    def _look(self) -> None:
        now_s = self._clock_s()
        if now_s < self._looked_s + _LOOK_S:
            return
        self._looked_s = now_s
        for standing in self._standings():
            if standing.look(now_s):
                self._sink.heard(standing.process)
        self._alive = sum(standing.is_alive for standing in self._standings())
        for run_id, run in [*self._runs.items()]:
            idle = now_s > run.heard_s + _KEPT_AFTER_S
            if idle and not any(writer.is_needed for writer in run.writers.values()):
                del self._runs[run_id]
            else:
                run.let_go_of_earlier(now_s - _KEPT_AFTER_S)

    def _add_standings(self, group: _Group, *, everyone: bool) -> None:
        now_s = self._clock_s()
        for standing in self._standings():
            if standing.is_due_to_be_saved(now_s) or (everyone and standing.is_alive):
                group.standings.append(standing)
                group.commit.processes.append(standing.process)
                standing.saved(now_s)  # what changes while it is written is of the next group

    def _standings(self) -> list[Standing]:
        return [
            writer.standing
            for run in self._runs.values()
            for writer in run.writers.values()
            if writer.standing is not None
        ]

    def _closed_group(self) -> _Group:
        """What waits now; what comes later is of the next one."""
        group, self._group = self._group, _Group()
        group.commit.facts += group.facts.values()
        group.commit.positions += (writer.taken for writer in group.writers.values())
        group.commit.before += (writer.kept for writer in group.writers.values())
        return group

    def _write(self, group: _Group) -> None:
        commit = group.commit
        if not (commit.positions or commit.processes):
            return
        try:
            self._sink.commit(commit)
        except StoreError as e:
            log.warning("records of runs are not written; their senders keep them", extra={"error": str(e)})
            self._drop(group, e)
            return
        except Exception:
            log.exception("records of runs cannot be written, in a way that was not foreseen")
            self._drop(group, StoreError("the records could not be written; the server's log says why"))
            return
        with self._change:
            self._waiting_bytes -= group.size_bytes
            for position, writer in zip(commit.positions, group.writers.values(), strict=True):
                writer.kept = position
                if writer.group is group:
                    writer.group = None
            for run_id in group.facts:
                self._runs[run_id].facts_kept = True
        group.done.set_result(None)
        self._tell_on(commit)

    def _tell_on(self, commit: RunCommit) -> None:
        if self._on_kept is None:
            return
        try:
            self._on_kept(commit)
        except Exception:  # what is on disk is on disk, and the next group must get there too
            log.exception("records of runs are kept, but cannot be told on")

    def _drop(self, failed: _Group, error: StoreError) -> None:
        """With what was taken meanwhile, some of which follows it: all is sent again, in its order."""
        with self._change:
            dropped = (failed, self._closed_group())
            for group in dropped:
                self._waiting_bytes -= group.size_bytes
                for writer in group.writers.values():
                    writer.taken = writer.kept
                    writer.group = None
                for standing in group.standings:
                    standing.is_unsaved = True
                for run_id in group.facts:
                    self._runs[run_id].has_facts = self._runs[run_id].facts_kept
        for group in dropped:
            group.done.set_exception(error)

    def _now_ms(self) -> int:
        return int(self._time_s() * 1000)

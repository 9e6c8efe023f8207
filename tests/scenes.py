"""Scenes for the tests of detectors: a training job that goes its calm way, until a test changes something.

    story = Story(ranks=8, step_s=2.0, seed=1)
    story.stop(at_s=900, ranks=[3])                     # its steps end there; it still sends heartbeats
    story.level(Figure.POWER, 110, from_s=900)          # watts, with the usual noise
    findings = story.findings(Hang(), from_s=880, to_s=960)      # [(at_s, Finding), ...]

Whatever there is can be changed before scenes are asked for: `story.steps[rank]` and `story.figures[figure]`
are whole columns over the story's length, `story.events` a list, `story.change` has the last word on a scene.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.detect.scene import (
    Figure,
    JobView,
    NodeView,
    Place,
    PodView,
    RankView,
    Scene,
    Steps,
    Telemetry,
    ToldBy,
)
from trilens.model.life import Phase
from trilens.model.run import NoteRecord, RankProcess, RunFacts, RunId, WriterId
from trilens.model.workload import GpuUuid, PodKey, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from trilens.detect.detector import Detector
    from trilens.model.event import EventRecord
    from trilens.model.finding import Finding
    from trilens.model.run import Ending

START_MS: Final = 1_700_000_000_000  # past: a store takes no samples of the future
EVERY_S: Final = 5  # between scenes, and between columns of telemetry
WINDOW_S: Final = 1200
KEPT_STEPS: Final = 512  # of a rank in a scene

MODEL: Final = "NVIDIA H100 80GB HBM3"
BUSY: Final[dict[Figure, tuple[float, float]]] = {  # a GPU that trains: mean and noise
    Figure.UTILIZATION: (0.97, 0.01),
    Figure.POWER: (620.0, 15.0),
    Figure.SM: (0.80, 0.02),
    Figure.TENSOR: (0.45, 0.02),
    Figure.NVLINK: (80e9, 4e9),
    Figure.PCIE: (4e9, 4e8),
    Figure.TEMPERATURE: (64.0, 0.7),
    Figure.SM_CLOCK: (1.95e9, 1e7),
    Figure.MEMORY_USED: (0.82, 0.0005),
    Figure.CLOCK_REASONS: (0.0, 0.0),
    Figure.XID: (0.0, 0.0),
    Figure.ROW_REMAP_PENDING: (0.0, 0.0),
}
IDLE: Final[dict[Figure, tuple[float, float]]] = {  # one on which nothing runs
    Figure.UTILIZATION: (0.0, 0.0),
    Figure.POWER: (72.0, 1.0),
    Figure.SM: (0.0, 0.0),
    Figure.TENSOR: (0.0, 0.0),
    Figure.NVLINK: (0.0, 0.0),
    Figure.PCIE: (1e5, 2e4),
    Figure.TEMPERATURE: (34.0, 0.3),
    Figure.SM_CLOCK: (3.45e8, 0.0),
    Figure.MEMORY_USED: (0.82, 0.0),
    Figure.CLOCK_REASONS: (1.0, 0.0),
    Figure.XID: (0.0, 0.0),
    Figure.ROW_REMAP_PENDING: (0.0, 0.0),
}
HUNG: Final[dict[Figure, tuple[float, float]]] = {  # one that waits in a collective for ever
    **BUSY,
    Figure.UTILIZATION: (1.0, 0.0),
    Figure.POWER: (118.0, 2.0),
    Figure.SM: (0.02, 0.002),
    Figure.TENSOR: (0.0, 0.0),
    Figure.NVLINK: (1e3, 100.0),
    Figure.PCIE: (1e5, 2e4),
    Figure.TEMPERATURE: (41.0, 0.3),
}


@dataclass
class StepColumns:
    """All steps of a rank over the whole story; times in seconds of it."""

    step: NDArray[np.int64]
    end_s: NDArray[np.float64]
    s: NDArray[np.float64]
    data_s: NDArray[np.float64]
    sync_s: NDArray[np.float64]
    loss: NDArray[np.float64]
    grad_norm: NDArray[np.float64]

    def keep(self, mask: NDArray[np.bool_]) -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name)[mask])

    def pause(self, at_s: float, for_s: float) -> None:
        """The first step that ends after `at_s` takes so much longer, and all later ones are that later."""
        later = self.end_s > at_s
        self.end_s[later] += for_s
        if later.any():
            self.s[np.argmax(later)] += for_s

    def until(self, now_s: float) -> Steps:
        stop = int(np.searchsorted(self.end_s, now_s, side="right"))
        cut = slice(max(stop - KEPT_STEPS, 0), stop)
        return Steps(
            step=self.step[cut],
            end_ms=(START_MS + np.rint(self.end_s[cut] * 1000)).astype(np.int64),
            ms=self.s[cut] * 1000,
            data_ms=self.data_s[cut] * 1000,
            sync_ms=self.sync_s[cut] * 1000,
            loss=self.loss[cut],
            grad_norm=self.grad_norm[cut],
        )


@dataclass
class _Span:
    rank: int
    from_s: float
    to_s: float
    what: str


@dataclass
class Story:
    """`seconds` of one job. The same seed gives the same story."""

    ranks: int = 8
    step_s: float = 2.0
    seconds: int = 1800
    noise: float = 0.02  # of the length of a step, as a share of it
    seed: int = 0
    gpus_per_node: int = 8
    telemetry_every_s: int = EVERY_S  # 30: one column in six is filled
    lag_s: float = 1.0  # until what a rank tells has arrived
    name: str = "llm"
    told_by: ToldBy = ToldBy.RECORDS
    total_steps: int | None = None
    serves: bool = False
    steps: list[StepColumns] = field(init=False)
    figures: dict[Figure, NDArray[np.float32]] = field(init=False)
    places: list[Place] = field(init=False)
    events: list[EventRecord] = field(default_factory=list)
    notes: list[NoteRecord] = field(default_factory=list)
    change: Callable[[Scene], Scene] = field(default=lambda scene: scene)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self.workload = WorkloadKey("c1", "ml", "kubeflow.org", "PyTorchJob", self.name, f"uid-{self.name}")
        self.run = RunFacts(
            RunId(f"run-{self.name}"), START_MS, world_size=self.ranks, total_steps=self.total_steps
        )
        self.steps = [self._steps_of(rank) for rank in range(self.ranks)]
        self.places = [self._place(rank) for rank in range(self.ranks)]
        self.times_s = np.arange(0, self.seconds + 1, EVERY_S)
        self.figures = {
            figure: np.full((self.ranks, len(self.times_s)), np.nan, np.float32) for figure in Figure
        }
        for figure, (mean, noise) in BUSY.items():
            self.level(figure, mean, noise=noise)
        self._doing: list[_Span] = []
        self._silent_s = dict.fromkeys(range(self.ranks), float("inf"))
        self._endings: dict[int, tuple[float, Ending, str | None]] = {}
        self._phases: list[tuple[float, Phase]] = [(0.0, Phase.RUNNING)]
        self._pods: list[tuple[float, int, PodView]] = []
        self._nodes: list[tuple[float, str, bool | None]] = []

    # What can happen to it.

    def stop(self, at_s: float, ranks: Sequence[int] | None = None) -> None:
        """No step ends after that; heartbeats go on."""
        for rank in self._chosen(ranks):
            columns = self.steps[rank]
            columns.keep(columns.end_s <= at_s)

    def pause(self, at_s: float, for_s: float, *, doing: str | None = None) -> None:
        """All ranks together; `doing` is what they announce meanwhile."""
        for rank, columns in enumerate(self.steps):
            columns.pause(at_s, for_s)
            if doing is not None:
                self._doing.append(_Span(rank, at_s, at_s + for_s, doing))

    def says(self, rank: int, what: str, from_s: float, to_s: float = float("inf")) -> None:
        """What the rank says that it is in the middle of."""
        self._doing.append(_Span(rank, from_s, to_s, what))

    def note(self, rank: int, kind: str, at_s: float, /, text: str = "", **data: object) -> None:
        t_ms = _ms(at_s)
        self.notes.append(
            NoteRecord(self.run.run, rank, 0, len(self.notes), t_ms, kind, text or kind, None, data)
        )

    def silence(self, rank: int, at_s: float) -> None:
        """Nothing is heard of it any more, nor of its steps."""
        self._silent_s[rank] = at_s
        self.stop(at_s, [rank])

    def end(self, rank: int, at_s: float, ending: Ending, error: str | None = None) -> None:
        """Its process ends, or is taken for lost, at that time."""
        self._endings[rank] = (at_s, ending, error)
        self.stop(at_s, [rank])

    def phase(self, phase: Phase, at_s: float) -> None:
        self._phases.append((at_s, phase))

    def pod(self, number: int, at_s: float, **changes: object) -> None:
        """PodView's fields from then on: state="Failed", reason="OOMKilled", exit_code=137, ..."""
        view = replace_pod(self._pod_at(number, at_s), {"changed_ms": _ms(at_s), **changes})
        self._pods.append((at_s, number, view))

    def node_ready(self, node: str, at_s: float, is_ready: bool | None) -> None:
        self._nodes.append((at_s, node, is_ready))

    def level(
        self,
        figure: Figure,
        value: float,
        *,
        rows: Sequence[int] | None = None,
        from_s: float = 0,
        to_s: float = float("inf"),
        noise: float | None = None,
    ) -> None:
        """What these GPUs say during that time; with the noise of a busy one where none is given."""
        spread = BUSY[figure][1] if noise is None else noise
        columns = np.flatnonzero((self.times_s >= from_s) & (self.times_s < to_s))
        columns = columns[self.times_s[columns] % self.telemetry_every_s == 0]
        chosen = self._chosen(rows)
        drawn = value + spread * self._random.standard_normal((len(chosen), len(columns)))
        if figure in (Figure.UTILIZATION, Figure.SM, Figure.TENSOR, Figure.MEMORY_USED):
            drawn = drawn.clip(0, 1)
        self.figures[figure][np.ix_(chosen, columns)] = drawn

    def state(
        self,
        levels: dict[Figure, tuple[float, float]],
        *,
        rows: Sequence[int] | None = None,
        from_s: float = 0,
        to_s: float = float("inf"),
    ) -> None:
        """BUSY, IDLE or HUNG: all figures at once."""
        for figure, (mean, noise) in levels.items():
            self.level(figure, mean, rows=rows, from_s=from_s, to_s=to_s, noise=noise)

    def gap(self, from_s: float, to_s: float, rows: Sequence[int] | None = None) -> None:
        """These GPUs say nothing."""
        columns = (self.times_s >= from_s) & (self.times_s < to_s)
        for values in self.figures.values():
            values[np.ix_(self._chosen(rows), columns)] = np.nan

    # What is seen of it.

    def scene(self, at_s: float) -> Scene:
        now_ms = _ms(at_s)
        stop = int(np.searchsorted(self.times_s, at_s, side="right"))
        cut = slice(max(stop - WINDOW_S // EVERY_S, 0), stop)
        telemetry = Telemetry(
            self.places,
            START_MS + self.times_s[cut].astype(np.int64) * 1000,
            {figure: values[:, cut] for figure, values in self.figures.items()},
        )
        phase_s, phase = max((one for one in self._phases if one[0] <= at_s), key=lambda one: one[0])
        job = JobView(
            self.workload,
            "research",
            0,
            phase,
            _ms(phase_s),
            self.serves,
            self.run,
            [] if self.serves else [self._rank_view(rank, at_s) for rank in range(self.ranks)],
            range(self.ranks),
            [self._pod_at(number, at_s) for number in range(len(self.nodes))],
        )
        events = [event for event in self.events if now_ms - WINDOW_S * 1000 < event.t_ms <= now_ms]
        nodes = [NodeView("c1", node, self._ready(node, at_s), rack="r1") for node in self.nodes]
        return self.change(Scene(now_ms, telemetry, [job], nodes, events))

    def scenes(self, from_s: float, to_s: float, every_s: float = EVERY_S) -> Iterator[Scene]:
        at_s = from_s
        while at_s <= to_s:
            yield self.scene(at_s)
            at_s += every_s

    def findings(
        self, detector: Detector, from_s: float, to_s: float, every_s: float = EVERY_S
    ) -> list[tuple[float, Finding]]:
        """With the second at which each was found, those that go on again and again."""
        return [
            ((scene.now_ms - START_MS) / 1000, finding)
            for scene in self.scenes(from_s, to_s, every_s)
            for finding in detector.look(scene)
        ]

    @property
    def nodes(self) -> list[str]:
        return [f"node-{number}" for number in range(-(-self.ranks // self.gpus_per_node))]

    def _chosen(self, ranks: Sequence[int] | None) -> list[int]:
        return list(range(self.ranks) if ranks is None else ranks)

    def _steps_of(self, rank: int) -> StepColumns:
        """Synchronous training: a step is equally long on all ranks; who is faster waits."""
        count = int(self.seconds / self.step_s) + 1
        shared = np.random.default_rng([self.seed, 0x57E9])
        own = np.random.default_rng([self.seed, rank])
        s = self.step_s * (1 + self.noise * np.abs(shared.standard_normal(count)))
        data_s = self.step_s * (0.03 + 0.005 * own.random(count))
        sync_s = self.step_s * (0.10 + 0.02 * own.random(count))
        steps = np.arange(count)
        loss = 2 + 8 * np.exp(-steps / 300) + 0.05 * shared.standard_normal(count)
        grad_norm = 1.2 + 0.1 * shared.standard_normal(count)
        return StepColumns(steps, np.cumsum(s), s, data_s, sync_s, loss, grad_norm)

    def _place(self, rank: int) -> Place:
        node = self.nodes[rank // self.gpus_per_node]
        number = str(rank % self.gpus_per_node)
        uuid = GpuUuid(f"GPU-{self.name}-{rank}")
        return Place(uuid, "", "c1", node, number, MODEL, self.workload, self._pod_key(rank), rank)

    def _pod_key(self, rank: int) -> PodKey:
        number = rank // self.gpus_per_node
        return PodKey("c1", "ml", f"{self.name}-worker-{number}", f"pod-{self.name}-{number}")

    def _pod_at(self, number: int, at_s: float) -> PodView:
        known = [view for since_s, which, view in self._pods if which == number and since_s <= at_s]
        first = number * self.gpus_per_node
        return (
            known[-1] if known else PodView(self._pod_key(first), self.nodes[number], "Running", "", None, 0)
        )

    def _ready(self, node: str, at_s: float) -> bool | None:
        known = [is_ready for since_s, which, is_ready in self._nodes if which == node and since_s <= at_s]
        return known[-1] if known else True

    def _rank_view(self, rank: int, at_s: float) -> RankView:
        heard_s = min(at_s, self._silent_s[rank])
        steps = self.steps[rank].until(min(at_s - self.lag_s, self._silent_s[rank]))
        ended_s, ending, error = self._endings.get(rank, (float("inf"), None, None))
        if at_s >= ended_s:
            heard_s = min(heard_s, ended_s)
        else:
            ending = error = None
        doing = [span for span in self._doing if span.rank == rank and span.from_s <= at_s < span.to_s]
        has_ended = ending is not None
        process = RankProcess(
            self.run.run,
            rank,
            WriterId(f"{rank:032x}"),
            START_MS,
            local_rank=rank % self.gpus_per_node,
            world_size=self.ranks,
            node=self.nodes[rank // self.gpus_per_node],
            pid=1000 + rank,
            namespace="ml",
            pod=self._pod_key(rank).name,
            gpus=(f"GPU-{self.name}-{rank}",),
            heard_ms=_ms(heard_s),
            step=int(steps.step[-1]) if len(steps) else None,
            phase=doing[-1].what if doing and not has_ended else None,
            ended_ms=_ms(ended_s) if has_ended else None,
            ending=ending,
            error=error,
        )
        now_ms = _ms(at_s)
        return RankView(
            rank,
            self.told_by,
            steps,
            _ms(heard_s),
            process if self.told_by is ToldBy.RECORDS else None,
            doing[-1].what if doing and not has_ended else None,
            _ms(doing[-1].from_s) if doing and not has_ended else None,
            [note for note in self.notes if note.rank == rank and note.t_ms <= now_ms],
            rank,
        )


def replace_pod(view: PodView, changes: dict[str, object]) -> PodView:
    return view._replace(**changes)  # type: ignore[arg-type]


def joined(*scenes: Scene) -> Scene:
    """Several stories as one fleet at one moment; rows are numbered anew."""
    first = scenes[0]
    places = [place for scene in scenes for place in scene.telemetry.places]
    figures = {
        figure: np.concatenate([scene.telemetry.figures[figure] for scene in scenes])
        for figure in first.telemetry.figures
    }
    jobs, before = [], 0
    for scene in scenes:
        for job in scene.jobs:
            ranks = [replace(rank, row=None if rank.row is None else rank.row + before) for rank in job.ranks]
            jobs.append(replace(job, ranks=ranks, rows=[row + before for row in job.rows]))
        before += len(scene.telemetry.places)
    return Scene(
        first.now_ms,
        Telemetry(places, first.telemetry.times_ms, figures),
        jobs,
        [node for scene in scenes for node in scene.nodes],
        [event for scene in scenes for event in scene.events],
    )


def _ms(at_s: float) -> int:
    return START_MS + round(at_s * 1000)

"""How a training job goes: steps and their phases on each rank, loss, checkpoints. All closed form.

Between two changes (a rank becomes slow, the job hangs) a step takes the same time, so the step at any
moment, and the moment of any step, are divisions; a change closes one stretch and opens the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.simulate.bank import FREE, Load
from trilens.simulate.gpu_noise import LEVELS, STEPS
from trilens.simulate.truth import StepRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.model.series import Floats
    from trilens.simulate.scenario import Training

PHASES: Final = ("data", "forward", "backward", "grad_sync", "optimizer")
_NEVER: Final = math.inf
_RECOVERS_STEPS: Final = 6.0  # after a bad batch, the loss comes down again by a factor of e in so many
_FORGOTTEN_STEPS: Final = 60  # and nothing is left of it
_EARLY: Final = 0.2  # of a step: by so much steps end before their turn, so that none ends after it
_SYNC_AT_LEAST: Final = 0.3  # of what a collective takes, however late the last rank comes
_SHAKEN_KEPT: Final = 512  # steps: all ranks tell of them within seconds
_GROWS_STEPS: Final = 50  # in so many steps the loss of a run that diverges grows by its factor,
_GROWS_TO: Final = 200.0  # and not further than that
_BLOCKS: Final = 16  # of a collective's kernel: one for each channel


class Phases(NamedTuple):
    """Seconds of one step, by rank; all ranks take the same in all."""

    data: Floats
    forward: Floats
    backward: Floats
    grad_sync: Floats
    optimizer: Floats

    @property
    def step_s(self) -> float:
        return float(sum(part[0] for part in self))


class Stretch(NamedTuple):
    """A time in which every step takes the same."""

    from_s: float
    first_step: float  # fractional
    phases: Phases
    step_s: float  # infinite while it hangs
    checkpoints_fail: bool
    hung_by: int | None  # the rank for which all others wait


class Step(NamedTuple):
    """`end_s` less `start_s` is more than its phases where it hung meanwhile."""

    number: int
    start_s: float
    end_s: float
    phases: Phases


class Checkpoint(NamedTuple):
    step: int
    from_s: float
    to_s: float
    ok: bool


class Stall(NamedTuple):
    """Steps stopped: since the end of `step`, until the end of the next one, if there was one."""

    step: int
    since_s: float
    hung_by: int
    until_s: float | None


class Diverging(NamedTuple):
    from_step: int
    factor: float  # the loss grows by, in 50 steps


class Flat(NamedTuple):
    """The loss stays where it is; from `to_step` on it falls as it would have then."""

    from_step: int
    to_step: int | None


class BadBatch(NamedTuple):
    """What one rank is given in one step, whenever that step is done, and that spoils the weights."""

    rank: int
    factor: float  # the loss jumps by


@dataclass(slots=True)
class Trouble:
    """What holds a job up now."""

    slow: dict[int, float] = field(default_factory=dict)  # by rank: computes so many times longer
    hot: frozenset[int] = frozenset()  # ranks on GPUs that are too hot
    data: float = 1.0  # loading takes so many times longer
    hung_by: int | None = None  # the rank that does not come to the collective
    hung_in: str = "backward"  # where that one is
    all_hang: bool = False  # all of them are there
    mute: frozenset[int] = frozenset()  # ranks whose processes say nothing
    dead: frozenset[int] = frozenset()  # ranks whose processes are gone, and nobody has noticed
    pause: str | None = None  # all ranks do this instead of steps
    on_cpu: float = 1.0  # computes so many times longer, beside its GPUs
    checkpoints_fail: bool = False
    nan_from_step: int | None = None
    diverging: Diverging | None = None
    flat: Flat | None = None


class TrainingRun:
    """One attempt of one job."""

    def __init__(
        self,
        spec: Training,
        ranks: int,
        first_step: int,
        at_s: float,
        *,
        world_start_ms: int,
        seed: int,
        bad_batches: Mapping[int, BadBatch] | None = None,
    ) -> None:
        """`at_s`, like all seconds here, counts from the beginning of the world. `bad_batches`, by step, are
        the job's: more may come, and the next attempt meets them again."""
        self._world_start_ms = world_start_ms
        self.spec = spec
        self.ranks = ranks
        self.seed = seed
        self.first_step = first_step
        self.started_s = at_s
        self.trouble = Trouble()
        self._bad_batches = {} if bad_batches is None else bad_batches
        drawn = np.random.default_rng([seed, 7]).normal(1, spec.spread, ranks)
        self._pace = drawn.clip(1 - 5 * spec.spread, 1 + 5 * spec.spread)
        self._shaken: dict[tuple[int, int], Phases] = {}  # by stretch and step
        self.stretches: list[Stretch] = [self._stretch(at_s, float(first_step))]
        self.ended_s: float | None = None
        self._saved = first_step  # by what stretches before this one wrote
        self._saved_s: float | None = None  # when that was begun, in this attempt
        self._written = 0
        self._failed_writes = 0
        self._phase_s: dict[str, Floats] = {name: np.zeros(ranks) for name in PHASES}

    # Changes

    def change(self, at_s: float) -> None:
        """`trouble` has become another."""
        last = self.stretches[-1]
        step = self.step_at(at_s)
        new, saved = self._checkpoints(last, at_s)
        if last.checkpoints_fail:
            self._failed_writes += new
        else:
            self._written += new
            self._saved = max(self._saved, saved)
            self._saved_s = self._begun_s(last, new) if new else self._saved_s
        steps = step - last.first_step
        for name in PHASES:
            self._phase_s[name] = self._phase_s[name] + steps * getattr(last.phases, name)
        self.stretches.append(self._stretch(at_s, step))

    def stop(self, at_s: float) -> None:
        self.change(at_s)
        self.ended_s = at_s

    # What can be asked

    def step_at(self, t_s: float) -> float:
        stretch = self.stretches[-1]
        if self.ended_s is not None:
            return stretch.first_step
        return self._step(stretch, t_s)

    def time_of(self, step: float) -> float:
        """When this step will be reached if nothing changes."""
        stretch = self.stretches[-1]
        if stretch.step_s == _NEVER:
            return _NEVER
        every = self.spec.checkpoint_every
        saves = step // every - stretch.first_step // every
        return stretch.from_s + (step - stretch.first_step) * stretch.step_s + saves * self.spec.checkpoint

    def last_step_s(self, t_s: float) -> float:
        """When the last whole step ended."""
        step = math.floor(self.step_at(t_s))
        if step <= self.first_step:
            return self.started_s
        for stretch in reversed(self.stretches):
            if stretch.first_step <= step and stretch.step_s != _NEVER:
                every = self.spec.checkpoint_every
                # Written right after a step that is a multiple: not yet when that step ends.
                saves = (step - 1) // every - math.floor(stretch.first_step) // every
                took = (step - stretch.first_step) * stretch.step_s + max(0, saves) * self.spec.checkpoint
                return min(t_s, stretch.from_s + took) - self._early_s(step, stretch)
        return self.started_s

    def saved_step(self, t_s: float) -> int:
        """Of the last good checkpoint: where the next attempt takes up."""
        last = self.stretches[-1]
        if last.checkpoints_fail or self.ended_s is not None:
            return self._saved
        return max(self._saved, self._checkpoints(last, t_s)[1])

    def saved_s(self, t_s: float) -> float | None:
        """When the last good checkpoint of this attempt was begun."""
        last = self.stretches[-1]
        new = 0 if last.checkpoints_fail or self.ended_s is not None else self._checkpoints(last, t_s)[0]
        return self._begun_s(last, new) if new else self._saved_s

    def written(self, t_s: float) -> tuple[int, int]:
        """Checkpoints that were written in this attempt, and that failed."""
        last = self.stretches[-1]
        new = 0 if self.ended_s is not None else self._checkpoints(last, t_s)[0]
        if last.checkpoints_fail:
            return self._written, self._failed_writes + new
        return self._written + new, self._failed_writes

    def phase_seconds(self, t_s: float) -> dict[str, Floats]:
        """By phase and rank, over this attempt."""
        last = self.stretches[-1]
        steps = math.floor(self.step_at(t_s)) - last.first_step
        steps = max(0.0, steps)
        return {name: self._phase_s[name] + steps * getattr(last.phases, name) for name in PHASES}

    def loss(self, step: int) -> float:
        if self._is_nan(step):
            return math.nan
        spec = self.spec
        floor = spec.last_loss * 0.92
        flat = self.trouble.flat
        learnt = step
        if flat is not None and step > flat.from_step and (flat.to_step is None or step <= flat.to_step):
            learnt = flat.from_step
        base: float = floor + (spec.first_loss - floor) * (1 + learnt / 30) ** -0.42
        base *= self._grown(step)
        return base * self._spoilt(step) * (1 + 0.012 * _shake(self.seed, step))

    def loss_on(self, rank: int, step: int) -> float:
        """Each rank sees its own part of the batch, so its own loss."""
        bad = self._bad_batches.get(step)
        jump = bad.factor if bad is not None and bad.rank == rank else 1.0
        return self.loss(step) * jump * (1 + 0.004 * math.sin(rank * 2.4 + step))

    def _is_nan(self, step: int) -> bool:
        return self.trouble.nan_from_step is not None and step >= self.trouble.nan_from_step

    def _grown(self, step: int) -> float:
        diverging = self.trouble.diverging
        if diverging is None or step < diverging.from_step:
            return 1.0
        grown: float = diverging.factor ** ((step - diverging.from_step) / _GROWS_STEPS)
        return min(grown, _GROWS_TO)

    def _spoilt(self, step: int) -> float:
        """What bad batches before this step make of the loss of all ranks."""
        if not self._bad_batches:
            return 1.0
        return 1 + sum(
            (bad.factor - 1) * math.exp((at - step) / _RECOVERS_STEPS)
            for at, bad in self._bad_batches.items()
            if at < step < at + _FORGOTTEN_STEPS
        )

    def gradient_norm(self, step: int) -> float:
        if self._is_nan(step):
            return math.nan
        bad = self._bad_batches.get(step)
        jump = (bad.factor**2 if bad is not None else 1.0) * self._grown(step) ** 2
        return jump * (0.35 + 6 / (1 + step / 60)) * (1 + 0.15 * _shake(self.seed + 1, step))

    def validation_loss(self, step: int) -> float | None:
        """None before the first."""
        checked = step // self.spec.validate_every * self.spec.validate_every
        return self.loss(checked) * 1.04 if checked else None

    def records(self, from_step: int, to_step: int) -> Iterator[StepRecord]:
        """Steps of this attempt after `from_step`, up to `to_step`, of all ranks."""
        for step in self.steps(from_step, to_step):
            end_ms = self._world_start_ms + round(step.end_s * 1000)
            loss = self.loss(step.number)
            for rank in range(self.ranks):
                data, forward, backward, sync, optimizer = (float(part[rank]) for part in step.phases)
                yield StepRecord(step.number, rank, end_ms, data, forward, backward, sync, optimizer, loss)

    def steps(self, from_step: int, to_step: int) -> Iterator[Step]:
        """Each after `from_step`, up to `to_step`, which must be over."""
        for number, stretch, end_s in self.step_ends(from_step, to_step):
            if stretch.first_step > number - 1:
                yield self._step_across(number, end_s)
            elif self.spec.jitter:
                took_s = stretch.step_s + self._early_s(number - 1, stretch) - self._early_s(number, stretch)
                yield Step(number, end_s - took_s, end_s, self._shake_phases(number, stretch, took_s))
            else:
                yield Step(number, end_s - stretch.step_s, end_s, stretch.phases)

    def _early_s(self, step: int, stretch: Stretch) -> float:
        """By how much it ended before its turn: where it ended, and not before it came there."""
        return self._early(step) * min(1.0, step - stretch.first_step) * stretch.step_s

    def _early(self, step: int) -> float:
        """By which share of a step it ended before its turn."""
        jitter = self.spec.jitter
        if not jitter or step <= self.first_step:
            return 0.0
        # A step's length has the noise of its own end and of the one before.
        late = jitter * STEPS.step / math.sqrt(2) * math.sqrt(3) * _shake(self.seed + 2, step)
        if _shake(self.seed + 3, step) > 1 - 2 * STEPS.long_steps:
            late += STEPS.longer_by
        return max(0.0, _EARLY - late)

    def _shake_phases(self, number: int, stretch: Stretch, took_s: float) -> Phases:
        """Each rank computes a little longer or shorter than usual, and so waits for others."""
        key = (len(self.stretches), number)
        found = self._shaken.get(key)
        if found is None:
            if len(self._shaken) >= _SHAKEN_KEPT:
                self._shaken.clear()
            rng = np.random.default_rng([self.seed, number])
            factor = 1 + self.spec.jitter * STEPS.rank * rng.standard_normal(self.ranks).clip(-4, 4)
            data, optimizer = stretch.phases.data, stretch.phases.optimizer
            most = took_s - float(optimizer[0]) - _SYNC_AT_LEAST * self.spec.grad_sync_s - data
            usual = stretch.phases.forward + stretch.phases.backward
            computes = np.minimum(usual * factor, most)
            share = stretch.phases.forward / usual
            if self.ranks == 1:  # it waits for nobody
                computes = took_s - data - optimizer
            sync = took_s - data - computes - optimizer
            found = Phases(data, computes * share, computes * (1 - share), sync, optimizer)
            self._shaken[key] = found
        return found

    def _step_across(self, number: int, end_s: float) -> Step:
        """One that began in another stretch than it ended in: of each it has its share."""
        start_s: float | None = None
        began_in = self.stretches[0]
        phases = [np.zeros(self.ranks) for _ in PHASES]
        ends = [*(following.first_step for following in self.stretches[1:]), _NEVER]
        for stretch, end in zip(self.stretches, ends, strict=True):
            share = min(float(number), end) - max(number - 1.0, stretch.first_step)
            if share <= 0 or stretch.step_s == _NEVER:
                continue
            if start_s is None:
                every = self.spec.checkpoint_every
                saves = max(0, (number - 1) // every - math.floor(stretch.first_step) // every)
                done_s = (number - 1 - stretch.first_step) * stretch.step_s
                start_s = stretch.from_s + done_s + saves * self.spec.checkpoint
                began_in = stretch
            phases = [whole + share * part for whole, part in zip(phases, stretch.phases, strict=True)]
        assert start_s is not None
        start_s -= self._early_s(number - 1, began_in)
        # No phase is longer than there was time for.
        fits = min(1.0, (end_s - start_s) / float(sum(part[0] for part in phases)))
        return Step(number, start_s, end_s, Phases(*(fits * part for part in phases)))

    def checkpoints(self, t_s: float) -> Iterator[Checkpoint]:
        """Those of this attempt that were written until then, or failed."""
        every, takes_s = self.spec.checkpoint_every, self.spec.checkpoint
        ends = [*(following.from_s for following in self.stretches[1:]), t_s]
        for stretch, end_s in zip(self.stretches, ends, strict=True):
            if stretch.from_s == self.ended_s:
                return
            base = int(stretch.first_step // every)
            for turn in range(self._checkpoints(stretch, min(end_s, t_s))[0]):
                step = (base + turn + 1) * every
                from_s = self._begun_s(stretch, turn + 1)
                yield Checkpoint(step, from_s, from_s + takes_s, not stretch.checkpoints_fail)

    def stalls(self) -> Iterator[Stall]:
        """Each time that it hung."""
        before: Stretch | None = None
        for at, stretch in enumerate(self.stretches):
            if stretch.hung_by is not None and (before is None or before.hung_by is None):
                step = math.floor(stretch.first_step)
                # The last one to be over before it hung, and the first after.
                ended = [end_s for _, _, end_s in self.step_ends(step - 1, step)]
                goes_on = any(later.hung_by is None for later in self.stretches[at + 1 :])
                after = [end_s for _, _, end_s in self.step_ends(step, step + 1)] if goes_on else []
                alive = self.ended_s is None or self.step_at(self.ended_s) >= step + 1
                yield Stall(
                    step,
                    ended[0] if ended and step > self.first_step else self.started_s,
                    stretch.hung_by,
                    after[0] if after and alive else None,
                )
            before = stretch

    def phase_at(self, rank: int, t_s: float) -> str | None:
        """What this rank is in the middle of."""
        if self.ended_s is not None:
            return None
        stretch = self.stretches[-1]
        if self.trouble.pause is not None:
            return self.trouble.pause
        if stretch.hung_by is not None:
            is_missing = rank == stretch.hung_by or self.trouble.all_hang
            return self.trouble.hung_in if is_missing else "grad_sync"
        step = self.step_at(t_s)
        if step > stretch.first_step and step % self.spec.checkpoint_every == 0:
            return "checkpoint"
        into_s = step % 1 * stretch.step_s
        for name, part in zip(PHASES, stretch.phases, strict=True):
            into_s -= float(part[rank])
            if into_s < 0:
                return name
        return PHASES[-1]

    def step_ends(self, from_step: int, to_step: int) -> Iterator[tuple[int, Stretch, float]]:
        """Each step after `from_step`, up to `to_step`, with the seconds at which it ended, or will."""
        every = self.spec.checkpoint_every
        ends = [*(following.first_step for following in self.stretches[1:]), _NEVER]
        for stretch, end in zip(self.stretches, ends, strict=True):
            if stretch.step_s == _NEVER:
                continue
            first = max(from_step, math.floor(stretch.first_step)) + 1
            last = to_step if end == _NEVER else min(to_step, math.floor(end))
            for step in range(first, last + 1):
                saves = max(0, (step - 1) // every - math.floor(stretch.first_step) // every)
                at_s = (
                    stretch.from_s
                    + (step - stretch.first_step) * stretch.step_s
                    + saves * self.spec.checkpoint
                )
                yield step, stretch, at_s - self._early_s(step, stretch)

    def load_of(self, rank: int, memory_mib: float, at_s: float) -> Load:
        """How this rank looks from its GPU."""
        fb_mib = 0.86 * memory_mib
        trouble = self.trouble
        waiting = Load(fb_mib=fb_mib, power=LEVELS.context)
        if rank in trouble.dead:
            return FREE
        if trouble.hung_by is not None:
            # Spinning in a collective that never ends; the one that is missing does nothing at all.
            if rank == trouble.hung_by or trouble.all_hang:
                return waiting
            return Load(util=1.0, sm=_BLOCKS * LEVELS.block, power=LEVELS.spinning, fb_mib=fb_mib)
        if trouble.pause == "validation":
            return Load(util=0.99, sm=0.9, tensor=0.45, dram=0.3, power=0.98, fb_mib=fb_mib, pcie=1e8)
        if trouble.pause is not None:
            return waiting
        if trouble.on_cpu > 1:
            return waiting._replace(pcie=2e6)
        phases = self.stretches[-1].phases
        step_s = self.stretches[-1].step_s
        spec = self.spec
        computes = float(phases.forward[rank] + phases.backward[rank] + phases.optimizer[rank]) / step_s
        waits = float(phases.grad_sync[rank]) / step_s
        useful = (spec.forward_s + spec.backward_s) / step_s
        is_hot = rank in trouble.hot
        gap = 0.0
        if rank in trouble.slow and not is_hot:  # its program keeps it waiting: the GPU has holes
            gap = computes * (1 - 1 / trouble.slow[rank])
        every = spec.checkpoint_every * step_s + spec.checkpoint
        step = self.step_at(at_s) % spec.checkpoint_every
        return Load(
            util=min(1.0, computes - gap + waits),
            sm=0.92 * (computes - gap) + 0.6 * waits,
            tensor=0.72 * useful,
            dram=0.52 * useful + 0.05 * waits,
            power=min(1.0, (0.62 if is_hot else 1.06) * (computes - gap) + 0.22 * waits),
            fb_mib=fb_mib,
            link=0.0 if self.ranks == 1 else min(1.0, 0.9 * spec.grad_sync_s / step_s * 4),
            pcie=4e8 * useful + 1e8,
            clock=1 / trouble.slow.get(rank, 1.0) if is_hot else 1.0,
            hot=1.0 if is_hot else 0.0,
            bits=0x60 if is_hot else 0.0,
            pause_every_s=every,
            pause_s=spec.checkpoint,
            pause_from_s=at_s - step * step_s,
        )

    def _stretch(self, at_s: float, step: float) -> Stretch:
        spec, trouble = self.spec, self.trouble
        slow = self._pace * trouble.on_cpu
        for rank, factor in trouble.slow.items():
            slow[rank] *= factor
        everywhere = np.ones(self.ranks)
        data = spec.data_s * trouble.data * everywhere
        forward, backward = spec.forward_s * slow, spec.backward_s * slow
        arrives = data + forward + backward
        last = float(arrives.max())
        sync = spec.grad_sync_s + (last - arrives) if self.ranks > 1 else 0 * everywhere
        phases = Phases(data, forward, backward, sync, spec.optimizer_s * everywhere)
        stands = trouble.hung_by is not None or trouble.pause is not None
        step_s = _NEVER if stands else phases.step_s
        return Stretch(at_s, step, phases, step_s, trouble.checkpoints_fail, trouble.hung_by)

    def _step(self, stretch: Stretch, t_s: float) -> float:
        if stretch.step_s == _NEVER:
            return stretch.first_step
        every = self.spec.checkpoint_every
        cycle = every * stretch.step_s + self.spec.checkpoint
        base, into_step = divmod(stretch.first_step, every)
        turns, into = divmod(max(0.0, t_s - stretch.from_s) + into_step * stretch.step_s, cycle)
        return (base + turns) * every + min(float(every), into / stretch.step_s)

    def _checkpoints(self, stretch: Stretch, t_s: float) -> tuple[int, int]:
        """How many were finished in this stretch until then, and the step of the last."""
        if stretch.step_s == _NEVER:
            return 0, 0
        every = self.spec.checkpoint_every
        cycle = every * stretch.step_s + self.spec.checkpoint
        base, into_step = divmod(stretch.first_step, every)
        turns = int((max(0.0, t_s - stretch.from_s) + into_step * stretch.step_s) // cycle)
        return turns, int((base + turns) * every) if turns else 0

    def _begun_s(self, stretch: Stretch, turns: int) -> float:
        """When the last of so many checkpoints of a stretch was."""
        every = self.spec.checkpoint_every
        step = (stretch.first_step // every + turns) * every
        done_s = (step - stretch.first_step) * stretch.step_s
        return stretch.from_s + done_s + (turns - 1) * self.spec.checkpoint


def _shake(seed: int, step: int) -> float:
    """Repeatable, -1 to 1."""
    x = (seed * 0x9E3779B97F4A7C15 + step * 0xD1B54A32D192ED03) & 0xFFFF_FFFF_FFFF_FFFF
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFF_FFFF_FFFF_FFFF
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & 0xFFFF_FFFF_FFFF_FFFF
    return (x >> 11) * (2.0 / (1 << 53)) - 1

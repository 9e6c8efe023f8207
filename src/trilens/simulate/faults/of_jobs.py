"""What goes wrong with a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.simulate.program_output import collective_timeout, python_failure
from trilens.simulate.training import BadBatch, Diverging, Flat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from trilens.simulate.faults.scene import Scene, Target
    from trilens.simulate.jobs import SimJob
    from trilens.simulate.scenario import Fault
    from trilens.simulate.training import Trouble
    from trilens.simulate.truth import FaultTruth


class _Change(NamedTuple):
    """What comes over a run, and goes again."""

    is_there: Callable[[Trouble], bool]
    begin: Callable[[Trouble], None]
    end: Callable[[Trouble], None]


def _for_a_while(
    scene: Scene, fault: Fault, job: SimJob, change: _Change, target: Target | None = None, detail: str = ""
) -> bool:
    """Let it show, and undo it when it is over, if the run still is. One of a sort at a time."""
    run = job.run
    assert run is not None
    if change.is_there(run.trouble):
        return False
    told = scene.tell(fault.kind, target=target, job=job, detail=detail)
    change.begin(run.trouble)
    run.change(scene.work.t_s)
    scene.work.refresh(job)
    scene.on_attempt[job].append(told)

    def mend() -> None:
        if told.to_ms is None and job.run is run:
            change.end(run.trouble)
            run.change(scene.work.t_s)
            scene.work.refresh(job)
            scene.on_attempt[job].remove(told)
        scene.over(told)

    scene.lasts(told, fault.lasts, mend)
    return True


def thermal(scene: Scene, fault: Fault, chance: Random) -> bool:
    job = scene.training(fault, chance)
    if job is None:
        return False
    rank = scene.rank(fault, job, chance)
    target = scene.gpu_of(job, rank)
    assert target.pod is not None
    ranks = target.pod.ranks if fault.whole_node else (rank,)
    return _slow_ranks(scene, fault, job, ranks, target, hot=True)


def straggler(scene: Scene, fault: Fault, chance: Random) -> bool:
    job = scene.training(fault, chance, ranks=2)
    if job is None:
        return False
    rank = scene.rank(fault, job, chance)
    return _slow_ranks(scene, fault, job, (rank,), scene.gpu_of(job, rank), hot=False)


def _slow_ranks(
    scene: Scene, fault: Fault, job: SimJob, ranks: Sequence[int], target: Target, *, hot: bool
) -> bool:
    def begin(trouble: Trouble) -> None:
        trouble.slow.update(dict.fromkeys(ranks, fault.factor))
        trouble.hot |= set(ranks) if hot else set()

    def end(trouble: Trouble) -> None:
        for rank in ranks:
            trouble.slow.pop(rank)
        trouble.hot -= set(ranks)

    change = _Change(lambda trouble: not trouble.slow.keys().isdisjoint(ranks), begin, end)
    return _for_a_while(scene, fault, job, change, target, _slower(fault))


def slow_data(scene: Scene, fault: Fault, chance: Random) -> bool:
    def begin(trouble: Trouble) -> None:
        trouble.data = fault.factor

    def end(trouble: Trouble) -> None:
        trouble.data = 1.0

    job = scene.training(fault, chance)
    change = _Change(lambda trouble: trouble.data != 1.0, begin, end)
    return job is not None and _for_a_while(scene, fault, job, change, detail=_slower(fault))


def checkpoint_failing(scene: Scene, fault: Fault, chance: Random) -> bool:
    def begin(trouble: Trouble) -> None:
        trouble.checkpoints_fail = True

    def end(trouble: Trouble) -> None:
        trouble.checkpoints_fail = False

    job = scene.training(fault, chance)
    change = _Change(lambda trouble: trouble.checkpoints_fail, begin, end)
    return job is not None and _for_a_while(scene, fault, job, change)


def _slower(fault: Fault) -> str:
    return f"{fault.factor:g} times slower"


def stuck_data(scene: Scene, fault: Fault, chance: Random) -> bool:
    """The storage does not answer: all ranks wait for their data."""

    def begin(trouble: Trouble) -> None:
        trouble.hung_by, trouble.hung_in, trouble.all_hang = 0, "data", True

    job = scene.training(fault, chance)
    change = _Change(_is_hung, begin, _goes_on)
    return job is not None and _for_a_while(scene, fault, job, change)


def gil_held(scene: Scene, fault: Fault, chance: Random) -> bool:
    """C code holds the interpreter of a rank: its process is there, and none of its threads runs."""
    job = scene.training(fault, chance, ranks=2)
    if job is None:
        return False
    rank = scene.rank(fault, job, chance)

    def begin(trouble: Trouble) -> None:
        trouble.hung_by, trouble.mute = rank, trouble.mute | {rank}

    change = _Change(_is_hung, begin, _goes_on)
    return _for_a_while(scene, fault, job, change, scene.gpu_of(job, rank))


def _is_hung(trouble: Trouble) -> bool:
    return trouble.hung_by is not None


def _goes_on(trouble: Trouble) -> None:
    trouble.hung_by, trouble.hung_in, trouble.all_hang = None, "backward", False
    trouble.mute = frozenset()


def process_dead(scene: Scene, fault: Fault, chance: Random) -> bool:
    """A rank is killed, and what started it does not notice: its pod runs on."""
    job = scene.training(fault, chance, ranks=2)
    if job is None or job.run is None:
        return False
    rank = scene.rank(fault, job, chance)
    job.run.trouble.mute |= {rank}
    job.run.trouble.dead |= {rank}
    hang_now(scene, job, rank, scene.tell(fault.kind, target=scene.gpu_of(job, rank)))
    return True


def exception(scene: Scene, fault: Fault, chance: Random) -> bool:
    """A rank raises."""
    job = scene.training(fault, chance)
    if job is None:
        return False
    rank = scene.rank(fault, job, chance)
    target = scene.gpu_of(job, rank)
    told = scene.tell(fault.kind, target=target)
    assert target.pod is not None
    scene.work.fail(target.pod, "Error", 1, fault.kind.value, python_failure(rank))
    scene.over(told)
    return True


def cpu_fallback(scene: Scene, fault: Fault, chance: Random) -> bool:
    """The program goes on without its GPUs."""

    def begin(trouble: Trouble) -> None:
        trouble.on_cpu = fault.factor

    def end(trouble: Trouble) -> None:
        trouble.on_cpu = 1.0

    job = scene.training(fault, chance)
    change = _Change(lambda trouble: trouble.on_cpu != 1.0, begin, end)
    return job is not None and _for_a_while(scene, fault, job, change, detail=_slower(fault))


def diverging(scene: Scene, fault: Fault, chance: Random) -> bool:
    """It stays, as NaN does."""
    job = scene.training(fault, chance)
    if job is None or job.run is None or job.run.trouble.diverging is not None:
        return False
    step = int(job.run.step_at(scene.work.t_s)) + 1
    job.run.trouble.diverging = Diverging(step, fault.factor)
    scene.on_attempt[job].append(scene.tell(fault.kind, job=job, detail=f"from step {step}"))
    return True


def plateau(scene: Scene, fault: Fault, chance: Random) -> bool:
    """Nothing is learnt any more, until the run ends."""
    job = scene.training(fault, chance)
    if job is None or job.run is None or job.run.trouble.flat is not None:
        return False
    step = int(job.run.step_at(scene.work.t_s)) + 1
    job.run.trouble.flat = Flat(step, None)
    scene.on_attempt[job].append(scene.tell(fault.kind, job=job, detail=f"from step {step}"))
    return True


def nan(scene: Scene, fault: Fault, chance: Random) -> bool:
    """It stays: nothing but an earlier checkpoint would mend it."""
    job = scene.training(fault, chance)
    if job is None or job.run is None or job.run.trouble.nan_from_step is not None:
        return False
    step = int(job.run.step_at(scene.work.t_s)) + 1
    job.run.trouble.nan_from_step = step
    told = scene.tell(fault.kind, job=job, detail=f"from step {step}")
    scene.on_attempt[job].append(told)
    return True


def bad_batch(scene: Scene, fault: Fault, chance: Random) -> bool:
    """It lies in the data: who goes back to a checkpoint before it meets it again."""
    job = scene.training(fault, chance)
    if job is None or job.run is None:
        return False
    rank, step = scene.rank(fault, job, chance), int(job.run.step_at(scene.work.t_s)) + 1
    job.bad_batches[step] = BadBatch(rank, fault.factor)
    scene.over(scene.tell(fault.kind, job=job, rank=rank, detail=f"step {step}"))
    return True


def hang(scene: Scene, fault: Fault, chance: Random) -> bool:
    job = scene.training(fault, chance, ranks=2)
    if job is None:
        return False
    rank = scene.rank(fault, job, chance)
    hang_now(scene, job, rank, scene.tell(fault.kind, target=scene.gpu_of(job, rank)))
    return True


def hang_now(scene: Scene, job: SimJob, rank: int, told: FaultTruth) -> None:
    """Until the watchdog of the collectives ends it."""
    run = job.run
    assert run is not None
    run.trouble.hung_by = rank
    run.change(scene.work.t_s)
    scene.work.refresh(job)
    scene.on_attempt[job].append(told)

    def give_up() -> None:
        if job.run is run and run.trouble.hung_by == rank:
            # Those that waited give up, not the one that they waited for.
            waited = next(pod for pod in job.working if rank not in pod.ranks or len(job.working) == 1)
            spokesman = next((one for one in waited.ranks if one != rank), rank)
            step, timeout_s = int(run.step_at(scene.work.t_s)), scene.scenario.collective_timeout
            words = collective_timeout(spokesman, step, timeout_s)
            scene.work.fail(waited, "Error", 134, told.kind, words)

    scene.timeline.after(scene.scenario.collective_timeout, give_up)


def oom_killed(scene: Scene, fault: Fault, chance: Random) -> bool:
    jobs = [job for job in scene.running_jobs(fault) if job.working]
    if not jobs:
        return False
    pod = chance.choice(chance.choice(jobs).working)
    told = scene.tell(
        fault.kind, job=pod.job, machine=pod.machine, rank=pod.plan.first_rank, detail=f"pod {pod.name}"
    )
    scene.work.fail(pod, "OOMKilled", 137, fault.kind.value)
    scene.over(told)
    return True


def image_pull(scene: Scene, fault: Fault, chance: Random) -> bool:
    """Somebody submits a job whose image is not there."""
    templates = [one for one in scene.scenario.jobs if not fault.job or one.name == fault.job]
    if not templates:
        return False
    template = chance.choice(templates)
    told = scene.tell(fault.kind, detail=template.name)
    scene.work.unpullable.add(template.name)
    for machine in scene.machines:
        machine.images.discard(template.image)
    told.job_uid = scene.work.submit(template).top["metadata"]["uid"]

    def mend() -> None:
        scene.work.unpullable.discard(template.name)
        scene.over(told)

    scene.lasts(told, fault.lasts, mend)
    return True


def preemption(scene: Scene, fault: Fault, chance: Random) -> bool:
    jobs = [job for job in scene.running_jobs(fault) if job.queue]
    if not jobs:
        return False
    job = chance.choice(jobs)
    told = scene.tell(fault.kind, job=job)
    scene.work.suspend(job)

    def resume() -> None:
        scene.work.resume(job)
        scene.over(told)

    scene.lasts(told, max(10.0, fault.lasts), resume)
    return True

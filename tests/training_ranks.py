"""Trains the same on two ranks with and without `watch`, in each way of going parallel, and tells what
differed.

Run once: `training_ranks.py FOLDER`; the answer of each rank is FOLDER/RANK.json. The second rank is forked
from the first, because loading PyTorch takes longer than all that the two do.
"""

import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, _runtime_utils, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from recorded_steps import new_recorder, steps_of
from trilens.sdk.pytorch import watch
from trilens.sdk.recorder import Recorder

WORLD, STEPS = 2, 3
Way = Callable[[Recorder | None, int], dict[str, Any]]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(batch)) + 1.0


class Order:
    """In place of a device's clock: what happened, in order."""

    newest: "Order | None" = None

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.grad_sync_began = threading.Event()
        Order.newest = self

    def phase_changed(self, left: str | None, entered: str | None) -> None:
        if left is not None:
            self.seen.append(f"end of {left}")
        if entered is not None:
            self.seen.append(entered)
        if entered == "grad_sync":
            self.grad_sync_began.set()


class Operations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Digest:
    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, model: torch.nn.Module) -> None:
        for parameter in model.parameters():
            for tensor in (parameter.grad, parameter):
                if tensor is not None:
                    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
                    self._sha.update(local.detach().numpy().tobytes())

    def __str__(self) -> str:
        return self._sha.hexdigest()


def blocks() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(Block(), Block())


def batch(step: int, rank: int) -> torch.Tensor:
    return torch.full((4, 8), 0.1 * (step + 1) + rank)


def train(recorder: Recorder | None, rank: int, model: Any, watched: Any = None) -> dict[str, Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    order = Order()
    if recorder is not None:
        recorder.device_clock = order
        watch(recorder, model if watched is None else watched, optimizer)
    digest = Digest()
    for step in range(STEPS):
        optimizer.zero_grad()
        model(batch(step, rank)).square().mean().backward()
        digest.add(model)
        optimizer.step()
    return told(recorder, order, digest)


def told(recorder: Recorder | None, order: Order, digest: Digest) -> dict[str, Any]:
    answer: dict[str, Any] = {"digest": str(digest)}
    if recorder is not None:
        answer["phases"] = [list(step.phases) for step in steps_of(recorder)]
        answer["order"] = order.seen
        answer["lost"] = recorder.guard.counts()
        recorder.run_finish_calls()
    return answer


def ddp(recorder: Recorder | None, rank: int) -> dict[str, Any]:
    model = DistributedDataParallel(blocks())
    calls: list[int] = []

    def own_hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        calls.append(bucket.index())
        dist.all_reduce(bucket.buffer())
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(bucket.buffer() * 0.5)
        return future

    model.register_comm_hook(None, own_hook)
    return {**train(recorder, rank, model), "calls": len(calls)}


def ddp_inner(recorder: Recorder | None, rank: int) -> dict[str, Any]:
    inner = blocks()
    return train(recorder, rank, DistributedDataParallel(inner), watched=inner)


def ddp_accumulated(recorder: Recorder | None, rank: int) -> dict[str, Any]:
    model = DistributedDataParallel(blocks())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    order = Order()
    if recorder is not None:
        recorder.device_clock = order
        watch(recorder, model, optimizer)
    digest = Digest()
    with model.no_sync():
        model(batch(0, rank)).square().mean().backward()
    model(batch(1, rank)).square().mean().backward()
    digest.add(model)
    optimizer.step()
    return told(recorder, order, digest)


def ddp_order(recorder: Recorder | None, rank: int) -> dict[str, Any]:
    """The gradients come together only once grad_sync has begun: were it not before DDP waits, all would
    hang."""
    model = DistributedDataParallel(blocks())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    order = Order()
    if recorder is None:
        return {"digest": ""}
    recorder.device_clock = order
    watch(recorder, model, optimizer)

    def late_hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        order.seen.append("communication begins")
        dist.all_reduce(bucket.buffer())
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        threading.Thread(target=finish, args=(future, bucket.buffer())).start()
        return future

    def finish(future: torch.futures.Future[torch.Tensor], reduced: torch.Tensor) -> None:
        order.grad_sync_began.wait(60)
        order.seen.append("communication ends")
        future.set_result(reduced)

    model.register_comm_hook(None, late_hook)
    model(batch(0, rank)).square().mean().backward()
    optimizer.step()
    return told(recorder, order, Digest())


def fsdp2(recorder: Recorder | None, rank: int) -> dict[str, Any]:
    model = blocks()
    mesh = init_device_mesh("cpu", (WORLD,))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(recorder, rank, model)


def fsdp2_watched_first(recorder: Recorder | None, rank: int) -> dict[str, Any]:
    model = blocks()
    order = Order()
    if recorder is not None:
        recorder.device_clock = order
        watch(recorder, model)
    mesh = init_device_mesh("cpu", (WORLD,))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    digest = Digest()
    model(batch(0, rank)).square().mean().backward()
    digest.add(model)
    optimizer.step()
    return told(recorder, order, digest)


def fsdp1(recorder: Recorder | None, rank: int) -> dict[str, Any]:
    return train(recorder, rank, FullyShardedDataParallel(blocks(), device_id=torch.device("cpu")))


def pipeline(schedule: Callable[..., Any]) -> Way:
    def run(recorder: Recorder | None, rank: int) -> dict[str, Any]:
        part = blocks()[rank]
        stage = PipelineStage(part, rank, WORLD, torch.device("cpu"))
        steps = schedule(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
        optimizer = torch.optim.SGD(part.parameters(), lr=0.05)
        order = Order()
        if recorder is not None:
            recorder.device_clock = order
            watch(recorder, part, optimizer)
        digest = Digest()
        for step in range(2):
            optimizer.zero_grad()
            if rank == 0:
                steps.step(batch(step, 0))
            else:
                steps.step(target=torch.zeros(4, 8))
            digest.add(part)
            optimizer.step()
        return told(recorder, order, digest)

    return run


WAYS: dict[str, Way] = {
    "ddp": ddp,
    "ddp_inner": ddp_inner,
    "ddp_accumulated": ddp_accumulated,
    "ddp_order": ddp_order,
    "fsdp2": fsdp2,
    "fsdp2_watched_first": fsdp2_watched_first,
    "fsdp1": fsdp1,
    "gpipe": pipeline(ScheduleGPipe),
    "1f1b": pipeline(Schedule1F1B),
}


def note_waits() -> None:
    """Both kinds of FSDP wait for their communication in one function; where it comes in the order is
    noted."""
    for owner, name in (
        (FSDPState, "_root_post_backward_final_callback"),
        (_runtime_utils, "_post_backward_final_callback"),
    ):
        setattr(owner, name, noted(getattr(owner, name)))


def noted(wait: Callable[..., None]) -> Callable[..., None]:
    def and_wait(*args: Any) -> None:
        if Order.newest is not None:
            Order.newest.seen.append("FSDP waits")
        wait(*args)

    return and_wait


def counted(way: Way, recorder: Recorder | None, rank: int) -> dict[str, Any]:
    with Operations() as operations:
        answer = way(recorder, rank)
    return {**answer, "operations": operations.names}


def go_through(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORLD)
    note_waits()
    answers = {}
    for name, way in WAYS.items():
        try:
            answers[name] = {"without": counted(way, None, rank), "with": counted(way, new_recorder(), rank)}
        except Exception as error:
            answers[name] = {"error": repr(error)}
    (folder / f"{rank}.json").write_text(json.dumps(answers))
    dist.destroy_process_group()


def main(folder: Path) -> None:
    second = os.fork()
    go_through(0 if second else 1, folder)
    if second:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

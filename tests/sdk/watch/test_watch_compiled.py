"""Not one operation more, and no graph break, with and without torch.compile."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from watched_net import Net, a_batch, train

from recorded_steps import new_recorder, steps_of
from trilens.sdk.pytorch import watch


class Counted(TorchDispatchMode):
    """Operations, and among them those that make the program wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))

    @property
    def reads(self) -> int:
        return sum("_local_scalar_dense" in name or "item" in name for name in self.names)


@pytest.mark.parametrize("checkpointed", [False, True], ids=["plain", "checkpointed"])
@pytest.mark.parametrize("forwards", [1, 3], ids=["one-forward", "accumulated"])
def test_not_one_operation_is_added(checkpointed: bool, forwards: int) -> None:
    seen: list[list[str]] = []
    weights: list[torch.Tensor] = []
    for watched in (False, True):
        torch.manual_seed(0)
        model = Net(checkpointed=checkpointed)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        if watched:
            watch(new_recorder(), model, optimizer)
        with Counted() as counted:
            train(model, optimizer, forwards=forwards)
        seen.append(counted.names)
        weights.append(model.first.weight.detach())
    assert seen[0] == seen[1]
    assert torch.equal(*weights)


class Counts:
    """Graphs, breaks and compilations since the beginning of the block."""

    def __enter__(self) -> "Counts":
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        return self

    def __exit__(self, *error: object) -> None:
        counters = torch._dynamo.utils.counters
        self.graphs = counters["stats"]["unique_graphs"]
        self.breaks = dict(counters["graph_break"])
        self.captured = counters["stats"]["calls_captured"]
        self.recompiles = dict(counters["recompiles"]) if "recompiles" in counters else {}


def compile_it(model: Any) -> Any:
    return torch.compile(model, fullgraph=True, backend="aot_eager")


def compile_in_place(model: Any) -> Any:
    model.compile(fullgraph=True, backend="aot_eager")
    return model


def compile_a_function(model: Any) -> Any:
    return torch.compile(lambda batch: model(batch) * 2, fullgraph=True, backend="aot_eager")


@pytest.mark.parametrize("when", ["watched-first", "compiled-first"])
@pytest.mark.parametrize(
    "how", [compile_it, compile_in_place, compile_a_function], ids=["wrapped", "in-place", "function"]
)
def test_no_graph_break_and_no_recompile_is_added(how, when: str) -> None:
    told = []
    recorder = new_recorder()
    for watched in (False, True):
        with Counts() as counts:
            torch.manual_seed(0)
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            if watched and when == "watched-first":
                watch(recorder, model, optimizer)
            compiled = how(model)
            if watched and when == "compiled-first":
                watch(recorder, compiled if isinstance(compiled, torch.nn.Module) else model, optimizer)
            with torch._dynamo.config.patch(error_on_recompile=True):
                train(compiled, optimizer, steps=4)
        told.append((counts.graphs, counts.breaks, counts.captured))
    assert told[0] == told[1]
    steps = steps_of(recorder)
    assert len(steps) == 4
    seen = [set(step.phases) >= {"forward", "backward", "optimizer"} for step in steps]
    if how is compile_in_place:
        assert seen == [when == "compiled-first", True, True, True]  # noticed at the end of the first step
    elif how is compile_it and when == "compiled-first":
        assert all(seen)
    else:  # traced into the graph: nothing of ours is left in it, and what is not seen is not zero
        assert not any("forward" in step.phases for step in steps)
    assert recorder.guard.counts() == {}


def test_a_compiled_step_of_the_optimizer_stays_whole(recorder, model, optimizer) -> None:
    told = []
    for watched in (False, True):
        with Counts() as counts:
            if watched:
                watch(recorder, model, optimizer)
            step = torch.compile(lambda: optimizer.step(), backend="eager")
            for _ in range(2):
                optimizer.zero_grad()
                model(a_batch()).sum().backward()
                step()
        told.append((counts.graphs, counts.breaks))
    assert told[0] == told[1]


def test_compiled_autograd_is_left_alone() -> None:
    told = []
    recorder = new_recorder()
    for watched in (False, True):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if watched:
            watch(recorder, model, optimizer)
        with Counts() as counts:
            compiler = torch.compile(backend="eager")
            with torch._dynamo.config.patch(error_on_recompile=True):
                for _ in range(3):
                    optimizer.zero_grad()
                    loss = model(a_batch()).square().mean()
                    with torch._dynamo.compiled_autograd._enable(compiler):
                        loss.backward()
                    optimizer.step()
        told.append((counts.graphs, counts.breaks, counts.captured))
    assert told[0] == told[1]
    assert told[0][0] > 0
    assert ["backward" in step.phases for step in steps_of(recorder)] == [False] * 3
    assert recorder.guard.counts() == {}

"""What `watch` finds in a program by hooks, and what it leaves as it was."""

import copy
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from recorded_steps import new_recorder, steps_of
from trilens.sdk.pytorch import watch
from trilens.sdk.recorder import Recorder
from trilens.sdk.step_note import Reading

torch.set_num_threads(1)

ONE_AFTER_THE_OTHER = [
    (None, "forward"),
    ("forward", None),
    (None, "backward"),
    ("backward", None),
    (None, "optimizer"),
    ("optimizer", None),
]


class Net(torch.nn.Module):
    def __init__(self, *, checkpointed: bool = False) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 2)
        self.checkpointed = checkpointed

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if self.checkpointed:
            hidden = checkpoint(self.first, batch, use_reentrant=False)
        else:
            hidden = self.first(batch)
        return self.second(torch.relu(hidden))


def a_batch() -> torch.Tensor:
    return torch.ones(4, 8)


def train(model: Any, optimizer: Any, steps: int = 3, forwards: int = 1) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(forwards):
            model(a_batch()).square().mean().backward()
        optimizer.step()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = new_recorder()
    yield recorder
    recorder.run_finish_calls()


@pytest.fixture
def model() -> Net:
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def optimizer(model: Net) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


# -- phases and steps ---------------------------------------------------------------------------------------


def test_phases_and_steps_are_found_when_the_program_tells_none(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer)
    train(model, optimizer, steps=3)
    steps = steps_of(recorder)
    assert [step.number for step in steps] == [0, 1, 2]
    for step in steps:
        assert list(step.phases) == ["forward", "backward", "optimizer"]
        assert all(ns > 0 for ns in step.phases.values())
        assert sum(step.phases.values()) <= step.duration_ns
        assert step.values == {"lr": 0.1}
    assert recorder.guard.counts() == {}


def test_steps_that_the_program_tells_are_its_own(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer)
    for number in (7, 8):
        recorder.begin_step(number)
        train(model, optimizer, steps=2)  # two optimizer steps in what the program calls one
        recorder.end_step()
    model(a_batch())  # outside of its steps: no step of ours
    assert [step.number for step in steps_of(recorder)] == [7, 8]
    assert not recorder.in_step
    assert recorder.guard.counts() == {}


def test_the_optimizer_of_a_model_is_found_and_others_are_not_taken(recorder, model) -> None:
    watch(recorder, model)
    own = torch.optim.Adam(model.parameters(), lr=0.5)
    other_model = Net()
    other = torch.optim.SGD(other_model.parameters(), lr=9.0)
    train(model, own, steps=2)
    train(other_model, other, steps=2)
    assert [step.values["lr"] for step in steps_of(recorder)] == [0.5, 0.5]


def test_several_optimizers_end_a_step_together(recorder, model) -> None:
    first = torch.optim.SGD(model.first.parameters(), lr=0.1)
    second = torch.optim.SGD(model.second.parameters(), lr=0.2)
    watch(recorder, model, [first, second])
    for _ in range(3):
        model(a_batch()).sum().backward()
        first.step()
        second.step()
    steps = steps_of(recorder)
    assert [step.values for step in steps] == [{"lr": 0.1}] * 3


def test_models_of_one_run_make_one_step_together(recorder) -> None:
    judge, painter = Net(), Net()
    of_judge = torch.optim.SGD(judge.parameters(), lr=0.1)
    of_painter = torch.optim.SGD(painter.parameters(), lr=0.2)
    watch(recorder, judge, of_judge)
    watch(recorder, painter, of_painter)
    for _ in range(2):
        train(judge, of_judge, steps=2)
        train(painter, of_painter, steps=1)
    assert len(steps_of(recorder)) == 2


def test_optimizers_can_be_watched_without_a_model(recorder, model, optimizer) -> None:
    watch(recorder, None, optimizer)
    train(model, optimizer, steps=2)
    assert [list(step.phases) for step in steps_of(recorder)] == [["optimizer"]] * 2


def test_a_watched_model_can_go(recorder) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(recorder, model, optimizer)
    train(model, optimizer, steps=1)
    gone = weakref.ref(model)
    del model, optimizer
    gc.collect()
    assert gone() is None
    recorder.run_finish_calls()


def test_gradient_accumulation_adds_up(recorder, model, optimizer) -> None:
    marks = recorder.device_clock = Marks()
    watch(recorder, model, optimizer)
    train(model, optimizer, steps=1, forwards=3)
    (step,) = steps_of(recorder)
    assert list(step.phases) == ["forward", "backward", "optimizer"]
    assert marks.entered == ["forward", "backward"] * 3 + ["optimizer"]


def test_a_recomputed_forward_is_a_part_of_backward(recorder) -> None:
    marks = recorder.device_clock = Marks()
    model = Net(checkpointed=True)
    whole = Checkpointed(model)
    watch(recorder, model, torch.optim.SGD(model.parameters(), lr=0.1))
    whole(a_batch()).sum().backward()
    assert marks.entered == ["forward", "backward"]


def test_an_evaluation_is_no_training(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer)
    with torch.no_grad():
        model(a_batch())
    with torch.inference_mode():
        model(a_batch())
    assert not recorder.in_step
    assert recorder.phase is None
    assert steps_of(recorder) == []


def test_an_evaluation_reads_what_the_last_step_logged(recorder, model, optimizer) -> None:
    class Computed:
        def __init__(self) -> None:
            self.is_ready = False

        def ready(self) -> bool:
            return self.is_ready

        def read(self) -> Reading:
            return Reading({"loss": 0.5})

    watch(recorder, model, optimizer)
    computed = Computed()
    recorder.add_later(computed)
    train(model, optimizer, steps=1)
    assert not recorder.done
    computed.is_ready = True
    with torch.no_grad():
        model(a_batch())
    assert recorder.done[0][5] == {"lr": 0.1, "loss": 0.5}


def test_a_closure_is_not_counted_twice(recorder, model) -> None:
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    watch(recorder, model, optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(a_batch()).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    optimizer.step(closure)
    steps = steps_of(recorder)
    assert len(steps) == 2
    for step in steps:
        assert set(step.phases) == {"forward", "backward", "optimizer"}
        assert sum(step.phases.values()) <= step.duration_ns


def test_a_step_that_the_scaler_skips_goes_into_the_next(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for batch in (a_batch() * float("inf"), a_batch()):
        optimizer.zero_grad()
        scaler.scale(model(batch).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert len(steps_of(recorder)) == 1


@pytest.mark.parametrize("wrap", ["tuple", "dict", "nested", "dataclass"])
def test_backward_is_found_behind_any_output(recorder, wrap: str) -> None:
    from dataclasses import make_dataclass

    answer = make_dataclass("Answer", ["loss", "name"])
    shapes: dict[str, Callable[[Any], Any]] = {
        "tuple": lambda x: (x.detach(), x),
        "dict": lambda x: {"name": "x", "loss": x},
        "nested": lambda x: {"all": [(x,)]},
        "dataclass": lambda x: answer(x, "x"),
    }
    found: list[Any] = []

    class Wrapping(Net):
        def forward(self, batch: torch.Tensor) -> Any:
            loss = super().forward(batch).sum()
            found.append(loss)
            return shapes[wrap](loss)

    model = Wrapping()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(recorder, model, optimizer)
    model(a_batch())
    found[-1].backward()
    optimizer.step()
    (step,) = steps_of(recorder)
    assert "backward" in step.phases


def test_a_backward_from_several_outputs_is_one(recorder) -> None:
    class TwoOutputs(Net):
        def forward(self, batch: torch.Tensor) -> Any:
            return super().forward(batch), self.first(batch)

    model = TwoOutputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    marks = recorder.device_clock = Marks()
    watch(recorder, model, optimizer)
    one, other = model(a_batch())
    (one.sum() + other.sum()).backward()
    optimizer.step()
    assert marks.changes == ONE_AFTER_THE_OTHER


# -- what must not go wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt], ids=["error", "interrupt"])
def test_an_exception_in_forward_leaves_no_phase_open(recorder, model, optimizer, error) -> None:
    watch(recorder, model, optimizer)
    marks = recorder.device_clock = Marks()
    fails = model.second.register_forward_pre_hook(raising(error))
    with pytest.raises(error):
        model(a_batch())
    fails.remove()
    train(model, optimizer, steps=1)
    (step,) = steps_of(recorder)
    assert sum(step.phases.values()) <= step.duration_ns
    assert marks.changes[2:] == ONE_AFTER_THE_OTHER


def test_an_exception_in_backward_or_the_optimizer_leaves_no_phase_open(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer)
    broken = model(a_batch()).sum()
    broken.register_hook(lambda _: None)
    fails = model.first.weight.register_hook(raising(RuntimeError))
    with pytest.raises(RuntimeError):
        broken.backward()
    fails.remove()
    assert recorder.phase == "backward"
    stops = optimizer.register_step_pre_hook(raising(RuntimeError))  # after ours
    with pytest.raises(RuntimeError):
        optimizer.step()
    stops.remove()
    assert recorder.phase == "optimizer"  # for the program may be handling it still
    marks = recorder.device_clock = Marks()
    train(model, optimizer, steps=1)
    assert marks.changes == [("optimizer", None), *ONE_AFTER_THE_OTHER]


def test_the_hooks_are_gone_when_the_run_is_finished(recorder, model, optimizer) -> None:
    model.compile(backend="eager")
    before = model._compiled_call_impl
    watch(recorder, model, optimizer)
    watch(recorder, Net())  # this one looks for optimizers everywhere
    recorder.run_finish_calls()
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    everywhere = sys.modules["torch.optim.optimizer"]
    assert not everywhere._global_optimizer_pre_hooks
    assert not everywhere._global_optimizer_post_hooks
    assert model._compiled_call_impl is before
    train(model, optimizer, steps=1)
    assert steps_of(recorder) == []


def test_a_copy_of_a_watched_model_is_not_watched(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer)
    copied = copy.deepcopy(model)
    copied(a_batch()).sum().backward()
    assert not recorder.in_step


def test_a_watched_model_saved_whole_loads_where_trilens_is_not(recorder, tmp_path, monkeypatch) -> None:
    sequential = torch.nn.Sequential(torch.nn.Linear(8, 2))
    watch(recorder, sequential, torch.optim.SGD(sequential.parameters(), lr=0.1))
    torch.save(sequential, tmp_path / "model.pt")
    for name in [name for name in sys.modules if name.partition(".")[0] == "trilens"]:
        monkeypatch.setitem(sys.modules, name, None)
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    loaded(a_batch()).sum().backward()
    assert torch.equal(loaded[0].weight, sequential[0].weight)
    assert not recorder.in_step


def test_what_is_no_model_is_refused_without_raising_into_the_program(recorder) -> None:
    recorder.guard.run("watch", watch, recorder, "a model")
    assert recorder.guard.counts() == {"watch": 1}


def test_an_optimizer_that_has_no_hooks_costs_only_its_own_steps(recorder, model, optimizer) -> None:
    watch(recorder, model, ["not one of PyTorch's"])
    train(model, optimizer, steps=2)
    assert recorder.guard.counts() == {"watch": 1}
    assert [list(step.phases) for step in steps_of(recorder)] == [["forward", "backward", "optimizer"]] * 2


def test_a_run_that_is_finished_is_not_kept(model, optimizer) -> None:
    recorder = new_recorder()
    watch(recorder, model, optimizer)
    train(model, optimizer, steps=1)
    recorder.run_finish_calls()
    gone = weakref.ref(recorder)
    del recorder
    gc.collect()
    assert gone() is None


def test_a_long_list_among_the_outputs_is_not_looked_through(recorder) -> None:
    looked = []

    class Words(list):
        def __iter__(self) -> Iterator[str]:
            for word in super().__iter__():
                looked.append(word)
                yield word

    class Answering(Net):
        def forward(self, batch: torch.Tensor) -> Any:
            return Words(["word"] * 100_000), super().forward(batch)

    model = Answering()
    watch(recorder, model)
    model(a_batch())[1].sum().backward()
    assert len(looked) < 100
    assert recorder.phase is None
    assert "backward" in recorder._phases


def test_a_silent_run_is_told_nothing(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer)
    recorder.fall_silent()
    train(model, optimizer)
    assert not recorder.in_step


# -- values -------------------------------------------------------------------------------------------------


def test_a_logged_tensor_is_what_it_was(recorder) -> None:
    recorder.begin_step()
    weight = torch.tensor(2.0, requires_grad=True)
    loss = weight * 3
    recorder.log({"loss": loss, "half": torch.tensor([1.5], dtype=torch.bfloat16), "n": torch.tensor(7)})
    with torch.no_grad():
        loss.fill_(100.0)
    recorder.end_step()
    (step,) = steps_of(recorder)
    assert step.values == {"loss": 6.0, "half": 1.5, "n": 7.0}


def test_a_tensor_that_is_no_number_is_counted(recorder) -> None:
    recorder.begin_step()
    recorder.log(
        {
            "a": torch.ones(3),
            "b": torch.tensor(1j),
            "c": torch.tensor(1.0),
            "d": torch.empty(1, device="meta"),
        }
    )
    recorder.end_step()
    (step,) = steps_of(recorder)
    assert step.values == {"c": 1.0}
    assert recorder.guard.counts() == {"value": 3}


def test_the_gradient_norm_is_computed_every_so_many_steps(recorder, model, optimizer) -> None:
    watch(recorder, model, optimizer, grad_norm_every=2)
    expected = []
    for _ in range(3):
        optimizer.zero_grad()
        model(a_batch()).square().mean().backward()
        expected.append(float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])))
        optimizer.step()
    values = [step.values.get("grad_norm") for step in steps_of(recorder)]
    assert values == [pytest.approx(expected[0]), None, pytest.approx(expected[2])]


def test_a_scaled_gradient_has_no_norm(recorder, model) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)  # takes the factor out by itself
    watch(recorder, model, optimizer, grad_norm_every=1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(model(a_batch()).mean()).backward()
    scaler.step(optimizer)
    assert "grad_norm" not in steps_of(recorder)[0].values


def test_a_learning_rate_in_a_tensor_is_read(recorder, model) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.25), capturable=False, foreach=False)
    watch(recorder, model, optimizer)
    train(model, optimizer, steps=1)
    assert steps_of(recorder)[0].values["lr"] == 0.25


def test_flops_of_a_token_are_six_for_each_parameter_when_asked(recorder, model) -> None:
    watch(recorder, model, flops="6N")
    assert recorder.flops_per_token == 6 * sum(p.numel() for p in model.parameters())
    watch(recorder, model, flops=123)
    assert recorder.flops_per_token == 123


# -- what is counted with and without -----------------------------------------------------------------------


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


# -- torch.compile ------------------------------------------------------------------------------------------


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


# -- helpers ------------------------------------------------------------------------------------------------


class Marks:
    """In place of a device's clock: the changes of phase in their order."""

    def __init__(self) -> None:
        self.changes: list[tuple[str | None, str | None]] = []

    def phase_changed(self, left: str | None, entered: str | None) -> None:
        self.changes.append((left, entered))

    @property
    def entered(self) -> list[str]:
        return [entered for _, entered in self.changes if entered is not None]


class Checkpointed(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.inner, batch, use_reentrant=False)


def raising(error: type[BaseException]) -> Callable[..., None]:
    def raise_it(*_: object) -> None:
        raise error("as the test wants it")

    return raise_it

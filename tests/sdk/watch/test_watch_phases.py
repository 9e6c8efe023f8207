"""Phases and steps that `watch` finds in a program by hooks."""

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from watched_net import ONE_AFTER_THE_OTHER, Checkpointed, Marks, Net, a_batch, train

from recorded_steps import steps_of
from trilens.sdk.pytorch import watch
from trilens.sdk.step_note import Reading

if TYPE_CHECKING:
    from collections.abc import Callable


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

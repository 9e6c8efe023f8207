"""What `watch` leaves as it was, whatever happens in the program."""

import copy
import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from watched_net import ONE_AFTER_THE_OTHER, Marks, Net, a_batch, raising, train

from recorded_steps import new_recorder, steps_of
from trilens.sdk.pytorch import watch


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

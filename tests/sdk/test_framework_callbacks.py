"""What the callbacks of the Hugging Face Trainer and of Lightning tell, against what the model really saw."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from sdk_runs import begun
from told_programs import ids_of
from trilens.sdk.frameworks.new_optimizers import NewOptimizers
from trilens.sdk.guard import Guard

if TYPE_CHECKING:
    from sdk_runs import Told


@pytest.fixture(scope="module")
def frameworks() -> Any:
    """Imported here: loading Transformers and Lightning takes eight seconds, which every worker would spend
    only to list the tests of this module."""
    return importlib.import_module("framework_trainings")


def seen_by(told: Told) -> list[list[int]]:
    return [ids_of(batch) for batch in told.section("batches")]


def test_trainer_resumes_in_the_middle_of_an_epoch(tmp_path: Path, frameworks: Any) -> None:
    """Of six batches four are trained on; the resume skips them, takes the other two, and the next epoch. Two
    workers read ahead of it all."""
    model = frameworks.Model()
    options = {"dataloader_num_workers": 2, "save_strategy": "steps", "save_steps": 4}
    with begun(tmp_path) as (run, told):
        frameworks.trainer_of(model, run, tmp_path, **options).train()
        again = frameworks.trainer_of(model, run, tmp_path, **options, max_steps=8)
        again.train(resume_from_checkpoint=True)
        again.evaluate()
    assert seen_by(told) == model.seen
    assert len(model.seen) == 8
    assert sorted(one for batch in model.seen[:6] for one in batch) == list(range(24))
    assert [step["step"] for step in told.steps()] == list(range(1, 9))
    assert [step["epoch"] for step in told.steps()] == [0] * 6 + [1] * 2
    # The last batch of an epoch is there already when its step begins: it is read a batch ahead.
    phases = [set(step["phases"]) - {"data"} for step in told.steps()]
    assert phases == [{"forward", "backward", "optimizer"}] * 8
    checkpoints = [(one["step"], one["loaded"], one["path"]) for one in told.section("checkpoints")]
    first, second = str(tmp_path / "checkpoint-4"), str(tmp_path / "checkpoint-8")
    assert checkpoints == [(4, False, first), (4, True, first), (8, False, second)]
    assert [one["step"] for one in told.section("validations")] == [8]  # after the training, but of its model


def test_trainer_accumulates_over_an_uneven_epoch(tmp_path: Path, frameworks: Any) -> None:
    """Six batches in fours: a step of four, then one of two."""
    model = frameworks.Model()
    with begun(tmp_path) as (run, told):
        frameworks.trainer_of(model, run, tmp_path, gradient_accumulation_steps=4).train()
    assert seen_by(told) == model.seen
    assert [step["samples"] for step in told.steps()] == [16, 8, 16, 8]
    assert [batch["step"] for batch in told.section("batches")] == [1] * 4 + [2] * 2 + [3] * 4 + [4] * 2


def test_samples_of_a_stream_are_unknown(tmp_path: Path, frameworks: Any) -> None:
    with begun(tmp_path) as (run, told):
        trainer = frameworks.trainer_of(frameworks.Model(), run, tmp_path)
        trainer.train_dataset = frameworks.Stream()
        trainer.train()
    assert {one["unknown"] for one in told.section("batches")} == {
        "an iterable dataset does not tell its samples"
    }
    assert [one["size"] for one in told.section("batches")] == [4] * 4


def test_what_another_callback_reads_is_not_trained_on(tmp_path: Path, frameworks: Any) -> None:
    model = frameworks.Model()
    with begun(tmp_path) as (run, told):
        trainer = frameworks.trainer_of(model, run, tmp_path)
        trainer.add_callback(frameworks.ReadsTrainingData())
        trainer.train()
    assert seen_by(told) == model.seen


def test_two_callbacks_tell_once(tmp_path: Path, frameworks: Any) -> None:
    with begun(tmp_path) as (run, told):
        trainer = frameworks.trainer_of(frameworks.Model(), run, tmp_path)
        trainer.add_callback(frameworks.TrilensCallback(run))
        trainer.train()
    assert [step["step"] for step in told.steps()] == [1, 2, 3, 4]


def test_a_fault_in_a_callback_does_not_reach_the_trainer(
    tmp_path: Path, frameworks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, state: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("trilens.sdk.frameworks.huggingface.TrainerTraining.begin", fail)
    with begun(tmp_path) as (run, told):
        frameworks.trainer_of(frameworks.Model(), run, tmp_path).train()
    lost = told.last("state")["lost"]
    assert lost["trainer event"] == 4
    monkeypatch.undo()
    model = frameworks.Model()
    with begun(tmp_path) as (run, told):  # the next training is not harmed
        frameworks.trainer_of(model, run, tmp_path).train()
    assert seen_by(told) == model.seen


def test_a_training_after_one_that_raised(tmp_path: Path, frameworks: Any) -> None:
    model = frameworks.Model()
    with begun(tmp_path) as (run, told):
        with pytest.raises(ValueError, match="bad batch"):
            frameworks.trainer_of(frameworks.Model(fails_at=2), run, tmp_path).train()
        frameworks.trainer_of(model, run, tmp_path).train()
    assert [step["step"] for step in told.steps()] == [1, 2, 1, 2, 3, 4]
    assert seen_by(told)[-4:] == model.seen


def test_lightning_reads_one_loader_for_training_and_validation(tmp_path: Path, frameworks: Any) -> None:
    module = frameworks.Module()
    loader = frameworks.loader_of_numbers(shuffle=True, num_workers=1)
    with begun(tmp_path) as (run, told):
        trainer = frameworks.fit(module, run, tmp_path, loader)
        path = str(trainer.checkpoint_callback.best_model_path)
        frameworks.fit(module, run, tmp_path, loader, path, max_epochs=2)
    assert len(module.seen) == 12
    assert seen_by(told) == module.seen
    assert [step["step"] for step in told.steps()] == list(range(1, 13))
    assert [one["step"] for one in told.section("validations")] == [6, 12]
    assert {tuple(one["values"]) for one in told.section("validations")} == {("accuracy",)}
    (loaded,) = (one for one in told.section("checkpoints") if one["loaded"])
    assert (loaded["step"], loaded["path"]) == (6, path)
    assert told.last("facts")["total_steps"] == 12


def test_lightning_on_several_loaders(tmp_path: Path, frameworks: Any) -> None:
    loaders = {"a": frameworks.loader_of_numbers(), "b": frameworks.loader_of_numbers()}
    with begun(tmp_path) as (run, told):
        frameworks.fit(frameworks.OfTwoLoaders(), run, tmp_path, loaders, enable_checkpointing=False)
    assert {one["unknown"] for one in told.section("batches")} == {"not one DataLoader"}
    assert len(told.steps()) == 6


def test_lightning_reads_nothing_back_that_it_does_not_anyway(
    tmp_path: Path, frameworks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[torch.Tensor] = []
    item = torch.Tensor.item

    def noted(tensor: torch.Tensor) -> Any:
        read.append(tensor)
        return item(tensor)

    loader = frameworks.loader_of_numbers()
    with begun(tmp_path) as (run, told), monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "item", noted)
        frameworks.fit(frameworks.Shown(), run, tmp_path, loader, callbacks=[], enable_checkpointing=False)
        without = len(read)
        frameworks.fit(frameworks.Shown(), run, tmp_path, loader, enable_checkpointing=False)
        assert len(read) - without == without
    assert [set(step["values"]) for step in told.steps()] == [{"loss", "lr", "shown"}] * 6


def test_an_optimizer_that_cannot_be_remembered_is_not_in_the_way() -> None:
    class Unhashable(torch.optim.SGD):
        __hash__ = None  # type: ignore[assignment]

    guard = Guard()
    NewOptimizers(guard, lambda _: True)(Unhashable([torch.zeros(1)]), (), {})
    assert guard.counts() == {"attach": 1}


def test_lightning_with_manual_optimization(tmp_path: Path, frameworks: Any) -> None:
    with begun(tmp_path) as (run, told):
        loader = frameworks.loader_of_numbers()
        frameworks.fit(frameworks.Manual(), run, tmp_path, loader, enable_checkpointing=False)
    assert [step["step"] for step in told.steps()] == [1, 3, 5, 7, 9, 11]  # as global_step counts
    assert {frozenset(step["phases"]) for step in told.steps()} == {
        frozenset({"data", "backward", "optimizer"})
    }
    assert [len(ids_of(one)) for one in told.section("batches")] == [4] * 6


def test_a_step_that_lightning_could_not_finish(tmp_path: Path, frameworks: Any) -> None:
    loader = frameworks.loader_of_numbers()
    with begun(tmp_path) as (run, told):
        with pytest.raises(ValueError, match="bad batch"):
            frameworks.fit(frameworks.Module(fails_at=2), run, tmp_path, loader, enable_checkpointing=False)
        frameworks.fit(frameworks.Module(), run, tmp_path, loader, enable_checkpointing=False)
    assert [step["step"] for step in told.steps()] == [1, 2, 1, 2, 3, 4, 5, 6]
    note = told.section("notes")[0]
    assert (note["kind"], note["step"]) == ("exception", 3)
    assert "ValueError: bad batch" in note["text"]
    (failed,) = (one for one in told.section("batches") if one["n"] == 2)  # told all the same
    assert ids_of(failed) == [8, 9, 10, 11]


@pytest.mark.parametrize("module", ["trilens.huggingface", "trilens.lightning"])
def test_callbacks_are_documented(module: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "frameworks.md"
    assert f"from {module} import TrilensCallback" in page.read_text(encoding="utf-8")
    assert importlib.import_module(module).__all__ == ["TrilensCallback"]
    callback = importlib.import_module(module).TrilensCallback
    assert list(inspect.signature(callback).parameters) == ["run", "experiment", "name", "tags"]

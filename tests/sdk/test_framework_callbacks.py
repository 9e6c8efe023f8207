"""What the callbacks of the Hugging Face Trainer and of Lightning tell, against what the model really saw."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from sdk_runs import begun
from told_programs import ids_of
from trilens.huggingface import TrilensCallback
from trilens.lightning import TrilensCallback as LightningCallback
from trilens.sdk.frameworks.huggingface import TrainerTraining
from trilens.sdk.frameworks.new_optimizers import NewOptimizers
from trilens.sdk.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sdk_runs import Told
    from trilens.sdk.run import Run


class Numbers(Dataset[dict[str, torch.Tensor]]):
    """A sample is its own index."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.tensor([float(index)])}


class Stream(IterableDataset[dict[str, torch.Tensor]]):
    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for index in range(24):
            yield {"x": torch.tensor([float(index)])}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[list[int]] = []  # by training, not by evaluation

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.training:
            self.seen.append(x.flatten().int().tolist())
        return {"loss": (self.layer(x) / 100 - 1).pow(2).mean()}


def trainer_of(model: Model, folder: Path, callback: TrainerCallback, **changed: Any) -> Trainer:
    arguments = {
        "max_steps": 4,
        "per_device_train_batch_size": 4,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "remove_unused_columns": False,
        **changed,
    }
    return Trainer(
        model=model,
        args=TrainingArguments(str(folder), **arguments),
        train_dataset=arguments.pop("dataset", None) or Numbers(),
        eval_dataset=Numbers(),
        callbacks=[callback],
    )


def seen_by(told: Told) -> list[list[int]]:
    return [ids_of(batch) for batch in told.section("batches")]


def test_trainer_resumes_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    """Of six batches four are trained on; the resume skips them, takes the other two, and the next epoch. Two
    workers read ahead of it all."""
    model = Model()
    options = {"dataloader_num_workers": 2, "save_strategy": "steps", "save_steps": 4}
    with begun(tmp_path) as (run, told):
        trainer_of(model, tmp_path, TrilensCallback(run), **options).train()
        again = trainer_of(model, tmp_path, TrilensCallback(run), **options, max_steps=8)
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


def test_trainer_accumulates_over_an_uneven_epoch(tmp_path: Path) -> None:
    """Six batches in fours: a step of four, then one of two."""
    model = Model()
    with begun(tmp_path) as (run, told):
        trainer_of(model, tmp_path, TrilensCallback(run), gradient_accumulation_steps=4).train()
    assert seen_by(told) == model.seen
    assert [step["samples"] for step in told.steps()] == [16, 8, 16, 8]
    assert [batch["step"] for batch in told.section("batches")] == [1] * 4 + [2] * 2 + [3] * 4 + [4] * 2


def test_samples_of_a_stream_are_unknown(tmp_path: Path) -> None:
    with begun(tmp_path) as (run, told):
        trainer = trainer_of(Model(), tmp_path, TrilensCallback(run))
        trainer.train_dataset = Stream()
        trainer.train()
    assert {one["unknown"] for one in told.section("batches")} == {
        "an iterable dataset does not tell its samples"
    }
    assert [one["size"] for one in told.section("batches")] == [4] * 4


class ReadsTrainingData(TrainerCallback):
    """As some programs do: look at some samples again, here after each step."""

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        for _ in DataLoader(Numbers(), batch_size=3):
            pass


def test_what_another_callback_reads_is_not_trained_on(tmp_path: Path) -> None:
    model = Model()
    with begun(tmp_path) as (run, told):
        trainer = trainer_of(model, tmp_path, TrilensCallback(run))
        trainer.add_callback(ReadsTrainingData())
        trainer.train()
    assert seen_by(told) == model.seen


def test_two_callbacks_tell_once(tmp_path: Path) -> None:
    with begun(tmp_path) as (run, told):
        trainer = trainer_of(Model(), tmp_path, TrilensCallback(run))
        trainer.add_callback(TrilensCallback(run))
        trainer.train()
    assert [step["step"] for step in told.steps()] == [1, 2, 3, 4]


def test_a_fault_in_a_callback_does_not_reach_the_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: TrainerTraining, state: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(TrainerTraining, "begin", fail)
    with begun(tmp_path) as (run, told):
        trainer_of(Model(), tmp_path, TrilensCallback(run)).train()
    lost = told.last("state")["lost"]
    assert lost["trainer event"] == 4
    monkeypatch.undo()
    model = Model()
    with begun(tmp_path) as (run, told):  # the next training is not harmed
        trainer_of(model, tmp_path, TrilensCallback(run)).train()
    assert seen_by(told) == model.seen


def test_a_training_after_one_that_raised(tmp_path: Path) -> None:
    class Broken(Model):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            if len(self.seen) == 2:
                raise ValueError("bad batch")
            return super().forward(x)

    model = Model()
    with begun(tmp_path) as (run, told):
        with pytest.raises(ValueError, match="bad batch"):
            trainer_of(Broken(), tmp_path, TrilensCallback(run)).train()
        trainer_of(model, tmp_path, TrilensCallback(run)).train()
    assert [step["step"] for step in told.steps()] == [1, 2, 1, 2, 3, 4]
    assert seen_by(told)[-4:] == model.seen


class Module(lightning.LightningModule):
    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[list[int]] = []
        self._fails_at = fails_at

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor:
        if len(self.seen) == self._fails_at:
            raise ValueError("bad batch")
        self.seen.append(batch["x"].flatten().int().tolist())
        return (self.layer(batch["x"]) / 100 - 1).pow(2).mean()

    def validation_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> None:
        self.log("accuracy", batch["x"].mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(
    module: Module, run: Run, folder: Path, loader: Any, resume: str | None = None, **changed: Any
) -> Any:
    options = {"max_epochs": 1, "logger": False, "callbacks": [LightningCallback(run)], **changed}
    trainer = lightning.Trainer(
        accelerator="cpu",
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(module, loader, loader if isinstance(loader, DataLoader) else None, ckpt_path=resume)
    return trainer


def test_lightning_reads_one_loader_for_training_and_validation(tmp_path: Path) -> None:
    module = Module()
    loader = DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=1)
    with begun(tmp_path) as (run, told):
        trainer = fit(module, run, tmp_path, loader)
        path = str(trainer.checkpoint_callback.best_model_path)
        fit(module, run, tmp_path, loader, path, max_epochs=2)
    assert len(module.seen) == 12
    assert seen_by(told) == module.seen
    assert [step["step"] for step in told.steps()] == list(range(1, 13))
    assert [one["step"] for one in told.section("validations")] == [6, 12]
    assert {tuple(one["values"]) for one in told.section("validations")} == {("accuracy",)}
    (loaded,) = (one for one in told.section("checkpoints") if one["loaded"])
    assert (loaded["step"], loaded["path"]) == (6, path)
    assert told.last("facts")["total_steps"] == 12


def test_lightning_on_several_loaders(tmp_path: Path) -> None:
    class Both(Module):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            return super().training_step(batch["a"], batch_idx)

    loaders = {"a": DataLoader(Numbers(), batch_size=4), "b": DataLoader(Numbers(), batch_size=4)}
    with begun(tmp_path) as (run, told):
        fit(Both(), run, tmp_path, loaders, enable_checkpointing=False)
    assert {one["unknown"] for one in told.section("batches")} == {"not one DataLoader"}
    assert len(told.steps()) == 6


def test_lightning_reads_nothing_back_that_it_does_not_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shown(Module):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
            loss = super().training_step(batch, batch_idx)
            self.log("shown", loss, prog_bar=True)
            return loss

    read: list[torch.Tensor] = []
    item = torch.Tensor.item

    def noted(tensor: torch.Tensor) -> Any:
        read.append(tensor)
        return item(tensor)

    loader = DataLoader(Numbers(), batch_size=4)
    with begun(tmp_path) as (run, told), monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "item", noted)
        fit(Shown(), run, tmp_path, loader, callbacks=[], enable_checkpointing=False)
        without = len(read)
        fit(Shown(), run, tmp_path, loader, enable_checkpointing=False)
        assert len(read) - without == without
    assert [set(step["values"]) for step in told.steps()] == [{"loss", "lr", "shown"}] * 6


def test_an_optimizer_that_cannot_be_remembered_is_not_in_the_way() -> None:
    class Unhashable(torch.optim.SGD):
        __hash__ = None  # type: ignore[assignment]

    guard = Guard()
    NewOptimizers(guard, lambda _: True)(Unhashable([torch.zeros(1)]), (), {})
    assert guard.counts() == {"attach": 1}


def test_lightning_with_manual_optimization(tmp_path: Path) -> None:
    class Manual(Module):
        automatic_optimization = False

        def training_step(self, batch: Any, batch_idx: int) -> None:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(super().training_step(batch, batch_idx))
                optimizer.step()

        def configure_optimizers(self) -> Any:
            return [super().configure_optimizers(), super().configure_optimizers()]

    with begun(tmp_path) as (run, told):
        fit(Manual(), run, tmp_path, DataLoader(Numbers(), batch_size=4), enable_checkpointing=False)
    assert [step["step"] for step in told.steps()] == [1, 3, 5, 7, 9, 11]  # as global_step counts
    assert {frozenset(step["phases"]) for step in told.steps()} == {
        frozenset({"data", "backward", "optimizer"})
    }
    assert [len(ids_of(one)) for one in told.section("batches")] == [4] * 6


def test_a_step_that_lightning_could_not_finish(tmp_path: Path) -> None:
    loader = DataLoader(Numbers(), batch_size=4)
    with begun(tmp_path) as (run, told):
        with pytest.raises(ValueError, match="bad batch"):
            fit(Module(fails_at=2), run, tmp_path, loader, enable_checkpointing=False)
        fit(Module(), run, tmp_path, loader, enable_checkpointing=False)
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

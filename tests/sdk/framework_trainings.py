"""Models that remember what they saw, and trainings of them by the Hugging Face Trainer and by Lightning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightning
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from trilens.huggingface import TrilensCallback
from trilens.lightning import TrilensCallback as LightningCallback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.sdk.run import Run


class Numbers(Dataset[dict[str, torch.Tensor]]):
    """A sample is its own index."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.tensor([float(index)])}


def loader_of_numbers(**options: Any) -> DataLoader[dict[str, torch.Tensor]]:
    return DataLoader(Numbers(), batch_size=4, **options)


class Stream(IterableDataset[dict[str, torch.Tensor]]):
    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for index in range(24):
            yield {"x": torch.tensor([float(index)])}


class Model(torch.nn.Module):
    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[list[int]] = []  # by training, not by evaluation
        self._fails_at = fails_at

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if len(self.seen) == self._fails_at:
            raise ValueError("bad batch")
        if self.training:
            self.seen.append(x.flatten().int().tolist())
        return {"loss": (self.layer(x) / 100 - 1).pow(2).mean()}


def trainer_of(model: Model, run: Run, folder: Path, **changed: Any) -> Trainer:
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
        train_dataset=Numbers(),
        eval_dataset=Numbers(),
        callbacks=[TrilensCallback(run)],
    )


class ReadsTrainingData(TrainerCallback):
    """As some programs do: look at some samples again, here after each step."""

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        for _ in DataLoader(Numbers(), batch_size=3):
            pass


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


class OfTwoLoaders(Module):
    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return super().training_step(batch["a"], batch_idx)


class Shown(Module):
    """Its loss is in the progress bar."""

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = super().training_step(batch, batch_idx)
        self.log("shown", loss, prog_bar=True)
        return loss


class Manual(Module):
    """Two optimizers, called by itself."""

    automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(super().training_step(batch, batch_idx))
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [super().configure_optimizers(), super().configure_optimizers()]


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

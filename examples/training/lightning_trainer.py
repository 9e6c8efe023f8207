"""Lightning: one callback.

    python examples/training/lightning_trainer.py [FOLDER]

Steps, phases, samples, the loss and what `self.log` logs, validations and checkpoints come from Lightning's
hooks. It works with `import lightning` and with `import pytorch_lightning`.
"""

import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from trilens.lightning import TrilensCallback

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "trained"


class Regression(lightning.LightningModule):
    def __init__(self, lr: float = 0.05) -> None:
        super().__init__()
        self.save_hyperparameters()  # they become the config of the run
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        x, y = batch
        error = self.layer(x) - y
        self.log("error_max", error.abs().max())
        return error.pow(2).mean()

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        x, y = batch
        self.log("loss", (self.layer(x) - y).pow(2).mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams["lr"])


lightning.seed_everything(0)
x = torch.randn(64, 8)
data = TensorDataset(x, x.sum(dim=1, keepdim=True))
trainer = lightning.Trainer(
    accelerator="auto",
    devices=1,
    max_epochs=2,
    accumulate_grad_batches=2,  # a step is one step of the optimizer, over two batches
    default_root_dir=FOLDER,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[TrilensCallback(experiment="examples", name="regression")],
)
trainer.fit(Regression(), DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=32))

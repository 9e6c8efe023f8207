"""A loop of Megatron's shape: `train_step` over microbatches, `get_batch`, `save_checkpoint`.

    python examples/training/megatron_style.py [FOLDER]

The loop stays as it is. Around it stand `run.step`, a phase for each part, and the samples that `get_batch`
took. Only the last stage of a pipeline knows the loss: the others log without it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

import trilens

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "trained")
MICROBATCHES = 2
MICROBATCH_SIZE = 4
SEQUENCE = 16
ITERATIONS = 6
SAVE_INTERVAL = 3


class Tokens(Dataset):
    """Each sample knows its index, as those of Megatron's GPTDataset can."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"tokens": (torch.arange(SEQUENCE + 1) + index) % 32, "index": torch.tensor(index)}


def endlessly(loader: DataLoader) -> Iterator[dict[str, torch.Tensor]]:
    while True:
        yield from loader


def get_batch(data: Iterator[dict[str, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    with run.phase("data"):
        batch = next(data)
    run.batch(ids=batch["index"], dataset="tokens")  # one of the microbatches of the step in progress
    return batch["tokens"][:, :-1], batch["tokens"][:, 1:]


def train_step(data: Iterator[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    optimizer.zero_grad()
    total = torch.zeros(())
    for _ in range(MICROBATCHES):  # Megatron's forward_backward_func
        tokens, labels = get_batch(data)
        with run.phase("forward"):
            loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        with run.phase("backward"):
            (loss / MICROBATCHES).backward()
        total += loss.detach() / MICROBATCHES
    with run.phase("optimizer"):
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    return {"lm loss": total, "grad_norm": norm}


def save_checkpoint(iteration: int) -> None:
    path = FOLDER / f"iter_{iteration:07d}" / "model_optim_rng.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    with run.checkpoint(path, iteration):
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(32, 16), torch.nn.Linear(16, 32))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=ITERATIONS)
train_data = endlessly(DataLoader(Tokens(), batch_size=MICROBATCH_SIZE, shuffle=True))

run = trilens.init(experiment="examples", name="megatron-style", total_steps=ITERATIONS)
for iteration in range(1, ITERATIONS + 1):  # Megatron counts from 1
    with run.step(iteration, tokens=MICROBATCHES * MICROBATCH_SIZE * SEQUENCE):
        losses = train_step(train_data)
        run.log(loss=losses["lm loss"], grad_norm=losses["grad_norm"], lr=scheduler.get_last_lr()[0])
    if iteration % SAVE_INTERVAL == 0:
        save_checkpoint(iteration)
run.finish()

"""A small net, and what happens to it while it is watched."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

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

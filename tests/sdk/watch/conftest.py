"""A recorder that watches, and what it watches."""

from collections.abc import Iterator

import pytest
import torch
from watched_net import Net

from recorded_steps import new_recorder
from trilens.sdk.recorder import Recorder


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

"""What the agent's tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packet_pipe import PacketPipe

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def kmsg() -> Iterator[PacketPipe]:
    pipe = PacketPipe()
    yield pipe
    pipe.close()

"""Hunts have two lengths: `make test` has everything once and soon, `make test-long` goes on for longer."""

from __future__ import annotations

import os

IS_LONG = os.environ.get("TRILENS_LONG") == "1"


def rounds(short: int, long: int) -> int:
    return long if IS_LONG else short

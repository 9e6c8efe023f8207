"""Argo packs the steps of a large workflow; they are unpacked here, so that nobody else has to know."""

from __future__ import annotations

import base64
import zlib
from typing import Any, Final

import msgspec

from trilens.collect.kubernetes.mask import read_mask

_UNPACKED_LIMIT: Final = 32 * 1024**2
_GZIP: Final = 16 + zlib.MAX_WBITS
_STEP: Final = tuple(read_mask("...step"))


def unpack_nodes(workflow: dict[str, Any]) -> None:
    """`status.compressedNodes` becomes `status.nodes`. What does not unpack stays packed."""
    status = workflow.get("status")
    if not isinstance(status, dict) or not isinstance(status.get("compressedNodes"), str):
        return
    try:
        packed = base64.b64decode(status["compressedNodes"])
        unpacked = zlib.decompressobj(_GZIP).decompress(packed, _UNPACKED_LIMIT)
        nodes = msgspec.json.decode(unpacked, type=dict[str, dict[str, Any]])
    except (ValueError, zlib.error, msgspec.DecodeError, RecursionError):
        return
    del status["compressedNodes"]
    status["nodes"] = {name: {key: node[key] for key in _STEP if key in node} for name, node in nodes.items()}

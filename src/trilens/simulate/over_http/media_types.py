"""In which form a client wants objects: whole, or their metadata alone."""

from __future__ import annotations

from typing import Any, Final

from trilens.simulate.over_http.refusals import not_acceptable

_META: Final = "meta.k8s.io"
_PARTIAL: Final = ("PartialObjectMetadata", "PartialObjectMetadataList")


def wants_metadata_only(accept: str) -> bool:
    """By the first form of the `Accept` header that is served. Raises Refusal when none is."""
    for choice in (accept or "*/*").split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        named = dict(parameter.partition("=")[::2] for parameter in parameters)
        form = named.get("as")
        if form is None:
            return False
        if form in _PARTIAL and (named.get("g"), named.get("v")) == (_META, "v1"):
            return True
    raise not_acceptable()


def metadata_only(obj: dict[str, Any]) -> dict[str, Any]:
    return {"kind": _PARTIAL[0], "apiVersion": f"{_META}/v1", "metadata": obj["metadata"]}


def metadata_list(metadata: dict[str, Any], items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": _PARTIAL[1], "apiVersion": f"{_META}/v1", "metadata": metadata, "items": items}

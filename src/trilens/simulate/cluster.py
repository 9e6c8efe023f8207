"""The API server's part of a simulated cluster: names, uids, times and events of its objects."""

from __future__ import annotations

import random
from collections import deque
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from trilens.simulate.objects import KubeDict, ObjectTable

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # of which Kubernetes makes its suffixes
_EVENTS_STAY_MS: Final = 3_600_000  # the API server's --event-ttl


class Cluster:
    def __init__(self, start_ms: int, seed: int) -> None:
        self.now_ms = start_ms
        self.objects = ObjectTable()
        self._chance = random.Random(f"objects of {seed}")  # noqa: S311 - a repeatable world, not a secret
        self._events: dict[tuple[str, str], KubeDict] = {}  # by uid and reason: a repeat is counted
        self._event_ages: deque[tuple[int, KubeDict]] = deque()

    @property
    def time(self) -> str:
        return kube_time(self.now_ms)

    def uid(self) -> str:
        digits = f"{self._chance.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def suffix(self, length: int = 5) -> str:
        return "".join(self._chance.choices(_LETTERS, k=length))

    def create(self, obj: KubeDict) -> KubeDict:
        meta = {**obj["metadata"], "uid": self.uid(), "creationTimestamp": self.time}
        return self.objects.put({**obj, "metadata": meta})

    def update(self, obj: KubeDict, **parts: Any) -> KubeDict:
        """Replace top-level parts of an object, as it is now; one that is gone stays gone."""
        current = self.objects.current(obj)
        return obj if current is None else self.objects.put({**current, **parts})

    def update_meta(self, obj: KubeDict, **parts: Any) -> KubeDict:
        current = self.objects.current(obj) or obj
        return self.update(obj, metadata={**current["metadata"], **parts})

    def delete(self, obj: KubeDict) -> None:
        if self.objects.current(obj) is not None:
            self.objects.delete(obj)

    def event(
        self,
        about: KubeDict,
        reason: str,
        message: str,
        source: str,
        host: str = "",
        *,
        warning: bool = False,
    ) -> None:
        meta = about["metadata"]
        key = (meta["uid"], reason)
        before = self._events.get(key)
        if before is not None and before["message"] == message:
            current = self.objects.current(before)
            if current is not None:
                count = current["count"] + 1
                self._events[key] = self.objects.put({**current, "count": count, "lastTimestamp": self.time})
                return
        component = {"component": source, "host": host} if host else {"component": source}
        made = self.create(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{meta['name']}.{self._chance.getrandbits(64):016x}",
                    "namespace": meta.get("namespace", "default"),
                },
                "involvedObject": {
                    "apiVersion": about["apiVersion"],
                    "kind": about["kind"],
                    "name": meta["name"],
                    "namespace": meta.get("namespace", ""),
                    # The kubelet and the node controller write a node's name where its uid belongs.
                    "uid": meta["name"] if about["kind"] == "Node" else meta["uid"],
                },
                "reason": reason,
                "message": message,
                "type": "Warning" if warning else "Normal",
                "count": 1,
                "firstTimestamp": self.time,
                "lastTimestamp": self.time,
                "source": component,
                "reportingComponent": source,
                "reportingInstance": host,
            }
        )
        self._events[key] = made
        self._event_ages.append((self.now_ms, made))

    def forget_old_events(self) -> None:
        while self._event_ages and self._event_ages[0][0] < self.now_ms - _EVENTS_STAY_MS:
            _, event = self._event_ages.popleft()
            self.objects.delete(event)
            key = (event["involvedObject"]["uid"], event["reason"])
            if key in self._events and self._events[key]["metadata"]["uid"] == event["metadata"]["uid"]:
                del self._events[key]


def kube_time(at_ms: int) -> str:
    """In whole seconds, as Kubernetes writes times."""
    return _written(at_ms // 1000)


@lru_cache(maxsize=64)  # a thousand objects change in one second
def _written(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owned_by(owner: KubeDict) -> list[KubeDict]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def condition(kind: str, reason: str, at: str, message: str = "", *, holds: bool = True) -> KubeDict:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }


def with_condition(status: KubeDict, new: KubeDict) -> list[KubeDict]:
    """The conditions of a status with this one in the place of the one of its type. One that already stood
    so keeps the time since when it does."""
    kept = []
    for one in status.get("conditions", ()):
        if one["type"] != new["type"]:
            kept.append(one)
        elif one["status"] == new["status"]:
            new = {**new, "lastTransitionTime": one["lastTransitionTime"]}
    return [*kept, new]

"""Tells the server where this process shows its metrics, again and again, so that it scrapes them by itself.

Nothing depends on it: who is not heard is not scraped, and the program serves on.
"""

from __future__ import annotations

import json
import os
import threading
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from trilens.sdk import loaded_before_threads  # noqa: F401
from trilens.sdk.guard import describe
from trilens.sdk.identity import identify
from trilens.sdk.loopback import is_out_of_reach
from trilens.sdk.options import DEFAULT_SERVER
from trilens.sdk.process_facts import reachable

if TYPE_CHECKING:
    from trilens.sdk.guard import Guard
    from trilens.sdk.options import Options

PATH: Final = "/api/v1/programs/heartbeat"
HEARTBEAT_S: Final = 15.0
_LONGEST_WAIT_S: Final = 120.0  # while there is no server
_TIMEOUT_S: Final = 5.0


class Registration:
    """A thread of its own, from when it is made until `close`."""

    def __init__(self, address: str, options: Options, guard: Guard) -> None:
        self._server = options.server or DEFAULT_SERVER
        self._is_named = options.server is not None
        self._token = options.token
        self._guard = guard
        self._stopping = threading.Event()
        told = _told(address, options)
        if is_out_of_reach(told["address"], self._server):
            text = f"{self._server} cannot scrape {address}: set TRILENS_METRICS_LISTEN=:PORT"
            guard.say("registration", text)
            return
        self._body = json.dumps(told).encode()
        threading.Thread(target=self._work, name="trilens-serving", daemon=True).start()

    def close(self) -> None:
        self._stopping.set()

    def _work(self) -> None:
        wait_s = HEARTBEAT_S
        while True:
            trouble = self._guard.run("registration", self._tell)
            if trouble is None:
                wait_s = HEARTBEAT_S
            else:
                if self._is_named:  # the default one need not be there
                    self._guard.say("registration", f"{self._server} is not told of this server: {trouble}")
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            if self._stopping.wait(wait_s):
                return

    def _tell(self) -> str | None:
        """What is wrong."""
        parts = urlsplit(self._server)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", f"{parts.path}{PATH}", self._body, headers)
            status = connection.getresponse().status
        except (OSError, HTTPException, ValueError) as error:
            return describe(error)
        finally:
            connection.close()
        return None if status == 200 else f"HTTP {status}"


def _told(address: str, options: Options) -> dict[str, Any]:
    who = identify(options.environ)
    facts = {
        "address": reachable(address, who, options.environ.get("POD_IP")),
        "node": who.node,
        "pid": os.getpid(),
        "cluster": who.cluster,
        "namespace": who.namespace,
        "pod": who.pod,
        "pod_uid": who.pod_uid,
        "container": who.container,
        "heartbeat_s": HEARTBEAT_S,
    }
    return {name: value for name, value in facts.items() if value is not None}

"""An API server that says what a test wants it to: for answers that a real one cannot be brought to give.

It serves pods, and takes lists and watches from their scripts; when a script is at its end, the last list
is given again, and a watch stays open and silent.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from aiohttp import web

from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

Json = dict[str, Any]


def pod(name: str, version: int = 1, **spec: Any) -> Json:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": metadata, "spec": spec}


def page(*items: Json, version: int = 10, more: str = "") -> bytes:
    return json.dumps(
        {"metadata": {"resourceVersion": str(version), "continue": more}, "items": items}
    ).encode()


def event(kind: str, obj: Json) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def refusal(code: int, message: str, **headers: str) -> Answer:
    return Answer(json.dumps({"kind": "Status", "code": code, "message": message}).encode(), code, headers)


@dataclass(frozen=True)
class Answer:
    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class ScriptedApi:
    def __init__(self) -> None:
        self.lists: deque[bytes | Answer] = deque([page()])
        self.watches: deque[bytes | Answer] = deque()  # lines, after which the server hangs up
        self.authorization: set[str] = set()  # what it accepts; everything when empty
        self.serves_pods = True
        self.documents: dict[str, Json] = {}  # by path, instead of what is said there otherwise
        self.forbidden: set[str] = set()  # paths
        self.answer_at: dict[str, Handler] = {}  # by path, what a test answers itself
        self.asked: list[web.Request] = []
        self.url = ""
        self._closing = asyncio.Event()

    def queries(self, *, watch: bool) -> list[dict[str, str]]:
        """Of the lists or watches of pods, in the order they were asked for."""
        return [
            dict(request.query)
            for request in self.asked
            if request.path == "/api/v1/pods" and ("watch" in request.query) == watch
        ]

    def access(self, folder: Path, **user: Any) -> KubeconfigAccess:
        return KubeconfigAccess(self.kubeconfig(folder, **user))

    def kubeconfig(self, folder: Path, **user: Any) -> Path:
        config = {
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
        }
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        return file

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if self.authorization and request.headers.get("Authorization") not in self.authorization:
            return _respond(refusal(401, "Unauthorized"))
        if request.path in self.forbidden:
            return _respond(refusal(403, f"forbidden: cannot get path {request.path}"))
        if request.path in self.answer_at:
            return await self.answer_at[request.path](request)
        if request.path in self.documents:
            return web.json_response(self.documents[request.path])
        match request.path:
            case "/api":
                return web.json_response({"versions": ["v1"]})
            case "/apis":
                return web.json_response({"groups": []})
            case "/api/v1":
                pods = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch"]}
                return web.json_response({"resources": [pods] if self.serves_pods else []})
            case "/api/v1/pods" if "watch" in request.query:
                return await self._watch(request)
            case "/api/v1/pods":
                return _respond(self.lists.popleft() if len(self.lists) > 1 else self.lists[0])
        return _respond(refusal(404, "not found"))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        script = self.watches.popleft() if self.watches else None
        if isinstance(script, Answer):
            return _respond(script)
        response = web.StreamResponse()
        await response.prepare(request)
        if script is None:
            await self._closing.wait()
        else:
            await response.write(script)
        return response

    def close(self) -> None:
        self._closing.set()


def _respond(answer: bytes | Answer) -> web.Response:
    if isinstance(answer, bytes):
        answer = Answer(answer)
    return web.Response(body=answer.body, status=answer.status, headers=answer.headers)


@asynccontextmanager
async def scripted_api() -> AsyncIterator[ScriptedApi]:
    api = ScriptedApi()
    app = web.Application()
    app.router.add_get("/{path:.*}", api.answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        api.url = "http://{}:{}".format(*runner.addresses[0])
        yield api
    finally:
        api.close()
        await runner.cleanup()

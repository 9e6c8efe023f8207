"""A server of models that tells of its requests: latency, time to the first token, tokens, queue, errors.

    uvicorn --app-dir examples/serving app:app            # then, elsewhere:
    curl -N "http://127.0.0.1:8000/generate?prompt=tell+me+more"
    curl http://127.0.0.1:9450/metrics

Starlette here; with FastAPI, or any other ASGI framework, the middleware is added in the same way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

import trilens.serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

WORKERS = asyncio.Semaphore(2)
WAITING = trilens.serving.queue(name="model")


async def tokens_of(prompt: str) -> AsyncIterator[str]:
    """Stands in for a model: one token a word."""
    for word in prompt.split():
        await asyncio.sleep(0)
        yield word.upper() + " "


async def generate(request: Request) -> StreamingResponse:
    prompt = request.query_params.get("prompt", "")
    mine = trilens.serving.current()

    async def answer() -> AsyncIterator[str]:
        with WAITING.wait():
            await WORKERS.acquire()
        try:
            async for token in tokens_of(prompt):
                yield token
                if mine is not None:
                    mine.tokens(completion=1)
        finally:
            WORKERS.release()

    if mine is not None:
        mine.tokens(prompt=len(prompt.split()))
    return StreamingResponse(answer(), media_type="text/plain")


@trilens.serving.measure(model="embedder", version="1")
def embed(text: str) -> list[float]:
    return [float(len(word)) for word in text.split()]


async def healthz(request: Request) -> JSONResponse:
    """A probe that also tries a model; probes themselves are not counted."""
    return JSONResponse({"embedding": embed("are you well")})


app = Starlette(
    routes=[Route("/generate", generate), Route("/healthz", healthz)],
    middleware=[Middleware(trilens.serving.Middleware, model="shouter", version="7")],
)

"""What trilens.serving counts of requests, and that it never gets in their way."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import subprocess
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from trilens.collect.exposition import parse_samples
from trilens.sdk.serving.figures import MOST_MODELS
from trilens.sdk.serving.measure import measured
from trilens.sdk.serving.middleware import Middleware
from trilens.sdk.serving.program import ServingProgram
from trilens.sdk.serving.queues import MOST_QUEUES
from trilens.sdk.serving.request import CURRENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request
    from starlette.websockets import WebSocket


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServingProgram]:
    monkeypatch.setenv("TRILENS_METRICS_LISTEN", "127.0.0.1:0")
    serving = ServingProgram()
    yield serving
    serving.close()


def told(program: ServingProgram, text: str | None = None) -> dict[tuple[str, ...], float]:
    """By name and label values, histograms only by their count."""
    samples, _ = parse_samples((text or program.text()).encode(), openmetrics=False)
    found = {}
    for sample in samples:
        labels = {str(k): str(v) for k, v in sample.labels}
        name = labels.pop("__name__")
        if not name.endswith(("_bucket", "_sum")):
            found[(name, *labels.values())] = sample.value
    return found


def served(program: ServingProgram, **options: Any) -> TestClient:
    async def predict(request: Request) -> JSONResponse:
        CURRENT.get().tokens(prompt=5)  # type: ignore[union-attr]
        return JSONResponse({"label": "cat"}, int(request.query_params.get("status", 200)))

    async def generate(request: Request) -> StreamingResponse:
        mine = CURRENT.get()
        assert mine is not None
        mine.set_model("llama", "8b")

        async def parts() -> AsyncIterator[str]:
            yield "hello"
            yield " world"
            mine.tokens(prompt=3, completion=2)

        return StreamingResponse(parts())

    async def broken(request: Request) -> JSONResponse:
        raise KeyError("weights")

    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("hi")
        await socket.close()

    routes = [
        Route("/predict", predict),
        Route("/generate", generate),
        Route("/broken", broken),
        Route("/healthz", lambda request: JSONResponse("well")),
        WebSocketRoute("/talk", talk),
    ]
    app = Starlette(routes=routes)
    return TestClient(Middleware(app, program=program, **options), raise_server_exceptions=True)


def test_requests_by_model_version_and_code(program: ServingProgram) -> None:
    client = served(program, model="resnet", version="3")
    assert client.get("/predict").json() == {"label": "cat"}
    client.get("/predict?status=404")
    client.get("/predict?status=503")
    found = told(program)
    assert found["inference_requests_total", "resnet", "3", "200"] == 1
    assert found["inference_requests_total", "resnet", "3", "404"] == 1
    assert found["inference_requests_total", "resnet", "3", "503"] == 1
    assert found["inference_errors_total", "resnet", "3", "503"] == 1
    assert ("inference_errors_total", "resnet", "3", "404") not in found  # the client's
    assert found["inference_request_duration_seconds_count", "resnet", "3"] == 3
    assert found["inference_tokens_total", "resnet", "3", "prompt"] == 15
    assert found["inference_requests_running", "resnet", "3"] == 0
    # An answer in one piece has no first token.
    assert not [key for key in found if key[0] == "inference_time_to_first_token_seconds_count"]


def test_a_streamed_answer_has_a_first_token_and_a_time_per_token(program: ServingProgram) -> None:
    client = served(program, model="unread")
    assert client.get("/generate").text == "hello world"
    found = told(program)
    assert found["inference_time_to_first_token_seconds_count", "llama", "8b"] == 1
    assert found["inference_time_per_output_token_seconds_count", "llama", "8b"] == 1
    assert found["inference_tokens_total", "llama", "8b", "completion"] == 2
    assert found["inference_requests_running", "unread"] == 0  # it moved on with the request
    assert ("inference_requests_total", "unread", "200") not in found


def test_an_answer_that_another_middleware_hands_on_in_parts_has_no_first_token(
    program: ServingProgram,
) -> None:
    async def hand_on(request: Request, handle: Any) -> Any:
        return await handle(request)

    app = Starlette(routes=[Route("/predict", lambda request: JSONResponse({"label": "cat"}))])
    app.add_middleware(BaseHTTPMiddleware, dispatch=hand_on)
    client = TestClient(Middleware(app, program=program, model="resnet"))
    assert client.get("/predict").json() == {"label": "cat"}
    found = told(program)
    assert found["inference_requests_total", "resnet", "200"] == 1
    assert not [key for key in found if key[0] == "inference_time_to_first_token_seconds_count"]


def test_a_request_whose_task_is_thrown_away_is_not_running_for_ever(program: ServingProgram) -> None:
    @types.coroutine
    def pause() -> Iterator[None]:
        yield

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await pause()

    pending = Middleware(app, program=program, model="m")({"type": "http", "path": "/"}, None, None)  # type: ignore[arg-type]
    contextvars.copy_context().run(pending.send, None)
    pending.close()  # in another context, as the garbage collector does
    found = told(program)
    assert found["inference_requests_running", "m"] == 0
    assert found["inference_requests_total", "m", "499"] == 1


def test_an_exception_is_counted_and_raised_untouched(program: ServingProgram) -> None:
    client = served(program, model="resnet")
    with pytest.raises(KeyError, match="weights"):
        client.get("/broken")
    found = told(program)
    assert found["inference_requests_total", "resnet", "500"] == 1
    assert found["inference_errors_total", "resnet", "KeyError"] == 1


def test_probes_sockets_and_lifespan_pass_by(program: ServingProgram) -> None:
    with served(program, model="resnet") as client:
        assert client.get("/healthz").status_code == 200
        with client.websocket_connect("/talk") as socket:
            assert socket.receive_text() == "hi"
    assert told(program) == {}


def test_model_from_a_header_or_a_function(program: ServingProgram) -> None:
    client = served(program, model=lambda scope: scope["path"].strip("/"), model_header="X-Model")
    client.get("/predict")
    client.get("/predict", headers={"x-model": "bert"})
    found = told(program)
    assert found["inference_requests_total", "predict", "200"] == 1
    assert found["inference_requests_total", "bert", "200"] == 1


def test_a_function_that_fails_names_no_model_and_breaks_nothing(program: ServingProgram) -> None:
    client = served(program, model=lambda scope: scope["no such key"])
    assert client.get("/predict").status_code == 200
    assert told(program)["inference_requests_total", "unknown", "200"] == 1
    assert program.guard.counts() == {"model name": 1}


def test_metrics_on_a_path_of_the_program(program: ServingProgram) -> None:
    client = served(program, model="resnet", path="/metrics")
    client.get("/predict")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert told(program, answer.text)["inference_requests_total", "resnet", "200"] == 1
    assert program.needs_port is False


def test_metrics_on_a_port_of_their_own(program: ServingProgram) -> None:
    served(program, model="resnet").get("/predict")
    page = httpx.get(f"http://{program.listen()}/metrics").text
    assert told(program, page)["inference_requests_total", "resnet", "200"] == 1


def test_a_client_that_leaves_is_no_error_of_the_server(program: ServingProgram) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"

    async def closed(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    async def whole(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a"})
        await receive()  # a server says so after every answer

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def taken(message: Any) -> None:
        pass

    async def refused(message: Any) -> None:
        if message["type"] == "http.response.body":
            raise OSError("connection lost")

    async def asked() -> None:
        scope = {"type": "http", "path": "/", "headers": []}
        await Middleware(app, program=program, model="left")(dict(scope), gone, taken)
        with pytest.raises(OSError, match="connection lost"):
            await Middleware(closed, program=program, model="closed")(dict(scope), gone, refused)
        await Middleware(whole, program=program, model="whole")(dict(scope), gone, taken)
        waiting = Middleware(endless, program=program, model="cancelled")(dict(scope), gone, taken)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting, 0.01)

    asyncio.run(asked())
    found = told(program)
    assert found["inference_requests_total", "left", "499"] == 1
    assert found["inference_requests_total", "closed", "499"] == 1
    assert found["inference_requests_total", "whole", "200"] == 1
    assert found["inference_requests_total", "cancelled", "499"] == 1
    assert not [key for key in found if key[0] == "inference_errors_total"]


def test_functions_and_coroutines(program: ServingProgram) -> None:
    def plain(x: int, *, y: int = 1) -> int:
        """Divides."""
        CURRENT.get().tokens(completion=x)  # type: ignore[union-attr]
        return x // y

    async def later(x: int) -> int:
        await asyncio.sleep(0)
        return x

    ours = measured(plain, program, "plain", "1")
    assert (ours(4, y=2), ours.__doc__) == (2, "Divides.")
    with pytest.raises(ZeroDivisionError):
        ours(4, y=0)
    assert asyncio.run(measured(later, program, "later", "")(7)) == 7
    found = told(program)
    assert found["inference_requests_total", "plain", "1", "ok"] == 1
    assert found["inference_requests_total", "plain", "1", "error"] == 1
    assert found["inference_errors_total", "plain", "1", "ZeroDivisionError"] == 1
    assert found["inference_tokens_total", "plain", "1", "completion"] == 8
    assert found["inference_requests_total", "later", "ok"] == 1
    assert CURRENT.get() is None


def test_generators_pass_everything_through(program: ServingProgram) -> None:
    def tokens(n: int) -> Any:
        got = []
        for i in range(n):
            assert CURRENT.get() is not None
            try:
                got.append((yield i))
            except LookupError:
                got.append("caught")
        return got

    ours = measured(tokens, program, "stream", "")
    running = ours(3)
    assert next(running) == 0
    assert CURRENT.get() is None  # not while somebody else runs
    assert told(program)["inference_requests_running", "stream"] == 1
    assert running.send("a") == 1
    assert running.throw(LookupError()) == 2
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == ["a", "caught", None]
    left = ours(3)
    next(left)
    left.close()
    found = told(program)
    assert found["inference_requests_total", "stream", "ok"] == 1
    assert found["inference_requests_total", "stream", "cancelled"] == 1
    assert found["inference_time_to_first_token_seconds_count", "stream"] == 2
    assert found["inference_requests_running", "stream"] == 0


def test_async_generators_pass_everything_through(program: ServingProgram) -> None:
    async def tokens(n: int) -> Any:
        for i in range(n):
            assert CURRENT.get() is not None
            try:
                sent = yield i
            except LookupError:
                sent = "caught"
            if sent is not None:
                yield f"got {sent}"

    ours = measured(tokens, program, "stream", "")

    async def asked() -> None:
        assert [item async for item in ours(3)] == [0, 1, 2]
        running = ours(3)
        assert await anext(running) == 0
        assert CURRENT.get() is None
        assert await running.asend("a") == "got a"
        assert await anext(running) == 1
        assert await running.athrow(LookupError()) == "got caught"
        await running.aclose()
        failing = ours(3)
        await anext(failing)
        with pytest.raises(RuntimeError, match="boom"):
            await failing.athrow(RuntimeError("boom"))

    asyncio.run(asked())
    found = told(program)
    assert found["inference_requests_total", "stream", "ok"] == 1
    assert found["inference_requests_total", "stream", "cancelled"] == 1
    assert found["inference_errors_total", "stream", "RuntimeError"] == 1
    assert found["inference_requests_running", "stream"] == 0


def test_queues_that_are_watched_and_waits_that_are_told(program: ServingProgram) -> None:
    waiting: queue.Queue[int] = queue.Queue()
    waiting.put(1)
    waiting.put(2)
    program.queue(waiting, "batcher", "", "")
    program.queue(lambda: 4, "asked", "", "")
    told_of = program.queue(None, "own", "llama", "")
    entered = told_of.enter()
    told_of.enter()
    found = told(program)
    assert found["inference_queue_depth", "batcher"] == 2
    assert found["inference_queue_depth", "asked"] == 4
    assert found["inference_queue_depth", "own", "llama"] == 2
    told_of.leave(entered)
    with program.queue(None, "own", "llama", "").wait():
        assert told(program)["inference_queue_depth", "own", "llama"] == 2
    found = told(program)
    assert found["inference_queue_depth", "own", "llama"] == 1
    assert found["inference_queue_duration_seconds_count", "own", "llama"] == 2
    del waiting
    found = told(program)
    assert ("inference_queue_depth", "batcher") not in found  # it is gone: not kept alive by being watched


def test_queues_that_are_gone_make_room_for_others(program: ServingProgram) -> None:
    program.queue(lambda: 1 // 0, "broken", "", "")
    for number in range(3 * MOST_QUEUES):
        program.queue(queue.Queue(), f"of request {number}", "", "")
    last: queue.Queue[int] = queue.Queue()
    program.queue(last, "last", "", "")
    assert told(program)["inference_queue_depth", "last"] == 0
    assert "queue" not in program.guard.counts()


def test_bad_input_is_counted_and_never_raised(program: ServingProgram) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with program.begin(Unprintable(), 7) as request:
        request.tokens(prompt="many")  # type: ignore[arg-type]
        request.tokens(completion=-1)
    client = served(program, model=7, model_header=8, ignore=9)
    assert client.get("/predict").status_code == 200
    program.queue(7, "no queue", "", "")
    program.queue(lambda: 1 // 0, "broken", "", "")
    found = told(program)
    assert found["inference_requests_total", "unknown", "7", "ok"] == 1
    assert ("inference_queue_depth", "broken") not in found  # unknown is not zero
    assert found["inference_requests_total", "7", "200"] == 1
    assert program.guard.counts() == {"tokens": 2, "ignored paths": 1, "queue": 1, "queue depth": 1}


def test_models_beyond_the_bound_are_put_together_and_counted(program: ServingProgram) -> None:
    for number in range(MOST_MODELS + 3):
        with program.begin(f"m{number}"):
            pass
    found = told(program)
    assert found["inference_requests_total", "other", "ok"] == 3
    assert found[("trilens_sdk_models_put_together_total",)] == 3
    assert len({key[1] for key in found if key[0] == "inference_requests_total"}) == MOST_MODELS + 1


def test_many_threads_lose_nothing(program: ServingProgram) -> None:
    def work() -> None:
        for _ in range(500):
            with program.begin("m") as request:
                request.tokens(completion=2)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = told(program)
    assert found["inference_requests_total", "m", "ok"] == 2000
    assert found["inference_tokens_total", "m", "completion"] == 4000
    assert found["inference_requests_running", "m"] == 0


def test_the_decorator_with_and_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from trilens import serving

    monkeypatch.setattr(serving.PROGRAM, "needs_port", False)

    @serving.measure
    def plain() -> int:
        return 1

    @serving.measure(model="named-here")
    def named() -> int:
        return 2

    assert (plain(), named()) == (1, 2)
    assert 'inference_requests_total{model="named-here",code="ok"} 1' in serving.metrics_text()
    assert 'inference_requests_total{code="ok"} 1' in serving.metrics_text()


FORKS = """
import os, urllib.request
from trilens import serving

def page():
    return urllib.request.urlopen(f"http://{serving.address()}/metrics").read().decode()

with serving.request(model="m"):
    pass
before = serving.address()
waiting = serving.queue(name="gpu")
waiting.enter()
read, write = os.pipe()
if os.fork() == 0:
    with serving.request(model="m"):
        pass
    with serving.request(model="m"):
        pass
    empty = 'depth{queue="gpu"} 0' in page()
    waiting.enter()
    told = [serving.address() != before, 'code="ok"} 2' in page(), empty, 'depth{queue="gpu"} 1' in page()]
    os.write(write, repr(told).encode())
    os._exit(0)
os.wait()
print(os.read(read, 100).decode(), 'code="ok"} 1' in page(), 'depth{queue="gpu"} 1' in page())
"""


def test_a_forked_worker_has_a_port_and_counts_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "[True, True, True, True] True True\n", done.stderr

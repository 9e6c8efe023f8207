"""An HTTP/1.1 answer out of the bytes that come, without a socket: httptools (llhttp) finds the parts.

Only the body of a 200 answer is of use to anybody here, so no other answer's body is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import httptools

from trilens.collect.body_buffer import BodyBuffer
from trilens.model.errors import ScrapeLimitExceeded

if TYPE_CHECKING:
    from trilens.collect.body_buffer import BodyBuffers

_OK: Final = 200
_SWITCHING_PROTOCOLS: Final = 101
_LENGTH: Final = "content-length"
_MAX_BYTES_WITHOUT_BODY: Final = 64 * 1024  # room for any real head; an endless one ends here


class HttpFailure(Exception):
    """No answer could be had; the text says why."""


class Answer(NamedTuple):
    status: int
    reason: str
    headers: dict[str, str]  # by name in lower case
    body: bytes  # empty unless the status is 200


class AnswerReader:
    """Reads one answer after the other; `begin` before each, `drop` after one that did not come to its end.

    Bytes are read into `room()` and then `received`. The parser sees no more of them than it has to: a body
    whose length is known goes straight to where it is collected.
    """

    def __init__(self, scratch: memoryview, buffers: BodyBuffers) -> None:
        self._scratch = scratch
        self._body = BodyBuffer(buffers)
        self.begin(0)

    def begin(self, body_limit: int) -> None:
        self.started = False
        self._body_limit = body_limit
        self._body_length: int | None = None  # known when all that is still to come is body
        self._bytes_without_body = 0
        self._reason = b""
        self._headers: dict[str, str] = {}
        self._head: Answer | None = None
        self._answer: Answer | None = None
        self._complete = False
        self._keep_alive = False
        self._parser = httptools.HttpResponseParser(self)
        # Real exporters get these wrong, and Prometheus does not mind.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def drop(self) -> None:
        self._body.drop()

    def room(self) -> memoryview:
        if self._body_length is None:
            return self._scratch
        rest = self._body_length - self._body.size
        return self._body.room(rest + 1)  # with one more, it shows when too much comes

    def received(self, count: int) -> Answer | None:
        """The answer, once there is one."""
        self.started = True
        if self._body_length is None:
            self._parse(self._scratch[:count])
        else:
            self._body.filled(count)
            if self._body.size >= self._body_length:
                self._keep_alive = self._keep_alive and self._body.size == self._body_length
                self._finish(self._body_length)
        return self._take()

    def end(self) -> Answer:
        """The server has closed the connection. The answer, where that is how an answer ends."""
        if not self.started:
            raise HttpFailure("the server closed the connection without an answer")
        if self._head is None or _is_chunked(self._head) or _LENGTH in self._head.headers:
            raise HttpFailure("the server closed the connection in the middle of its answer")
        self._finish(self._body.size)
        answer = self._take()
        assert answer is not None
        return answer

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another exchange after the answer that was read."""
        return self._complete and self._keep_alive

    def _parse(self, data: memoryview) -> None:
        size_before = self._body.size
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as e:
            if self._answer is None:
                raise HttpFailure(f"the answer is not valid HTTP: {e}") from e
            self._keep_alive = False  # what follows the answer is not for us
        if self._answer is not None:
            self._check_size(len(self._answer.body))
            return
        if self._head is not None and not _is_chunked(self._head) and _LENGTH in self._head.headers:
            self._body_length = int(self._head.headers[_LENGTH])
        self._check_size(self._body_length or self._body.size)
        if self._body.size == size_before:
            self._bytes_without_body += len(data)
            if self._bytes_without_body > _MAX_BYTES_WITHOUT_BODY:
                raise HttpFailure(f"more than {_MAX_BYTES_WITHOUT_BODY} bytes came that are not body")

    def _check_size(self, body_size: int) -> None:
        if self._body_limit and body_size > self._body_limit:
            raise too_large(self._body_limit)

    def _finish(self, body_size: int) -> None:
        assert self._head is not None
        self._complete = True
        self._body_length = None  # what may still come is not body
        self._answer = self._head._replace(body=self._body.take(body_size))

    def _take(self) -> Answer | None:
        """Hand the answer over: a body kept here would stay in memory until the next scrape."""
        answer, self._answer = self._answer, None
        return answer

    # From here on, what the parser calls. Trailers, and a second answer that nobody asked for, come through
    # the same calls: what belongs to the answer is fixed when its head, and when its body, is complete.

    def on_message_begin(self) -> None:
        if self._complete:
            self._keep_alive = False

    def on_status(self, text: bytes) -> None:
        self._reason += text

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace").strip()

    def on_headers_complete(self) -> None:
        if self._head is not None:
            return
        status = self._parser.get_status_code()
        head = Answer(status, self._reason.decode("utf-8", "replace"), self._headers, b"")
        self._reason, self._headers = b"", {}
        if status < _OK and status != _SWITCHING_PROTOCOLS:
            return  # an interim answer: the one that counts is still to come
        self._head = head
        self._keep_alive = self._parser.should_keep_alive()
        if status != _OK:
            self._answer = head

    def on_body(self, data: bytes) -> None:
        if self._answer is None:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self._answer is not None:
            self._complete = True
        elif self._head is not None:
            self._finish(self._body.size)


def _is_chunked(head: Answer) -> bool:
    return head.headers.get("transfer-encoding", "").lower().endswith("chunked")


def too_large(limit: int) -> ScrapeLimitExceeded:
    return ScrapeLimitExceeded("body_size_limit", limit, "the answer has more bytes")

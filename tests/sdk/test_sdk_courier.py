"""Whatever goes wrong on the way: every batch arrives, in order, and only what arrived is forgotten."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.sdk.guard import Guard
from trilens.sdk.outbox.answer import Answer, NotTaken, Refused, Taken, TooLarge, Trouble, read_answer
from trilens.sdk.outbox.courier import Courier
from trilens.sdk.outbox.folder import About
from trilens.sdk.outbox.left import left_behind
from trilens.sdk.outbox.line import Header, Line, encode, split
from trilens.sdk.outbox.spool import Spool

WRITER = "a" * 32
FAULTS = (
    "fine",
    "away",  # before anything was taken
    "answer lost",  # after all of it was taken
    "part taken",
    "busy",
    "html",
    "too large",
)


class FaultyServer:
    """A transport that fails as told, then works. What was seen is in `seen`, with repetitions."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        self.seen: list[int] = []
        self.taken: list[int] = []

    def post(self, body: bytes, *, for_dead: bool = False, deadline_s: float | None = None) -> Answer:
        seqs = [line.seq for line in split(body, is_all=True).lines]
        fault = self.faults.pop(0) if self.faults else "fine"
        if fault in ("away", "busy", "html"):
            trouble = {"away": Trouble.AWAY, "busy": Trouble.BUSY, "html": Trouble.WRONG}[fault]
            return NotTaken(trouble, fault)
        if fault == "too large" and len(seqs) > 1:
            return TooLarge("too much")
        if fault == "part taken":
            seqs = seqs[: max(1, len(seqs) // 2)]
        self.seen += seqs
        self.taken += [seq for seq in seqs if not self.taken or seq > self.taken[-1]]
        return NotTaken(Trouble.AWAY, "timed out") if fault == "answer lost" else Taken(self.taken[-1], None)

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


def line(seq: int, size: int = 0) -> Line:
    return Line(seq, encode(Header("run", 0, WRITER), seq, 1, {"state": {"x": "y" * size}}))


def spool_in(root: Path) -> Spool:
    about = About("run", 0, WRITER, "http://here", 1, "host", 1)
    return Spool(root, about, Guard(), disk_bytes=8 * 2**20, memory_bytes=2**20)


events = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 30_000)),
    st.tuples(st.just("send"), st.just(0)),
    st.tuples(st.just("crash"), st.just(0)),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(events, max_size=40), st.lists(st.sampled_from(FAULTS), max_size=40))
def test_every_batch_arrives_in_order_through_any_faults_and_crashes(
    story: list[tuple[str, int]], faults: list[str]
) -> None:
    server = FaultyServer(faults)
    guard = Guard()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        spool = spool_in(root)
        courier = Courier(server, guard)
        told = 0
        for what, size in story:
            if what == "put":
                spool.append(line(told, size))
                told += 1
            elif what == "send":
                courier.take(spool)
                waiting = [one.seq for one in spool.oldest(2**30)]
                assert not waiting or waiting[0] <= (server.taken[-1] + 1 if server.taken else 0)
            else:  # its process is killed; another one sends what it left
                spool.close()
                for left in left_behind(root, guard):
                    courier.take(left)
                    left.close()
                break
        else:
            spool.close()
        for left in left_behind(root, guard):
            for _ in range(200):  # faults and halvings come to an end
                if courier.take(left) is None:
                    break
            left.close()
        assert server.taken == list(range(told)), "each once, in order, as a reader sees them"
        assert guard.counts() == {}
        assert list(root.iterdir()) == [], "what arrived is deleted"


def test_one_batch_that_is_refused_is_lost_alone(tmp_path: Path) -> None:
    class Refusing(FaultyServer):
        def post(self, body: bytes, *, for_dead: bool = False, deadline_s: float | None = None) -> Answer:
            seqs = [one.seq for one in split(body, is_all=True).lines]
            if 3 in seqs:
                self.taken += [seq for seq in seqs if seq < 3]
                return Refused(3, "steps: columns of unequal length")
            return super().post(body)

    server, guard, spool = Refusing([]), Guard(), spool_in(tmp_path)
    for seq in range(6):
        spool.append(line(seq))
    courier = Courier(server, guard)
    while courier.take(spool) is not None:
        pass
    assert server.taken == [0, 1, 2, 4, 5]
    assert guard.counts() == {"records": 1}


def test_one_batch_that_is_too_large_is_lost_alone(tmp_path: Path) -> None:
    class Picky(FaultyServer):
        def post(self, body: bytes, *, for_dead: bool = False, deadline_s: float | None = None) -> Answer:
            if len(body) > 5_000:
                return TooLarge("too much")
            return super().post(body)

    server, guard, spool = Picky([]), Guard(), spool_in(tmp_path)
    for seq in range(40):
        spool.append(line(seq, size=20_000 if seq == 17 else 500))
    courier = Courier(server, guard)
    for _ in range(200):
        if courier.take(spool) is None:
            break
    assert server.taken == [seq for seq in range(40) if seq != 17]
    assert guard.counts() == {"records": 1}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b'{"status":"success","data":{"seq":4,"interval_s":2.5}}', Taken(4, 2.5)),
        (200, b'{"status":"success","data":{"seq":null}}', Taken(None, None)),
        (200, b"<html>", Trouble.WRONG),
        (200, b'{"data":[]}', Trouble.WRONG),
        (301, b"", Trouble.WRONG),
        (404, b"not here", Trouble.WRONG),
        (400, b"<html>bad request</html>", Trouble.WRONG),
        (400, b'{"error":"batch seq 12: steps"}', Refused(12, "batch seq 12: steps")),
        (400, b'{"error":"bad","data":{"seq":12}}', Refused(12, "bad")),
        (400, b'{"error":"this server keeps no records"}', Trouble.WRONG),
        (401, b'{"error":"no token"}', Trouble.TOKEN),
        (403, b"", Trouble.TOKEN),
        (413, b"", TooLarge("HTTP 413")),
        (429, b"", Trouble.BUSY),
        (500, b"", Trouble.BUSY),
        (503, b'{"error":"full"}', Trouble.BUSY),
        (507, b"", Trouble.BUSY),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, bytes) else value.decode()[:30],
)
def test_what_an_answer_means(status: int, body: bytes, expected: Answer | Trouble) -> None:
    answer = read_answer(status, None, body)
    if isinstance(expected, Trouble):
        assert isinstance(answer, NotTaken)
        assert answer.trouble is expected
    else:
        assert answer == expected


@pytest.mark.parametrize(("text", "expected"), [("7", 7.0), ("soon", None), ("-1", 0.0), ("1e9", 300.0)])
def test_retry_after_is_obeyed_within_reason(text: str, expected: float | None) -> None:
    answer = read_answer(503, text, b"")
    assert isinstance(answer, NotTaken)
    assert answer.retry_after_s == expected


def test_a_server_that_says_it_has_more_than_it_was_sent_costs_nothing(tmp_path: Path) -> None:
    class Boasting(FaultyServer):
        def post(self, body: bytes, *, for_dead: bool = False, deadline_s: float | None = None) -> Answer:
            super().post(body)
            return Taken(10**9, None)

    server, spool = Boasting([]), spool_in(tmp_path)
    for seq in range(6):
        spool.append(line(seq, size=400_000))
    courier = Courier(server, Guard())
    while courier.take(spool) is not None:
        pass
    assert server.taken == list(range(6))

"""The outbox against a server over real HTTP: there, away, back again, and wrong in every way."""

from __future__ import annotations

import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from records_server import RecordsServer, Reply, listening
from servers import free_port
from trilens.sdk.guard import Guard
from trilens.sdk.options import Options
from trilens.sdk.outbox import Header, Outbox, shipping
from trilens.sdk.outbox.left import left_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WRITER = "b" * 32


@pytest.fixture
def server() -> Iterator[RecordsServer]:
    yield RecordsServer()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.sdk.outbox.backoff.FIRST_S", 0.02)


class Program:
    """What the SDK does: tells numbered things once in a while."""

    def __init__(self, root: Path, url: str | None, *, writer: str = WRITER, **options: Any) -> None:
        self.guard = Guard()
        self.process: dict[str, Any] = {"pid": 1}
        chosen = {"heartbeat_s": 0.05, "spool_dir": root, "server": url, **options}
        header = Header("run-1", 2, writer)
        self.outbox = Outbox(
            Options(**chosen), header, self.guard, lambda: dict(self.process), lambda: {"step": 7}
        )

    def tell(self, *numbers: int) -> None:
        for number in numbers:
            self.outbox.put({"notes": [{"n": number}]})


def told(server: RecordsServer, writer: str = WRITER) -> list[int]:
    return [note["n"] for batch in server.batches.get(writer, []) for note in batch.get("notes", [])]


def test_records_arrive_with_who_sends_them_and_the_spool_is_empty_after(
    tmp_path: Path, server: RecordsServer
) -> None:
    with listening(server) as url:
        program = Program(tmp_path, url, token="secret")
        program.tell(0, 1, 2)
        server.wait_until(lambda: told(server) == [0, 1, 2])
        program.outbox.close(5)
    first, second, _ = server.batches[WRITER]
    assert {name: first[name] for name in ("v", "run", "rank", "writer", "seq")} == {
        "v": 1,
        "run": "run-1",
        "rank": 2,
        "writer": WRITER,
        "seq": 0,
    }
    assert first["process"] == {"pid": 1}
    assert "process" not in second
    assert second["state"] == {"step": 7, "heartbeat_s": 0.05}
    assert server.requests[0].token == "Bearer secret"
    assert list(tmp_path.iterdir()) == []
    assert program.guard.counts() == {}


def test_a_silent_program_sends_heartbeats_that_introduce_it(tmp_path: Path, server: RecordsServer) -> None:
    with listening(server) as url:
        program = Program(tmp_path, url)
        server.wait_until(lambda: len(server.heartbeats) >= 2)
        program.tell(0)
        server.wait_until(lambda: told(server) == [0])
        seen = len(server.heartbeats)
        server.wait_until(lambda: len(server.heartbeats) > seen)
        program.outbox.close(5)
    assert server.heartbeats[0]["process"] == {"pid": 1}
    assert "process" not in server.heartbeats[-1]
    assert server.heartbeats[-1]["seq"] is None
    assert server.batches[WRITER][0]["seq"] == 0, "a heartbeat is not counted"
    assert server.batches[WRITER][0]["process"] == {"pid": 1}, "and what it says may be lost"


def test_what_became_known_of_the_process_is_told_again(tmp_path: Path, server: RecordsServer) -> None:
    with listening(server) as url:
        program = Program(tmp_path, url)
        program.tell(0, 1)
        program.process["gpus"] = ["GPU-1"]
        program.tell(2, 3)
        program.outbox.close(5)
    assert ["process" in batch for batch in server.batches[WRITER]] == [True, False, True, False]


def test_a_batch_that_cannot_be_written_does_not_take_the_introduction_with_it(
    tmp_path: Path, server: RecordsServer
) -> None:
    class Unreadable:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with listening(server) as url:
        program = Program(tmp_path, url)
        with pytest.raises(RuntimeError):
            program.outbox.put({"notes": [Unreadable()]})
        program.tell(0)
        program.outbox.close(5)
    (batch,) = server.batches[WRITER]
    assert (batch["seq"], batch["process"]) == (0, {"pid": 1})


def test_a_server_that_comes_late_gets_everything_in_order(tmp_path: Path, server: RecordsServer) -> None:
    port = free_port()
    program = Program(tmp_path, f"http://127.0.0.1:{port}")
    program.tell(*range(20))
    until(lambda: program.outbox.standing().is_reached is False)
    with listening(server, port):
        server.wait_until(lambda: told(server) == list(range(20)))
        until(lambda: program.outbox.standing().is_reached is True)
        program.tell(20)
        program.outbox.close(5)
    assert told(server) == list(range(21))
    assert "process" in server.batches[WRITER][-1], "told again to a server that was away"
    assert program.guard.counts() == {}


def test_a_server_that_goes_and_comes_back_sees_each_record_once(
    tmp_path: Path, server: RecordsServer
) -> None:
    port = free_port()
    program = Program(tmp_path, f"http://127.0.0.1:{port}")
    with listening(server, port):
        program.tell(0, 1)
        server.wait_until(lambda: told(server) == [0, 1])
    program.tell(2, 3)
    with listening(server, port):
        program.tell(4)
        server.wait_until(lambda: told(server) == [0, 1, 2, 3, 4])
        program.outbox.close(5)
    assert told(server) == [0, 1, 2, 3, 4]
    assert list(tmp_path.iterdir()) == []


def test_a_connection_that_the_server_closed_while_nobody_used_it_is_no_trouble(
    tmp_path: Path, server: RecordsServer, caplog: pytest.LogCaptureFixture
) -> None:
    with listening(server) as url, caplog.at_level(logging.INFO, "trilens"):
        program = Program(tmp_path, url)
        for number in range(5):
            program.tell(number)
            server.wait_until(lambda number=number: told(server)[-1:] == [number])
            until(lambda: program.outbox.standing().waiting_bytes == 0)
            server.end_connections()
        program.outbox.close(5)
    assert caplog.records == []


def full() -> Reply:
    return Reply(503, b'{"error":"full"}', (("Retry-After", "0"),))


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>hello</html>"),
        Reply(302, b"", (("Location", "http://elsewhere/"),)),
        Reply(404, b"not found"),
        Reply(401, b'{"error":"token?"}'),
        full(),
        Reply(507),
        Reply(429, b"", (("Retry-After", "0"),)),
    ],
    ids=lambda reply: str(reply.status),
)
def test_records_are_kept_through_wrong_answers(
    tmp_path: Path, server: RecordsServer, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    server.bad_replies.extend([reply, reply])
    with listening(server) as url, caplog.at_level(logging.WARNING, "trilens"):
        program = Program(tmp_path, url)
        program.tell(0, 1, 2)
        server.wait_until(lambda: told(server) == [0, 1, 2])
        program.outbox.close(5)
    assert program.guard.counts() == {}
    (line,) = [record for record in caplog.records if "records wait" in record.message]
    assert url in line.message


def test_an_answer_that_does_not_come_is_not_waited_for_long_and_nothing_is_taken_twice(
    tmp_path: Path, server: RecordsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.sdk.outbox.transport._TIMEOUT_S", 0.2)
    release = threading.Event()

    def never() -> None:
        server.changed.release()  # others are served meanwhile
        release.wait(20)
        server.changed.acquire()

    server.bad_replies.append(never)  # taken, in the end, but nobody waits for the answer any more
    with listening(server) as url:
        program = Program(tmp_path, url)
        program.tell(0, 1, 2)
        server.wait_until(lambda: told(server) == [0, 1, 2])
        release.set()
        program.outbox.close(5)
    assert told(server) == [0, 1, 2]
    assert program.guard.counts() == {}


def test_a_batch_that_the_server_cannot_read_is_counted_and_the_others_arrive(
    tmp_path: Path, server: RecordsServer
) -> None:
    server.refused = {2}
    with listening(server) as url:
        program = Program(tmp_path, url)
        program.tell(*range(5))
        server.wait_until(lambda: told(server) == [0, 1, 3, 4])
        program.outbox.close(5)
    assert program.guard.counts() == {"records": 1}


def test_requests_become_smaller_for_a_server_that_takes_little(
    tmp_path: Path, server: RecordsServer
) -> None:
    server.max_bytes = 1000
    with listening(server) as url:
        program = Program(tmp_path, url)
        program.tell(*range(5))
        program.outbox.put({"notes": [{"n": 5, "text": "x" * 5000}]})
        program.tell(6)
        server.wait_until(lambda: told(server) == [0, 1, 2, 3, 4, 6])
        program.outbox.close(5)
    assert program.guard.counts() == {"records": 1}


@pytest.mark.parametrize(("asked", "obeyed"), [(5.0, 5.0), (0.01, 1.0), (1e9, 30.0), ("soon", 0.05)])
def test_the_server_may_ask_for_another_pace_within_bounds(
    tmp_path: Path, server: RecordsServer, asked: Any, obeyed: float
) -> None:
    server.interval_s = asked
    with listening(server) as url:
        program = Program(tmp_path, url)
        program.tell(0)
        server.wait_until(lambda: told(server) == [0])
        until(lambda: program.outbox.standing().waiting_bytes == 0)
        program.tell(1)
        program.outbox.close(5)
    assert server.batches[WRITER][-1]["state"]["heartbeat_s"] == obeyed


def test_what_the_end_did_not_send_is_sent_by_the_next_process(tmp_path: Path, server: RecordsServer) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    first = Program(tmp_path, url, writer="1" * 32)
    first.tell(0, 1)
    first.outbox.close(0.2)
    with listening(server, port):
        second = Program(tmp_path, url, writer="2" * 32)
        second.tell(10)
        server.wait_until(lambda: told(server, "1" * 32) == [0, 1])
        second.outbox.close(5)
    assert told(server, "2" * 32) == [10]
    of_dead = [request for request in server.requests if "for_dead=true" in request.path]
    assert {batch["writer"] for request in of_dead for batch in request.batches} == {"1" * 32}
    assert all(
        batch["writer"] == "2" * 32
        for request in server.requests
        if request not in of_dead
        for batch in request.batches
    )
    assert list(tmp_path.iterdir()) == []


def test_the_server_hears_of_the_lives_of_a_rank_in_their_order(
    tmp_path: Path, server: RecordsServer
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    for digit in "31":  # not the order of their names
        program = Program(tmp_path, url, writer=digit * 32)
        program.tell(0)
        program.outbox.close(0.2)
    with listening(server, port):
        last = Program(tmp_path, url, writer="2" * 32)
        last.tell(0)
        server.wait_until(lambda: len(server.batches) == 3)
        last.outbox.close(5)
    assert [*server.batches] == ["3" * 32, "1" * 32, "2" * 32]


def test_the_end_is_not_held_up_by_a_server_that_never_answers(tmp_path: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        program = Program(tmp_path, f"http://127.0.0.1:{deaf.getsockname()[1]}")
        program.tell(0)
        closing = threading.Thread(target=program.outbox.close, args=(0.3,))
        closing.start()
        closing.join(10)
        assert not closing.is_alive()
    (left,) = left_behind(tmp_path, Guard())
    assert [line.seq for line in left.oldest(1000)] == [0]
    left.close()


def test_a_read_only_disk_costs_one_line_and_nothing_while_the_server_is_there(
    tmp_path: Path, server: RecordsServer, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with listening(server) as url, caplog.at_level(logging.WARNING, "trilens"):
        program = Program(tmp_path / "file" / "spool", url)
        program.tell(0, 1, 2)
        server.wait_until(lambda: told(server) == [0, 1, 2])
        program.outbox.close(5)
    assert program.guard.counts() == {"spool": 1}
    assert len(caplog.records) == 1


def test_without_a_named_server_one_quiet_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trilens.sdk.outbox.outbox.DEFAULT_SERVER", f"http://127.0.0.1:{free_port()}")
    with caplog.at_level(logging.INFO, "trilens"):
        program = Program(tmp_path, None)
        program.tell(0)
        until(lambda: program.outbox.standing().is_reached is False)
        program.tell(1)
        program.outbox.close(1)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "TRILENS_SERVER" in record.message


def test_two_programs_of_one_machine_do_not_send_each_others_records(
    tmp_path: Path, server: RecordsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "_LOOK_FOR_DEAD_S", 0.0)
    with listening(server) as url:
        programs = [Program(tmp_path, url, writer=digit * 32) for digit in "12"]
        for number in range(5):
            for program in programs:
                program.tell(number)
        for digit in "12":
            server.wait_until(lambda digit=digit: told(server, digit * 32) == list(range(5)))
        seen = len(server.heartbeats)
        server.wait_until(lambda: len(server.heartbeats) > seen + 4)
        for program in programs:
            program.outbox.close(5)
    assert not any("for_dead" in request.path for request in server.requests)


def test_use_after_the_end_is_no_error(tmp_path: Path, server: RecordsServer) -> None:
    with listening(server) as url:
        program = Program(tmp_path, url)
        program.tell(0)
        program.outbox.close(5)
        program.tell(1)
        program.outbox.close(5)
    assert told(server) == [0]
    assert list(tmp_path.iterdir()) == []


def until(condition: Callable[[], bool]) -> None:
    """For what only the outbox's own thread changes."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)

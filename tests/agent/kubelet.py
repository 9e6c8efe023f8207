"""The kubelet's pod-resources service: gRPC over a Unix socket, as far as one List goes."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events

if TYPE_CHECKING:
    from pathlib import Path

Owner = tuple[str, str, str]  # namespace, pod, container


def field(number: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def response(given: dict[Owner, dict[str, list[str]]]) -> bytes:
    """ListPodResourcesResponse, with the fields that are of no interest too."""
    pods = b""
    for (namespace, pod, container), resources in given.items():
        devices = b"".join(
            field(
                2,
                field(1, resource)
                + b"".join(field(2, name) for name in names)
                + field(3, field(1, b"\x08\x01")),
            )
            for resource, names in resources.items()
        )
        numbers = varint(3 << 3) + varint(300)  # cpu_ids, a varint
        pods += field(
            1, field(1, pod) + field(2, namespace) + field(3, field(1, container) + devices + numbers)
        )
    return pods


class Kubelet:
    """Answers every List with `message`, or as `status` and `http` say."""

    def __init__(self, path: Path, message: bytes = b"") -> None:
        self.message = message
        self.status = "0"
        self.truncated = False
        self.requests: list[dict[str, str]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            with stream, contextlib.suppress(OSError):  # the client may go as soon as it has its answer
                self._answer(stream)

    def _answer(self, stream: socket.socket) -> None:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        stream.sendall(connection.data_to_send())
        rest: bytes | None = None
        number = 0
        while received := stream.recv(65536):
            for event in connection.receive_data(received):
                if isinstance(event, h2.events.RequestReceived):
                    number = event.stream_id
                    self.requests.append({bytes(k).decode(): bytes(v).decode() for k, v in event.headers})
                elif isinstance(event, h2.events.StreamEnded):
                    connection.send_headers(
                        number, [(":status", "200"), ("content-type", "application/grpc")]
                    )
                    rest = b"\0" + len(self.message).to_bytes(4, "big") + self.message
                    if self.truncated:
                        rest = rest[:-1]
            while rest:
                size = min(
                    connection.local_flow_control_window(number),
                    connection.max_outbound_frame_size,
                    len(rest),
                )
                if size == 0:
                    break  # the client has to say first that it took what it got
                connection.send_data(number, rest[:size])
                rest = rest[size:]
            if rest == b"":
                trailers = [("grpc-status", self.status), ("grpc-message", "no such luck")]
                connection.send_headers(number, trailers, end_stream=True)
                rest = None
            stream.sendall(connection.data_to_send())

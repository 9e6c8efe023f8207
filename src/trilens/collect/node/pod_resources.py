"""Which container has which device: the kubelet's pod-resources API, one gRPC call over its Unix socket.

A unary call is a POST over HTTP/2 with five bytes before the message, and h2 speaks HTTP/2 in pure Python.
The grpcio package would be the agent's largest part by far, for this one call.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, NamedTuple

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from trilens.collect.node.protobuf import WireError, messages, read_message, text, texts
from trilens.model.errors import NodeError

if TYPE_CHECKING:
    from pathlib import Path

_METHOD: Final = "/v1.PodResourcesLister/List"
_TIMEOUT_S: Final = 10.0
_LARGEST_BYTES: Final = 16 * 1024 * 1024
_PREFIX_BYTES: Final = 5  # compressed or not, and the message's length


class Device(NamedTuple):
    """A device that a container was given."""

    namespace: str
    pod: str
    container: str
    resource: str  # nvidia.com/gpu, nvidia.com/mig-1g.10gb, or the driver of a resource claim
    device_id: str  # as the device plugin names it: a UUID, for time-slicing with ::N after it


def list_devices(path: Path) -> list[Device]:
    return parse_response(_call(path))


def parse_response(message: bytes) -> list[Device]:
    """ListPodResourcesResponse of pod-resources v1. Fields that are not needed are passed over."""
    devices: list[Device] = []
    try:
        for pod in messages(read_message(message), 1):
            name, namespace = text(pod, 1), text(pod, 2)
            for container in messages(pod, 3):
                owner = (namespace, name, text(container, 1))
                for given in messages(container, 2):
                    devices += [Device(*owner, text(given, 1), device) for device in texts(given, 2)]
                for claimed in messages(container, 5):
                    for part in messages(claimed, 4):
                        devices.append(Device(*owner, text(part, 2), f"{text(part, 3)}/{text(part, 4)}"))
    except WireError as e:
        raise NodeError(f"the kubelet's list of devices does not decode: {e}") from e
    return devices


def _call(path: Path) -> bytes:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(_TIMEOUT_S)
            stream.connect(str(path))
            return _exchange(stream)
    except OSError as e:
        reason = e.strerror or str(e) or type(e).__name__
        raise NodeError(f"cannot ask the kubelet at {path}: {reason}") from e
    except h2.exceptions.H2Error as e:
        raise NodeError(f"the kubelet at {path} does not speak HTTP/2 as it should: {e}") from e


def _exchange(stream: socket.socket) -> bytes:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    number = connection.get_next_available_stream_id()
    connection.send_headers(
        number,
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", _METHOD),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ],
    )
    connection.send_data(number, bytes(_PREFIX_BYTES), end_stream=True)  # the request has no fields
    stream.sendall(connection.data_to_send())
    body = bytearray()
    headers: dict[bytes, bytes] = {}
    while True:
        received = stream.recv(65536)
        if not received:
            raise NodeError("the kubelet closed the connection before it had answered")
        for event in connection.receive_data(received):
            if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                headers |= {bytes(name): bytes(value) for name, value in event.headers or ()}
            elif isinstance(event, h2.events.DataReceived):
                body += event.data or b""
                if len(body) > _LARGEST_BYTES:
                    raise NodeError(f"the kubelet's list of devices is larger than {_LARGEST_BYTES} bytes")
                connection.acknowledge_received_data(event.flow_controlled_length or 0, number)
            elif isinstance(event, h2.events.StreamEnded):
                return _message(headers, bytes(body))
            elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                raise NodeError("the kubelet broke off its answer")
        if pending := connection.data_to_send():
            stream.sendall(pending)


def _message(headers: dict[bytes, bytes], body: bytes) -> bytes:
    status = headers.get(b"grpc-status")
    if status != b"0":
        reason = headers.get(b"grpc-message", headers.get(b":status", b"no status")).decode(
            "utf-8", "replace"
        )
        raise NodeError(f"the kubelet refused to list devices: {reason}")
    size = int.from_bytes(body[1:_PREFIX_BYTES], "big")
    if len(body) != _PREFIX_BYTES + size or body[0] != 0:
        raise NodeError("the kubelet's answer is cut short, or compressed without being asked")
    return body[_PREFIX_BYTES:]

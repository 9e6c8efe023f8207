"""Which container has which GPU, as the kubelet tells it."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest
from kubelet import Kubelet, field, response
from recorded_nvml import UUID, RecordedNvml, recording

from trilens.collect.node.holders import holdings, labels_by_uuid
from trilens.collect.node.pod_resources import Device, list_devices, parse_response
from trilens.model.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIG = "MIG-1b7ad3c1-9d16-5c0a-9d7f-0d3a4a5b6c7d"
TRAIN = ("llm", "train-0", "main")
GPUS = [gpu.identity for gpu in RecordedNvml(recording("h200_idle")).gpus()]


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    server = Kubelet(
        tmp_path / "kubelet.sock", response({TRAIN: {"nvidia.com/gpu": [UUID], "rdma/hca": ["mlx5_0"]}})
    )
    yield server
    server.close()


def test_a_list_over_the_socket(kubelet: Kubelet, tmp_path: Path) -> None:
    assert list_devices(tmp_path / "kubelet.sock") == [
        Device("llm", "train-0", "main", "nvidia.com/gpu", UUID),
        Device("llm", "train-0", "main", "rdma/hca", "mlx5_0"),
    ]
    (request,) = kubelet.requests
    assert request[":path"] == "/v1.PodResourcesLister/List"
    assert (request["content-type"], request["te"]) == ("application/grpc", "trailers")


def test_an_answer_larger_than_the_flow_control_window(kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.message = response(
        {("n", f"pod-{number}", "c"): {"nvidia.com/gpu": [UUID]} for number in range(5000)}
    )
    assert len(kubelet.message) > 4 * 65536
    devices = list_devices(tmp_path / "kubelet.sock")
    assert [device.pod for device in devices] == [f"pod-{number}" for number in range(5000)]


def test_a_refusal_says_why(kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.status = "8"
    with pytest.raises(NodeError, match="no such luck"):
        list_devices(tmp_path / "kubelet.sock")


def test_an_answer_cut_short(kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.truncated = True
    with pytest.raises(NodeError, match="cut short"):
        list_devices(tmp_path / "kubelet.sock")


def test_no_socket(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="No such file"):
        list_devices(tmp_path / "kubelet.sock")


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (bytes(9), "does not speak HTTP/2"),  # a frame of data that nobody asked for
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_something_else_on_the_socket(tmp_path: Path, sent: bytes, complaint: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "other.sock"))
        listener.listen()

        def answer() -> None:
            stream, _ = listener.accept()
            with stream:
                stream.recv(65536)
                stream.sendall(sent)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NodeError, match=complaint):
            list_devices(tmp_path / "other.sock")
        thread.join()


@pytest.mark.parametrize("message", [b"\x0a\x05abc", b"\x0b", b"\xff" * 11, b"\x0d\x00", b"\x0a"])
def test_bytes_that_are_no_message(message: bytes) -> None:
    with pytest.raises(NodeError, match="does not decode"):
        parse_response(message)


def test_devices_by_claim() -> None:
    """Dynamic resource allocation: ClaimResource has cdi_devices, driver, pool and device."""
    part = (
        field(1, field(1, "k8s.gpu.nvidia.com/claim=x"))
        + field(2, "gpu.nvidia.com")
        + field(3, "node-1")
        + field(4, "gpu-0")
    )
    claimed = field(5, field(2, "claim") + field(3, "llm") + field(4, part))
    message = field(1, field(1, "train-0") + field(2, "llm") + field(3, field(1, "main") + claimed))
    assert parse_response(message) == [Device("llm", "train-0", "main", "gpu.nvidia.com", "node-1/gpu-0")]


@pytest.mark.parametrize(
    ("device_id", "expected"),
    [
        (UUID, [(UUID, "")]),
        (f"{UUID}::3", [(UUID, "3")]),  # time-sliced by NVIDIA's device plugin
        (MIG, [(MIG, "")]),
        (f"MIG-{UUID}/7/0", [(f"MIG-{UUID}/7/0", "")]),  # of drivers before 470
        ("0", [(UUID, "")]),  # by number
        ("nvidia0", [(UUID, "")]),  # as on GKE
        ("nvidia0/vgpu1", [(UUID, "1")]),
        ("nvidia7", []),
        ("mlx5_0", []),
    ],
)
def test_names_of_gpus(device_id: str, expected: list[tuple[str, str]]) -> None:
    held = holdings([Device(*TRAIN, "nvidia.com/gpu", device_id)], GPUS, {})
    assert [(holding.uuid, holding.replica) for holding in held] == expected


def test_only_one_holder_gives_its_name_to_a_gpu() -> None:
    devices = [
        Device("llm", "train-0", "main", "nvidia.com/gpu", f"{UUID}::0"),
        Device("llm", "notebook", "main", "nvidia.com/gpu", f"{UUID}::1"),
        Device("llm", "small", "main", "nvidia.com/mig-1g.18gb", MIG),
    ]
    assert labels_by_uuid(holdings(devices, GPUS, {})) == {
        MIG: {"container": "main", "namespace": "llm", "pod": "small"}
    }

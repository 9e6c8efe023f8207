"""The whole agent: a node's files and sockets in, HTTP out."""

from __future__ import annotations

import getpass
import json
import shutil
import ssl
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from kubelet import Kubelet, response
from machine import LAST, Lines, Node
from proc_tree import POD_UID, TORCHRUN
from recorded_nvml import UUID

from certificates import make_authority, sign
from trilens.collect.node.agent import NodeAgent
from trilens.collect.node.asking import Asker, Overdue
from trilens.collect.node.endpoint import Endpoint
from trilens.model.errors import ConfigError, NodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trilens.collect.node.kernel_log import LogLine


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def kubelet(node: Node) -> Iterator[Kubelet]:
    server = Kubelet(
        node.folder / "kubelet.sock", response({("llm", "train-0", "main"): {"nvidia.com/gpu": [UUID]}})
    )
    yield server
    server.close()


@pytest.fixture
def agent(node: Node) -> Iterator[NodeAgent]:
    agent = node.agent()
    agent.start()
    yield agent
    agent.stop()


def metrics(agent: NodeAgent, *names: str) -> list[str]:
    return [line for line in agent.metrics().decode().splitlines() if line.partition("{")[0] in names]


def log_fault(node: Node, line: str = LAST, t_ms: float | None = None) -> None:
    node.kernel_log.write(line, t_ms)
    assert node.kernel_log.idle.wait(10)


def events(agent: NodeAgent) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.events(0)["events"]
    return found


def test_a_fault_is_counted_once_and_carries_its_process_and_pod(node: Node, agent: NodeAgent) -> None:
    assert metrics(agent, "trilens_gpu_xid_total") == []
    gpu = f'gpu="0",UUID="{UUID}",pci_bus_id="00000000:00:06.0"'
    assert metrics(agent, "trilens_gpu_xid_any_total") == [
        f'trilens_gpu_xid_any_total{{{gpu},Hostname="h200-1"}} 0'
    ]
    log_fault(node, LAST.replace("pid=523", "pid=463"))
    assert metrics(agent, "trilens_gpu_xid_total", "trilens_gpu_xid_any_total") == [
        f'trilens_gpu_xid_total{{{gpu},xid="31",Hostname="h200-1"}} 1',
        f'trilens_gpu_xid_any_total{{{gpu},Hostname="h200-1"}} 1',
    ]
    assert metrics(agent, "DCGM_FI_DEV_XID_ERRORS")[0].endswith("} 31")
    (event,) = events(agent)
    assert (event["code"], event["pid"], event["process_name"], event["uuid"]) == (31, 463, "python3", UUID)
    assert event["process"]["rank"] == 0
    assert event["pods"] == [{"namespace": "llm", "pod": "train-0", "uid": POD_UID}]
    assert (event["by"], event["asks"]) == ("process", "application")


def test_a_restart_counts_nothing_again(node: Node) -> None:
    before = node.agent()
    before.start()
    log_fault(node)
    before.stop()
    node.kernel_log = Lines()  # the same log, read from its beginning
    after = node.agent()
    after.start()
    log_fault(node)  # the same record: its place is the same
    assert metrics(after, "trilens_gpu_xid_any_total")[0].endswith("} 1")
    log_fault(node)  # a new one
    assert metrics(after, "trilens_gpu_xid_any_total")[0].endswith("} 2")
    assert [event["number"] for event in events(after)] == [1, 2]
    after.stop()


def test_a_process_that_has_ended_is_remembered(node: Node, agent: NodeAgent) -> None:
    for file in (node.proc.folder / "463").iterdir():
        file.unlink()
    (node.proc.folder / "463").rmdir()
    log_fault(node, LAST.replace("pid=523", "pid=463"))
    (event,) = events(agent)
    assert event["process"]["local_rank"] == 0
    assert event["pods"][0]["pod"] == "train-0"


def test_a_number_that_another_process_has_now_is_not_blamed(node: Node, agent: NodeAgent) -> None:
    node.proc.add(523, "innocent", ticks=10**9)  # started long after the fault
    log_fault(node, LAST, t_ms=1_794_722_274_586)
    (event,) = events(agent)
    assert (event["process"], event["pods"], event["by"]) == (None, [], None)
    assert (event["pid"], event["process_name"]) == (523, "python3")


def test_without_a_process_whoever_holds_the_gpu(node: Node, kubelet: Kubelet, agent: NodeAgent) -> None:
    off_the_bus = (
        "NVRM: Xid (PCI:0000:00:06): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    )
    log_fault(node, off_the_bus)
    log_fault(node, off_the_bus, t_ms=1_794_722_274_586)  # long ago: who held it then is not known
    now, then = events(agent)
    assert now["pods"] == [{"namespace": "llm", "pod": "train-0", "uid": None}]
    assert (now["by"], then["by"], then["pods"]) == ("device", None, [])


MIG_UUID = "MIG-3c1f0a55-2d5b-5f0e-9c39-6a1f4b7d2e11"


@pytest.fixture
def divided(node: Node, kubelet: Kubelet) -> Iterator[NodeAgent]:
    """Instance 2 is a notebook's, instance 3 another pod's."""
    other = MIG_UUID.replace("11", "12")
    node.nvml.recorded["gpus"][0]["mig"] = [
        {
            "identity": {"uuid": uuid, "gpu_instance": number, "compute_instance": 0, "profile": "1g.18gb"},
            "calls": {},
            "activity": {},
        }
        for number, uuid in ((2, MIG_UUID), (3, other))
    ]
    resource = "nvidia.com/mig-1g.18gb"
    kubelet.message = response(
        {("ml", "notebook", "main"): {resource: [MIG_UUID]}, ("ml", "other", "main"): {resource: [other]}}
    )
    agent = node.agent()
    agent.start()
    yield agent
    agent.stop()


def test_a_mig_device_is_named_by_its_gpu_and_instance(divided: NodeAgent) -> None:
    notebook, _ = metrics(divided, "trilens_node_device_info")
    assert f'UUID="{UUID}",GPU_I_ID="2",GPU_I_PROFILE="1g.18gb",mig_uuid="{MIG_UUID}"' in notebook
    told, _ = divided.devices()["devices"]
    assert (told["uuid"], told["gpu_uuid"], told["gpu_instance"]) == (MIG_UUID, UUID, 2)


def test_a_fault_of_an_instance_hits_who_holds_it(node: Node, divided: NodeAgent) -> None:
    told = "pid='<unknown>', name=<unknown>, Contained"
    log_fault(node, f"NVRM: Xid (PCI:0000:00:06 GPU-I:02): 94, {told}")
    log_fault(node, f"NVRM: Xid (PCI:0000:00:06): 79, {told}")
    assert [[pod["pod"] for pod in event["pods"]] for event in events(divided)] == [
        ["notebook"],
        ["notebook", "other"],
    ]


def test_faults_of_other_kinds(node: Node, agent: NodeAgent) -> None:
    log_fault(
        node,
        "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
    )
    log_fault(node, "NVRM: Xid (PCI:0000:99:00): 999, what nobody knows")
    log_fault(node, "NVRM: Xid (invalid): some error")
    log_fault(node, "nvidia-nvswitch2: NVLink link 14 training failed")
    assert metrics(
        agent,
        "trilens_nvswitch_sxid_total",
        "trilens_gpu_xid_total",
        "trilens_node_fault_lines_unreadable_total",
    ) == [
        'trilens_node_fault_lines_unreadable_total{Hostname="h200-1"} 1',
        'trilens_nvswitch_sxid_total{pci_bus_id="00000000:05:00.0",sxid="12028",Hostname="h200-1"} 1',
        'trilens_gpu_xid_total{pci_bus_id="00000000:99:00.0",xid="999",Hostname="h200-1"} 1',
    ]
    assert metrics(agent, "trilens_node_nvlink_complaints_total")[0].endswith("} 1")
    assert [event["title"] for event in events(agent)] == [None, None, None]


def test_a_kernel_log_that_cannot_be_read_is_told(node: Node) -> None:
    tried = threading.Event()

    def refuse() -> Lines:
        tried.set()
        raise NodeError("cannot read /dev/kmsg: Permission denied")

    agent = NodeAgent(node.settings(), "h200-1", lambda: node.nvml, refuse)
    agent.start()
    assert tried.wait(10)
    agent.stop()
    assert metrics(agent, "trilens_node_kernel_log_readable")[0].endswith("} 0")
    assert metrics(agent, "DCGM_FI_DEV_XID_ERRORS") == []  # not 0: nobody knows
    assert agent.problems()["kernel-log"] == "cannot read /dev/kmsg: Permission denied"


def test_a_kernel_log_that_fails_in_an_unknown_way_is_told_too(node: Node, agent: NodeAgent) -> None:
    """Its thread must not die in silence."""
    told = threading.Event()

    class Broken(Lines):
        def follow(self, after: str | None) -> Iterator[LogLine]:
            told.set()
            raise ValueError("no number")

    other = NodeAgent(
        node.settings(state_file=node.folder / "other.json"), "h200-1", lambda: node.nvml, Broken
    )
    other.start()
    assert told.wait(10)
    other.stop()
    assert other.problems()["kernel-log"] == "ValueError('no number')"
    assert metrics(other, "trilens_node_kernel_log_readable")[0].endswith("} 0")


def test_processes_with_rank_pod_and_memory(agent: NodeAgent) -> None:
    user = getpass.getuser()
    assert metrics(agent, "trilens_gpu_process_memory_bytes") == [
        f'trilens_gpu_process_memory_bytes{{gpu="0",UUID="{UUID}",pid="463",Hostname="h200-1",process="python",'
        f'user="{user}",rank="0",local_rank="0",namespace="llm",pod="train-0"}} 20946354176'
    ]
    told = agent.processes()
    assert told["workloads"] == []  # it is a pod's; Kubernetes knows whose
    assert told["processes"][0]["pod"] == {"namespace": "llm", "pod": "train-0", "uid": POD_UID}


def test_jobs_without_kubernetes(node: Node) -> None:
    (node.proc.folder / "463" / "cgroup").write_text("0::/user.slice\n", encoding="utf-8")
    agent = node.agent()
    agent.look()
    (job,) = agent.processes()["workloads"]
    assert (job["group"], job["kind"], job["name"]) == ("torchrun", "Run", TORCHRUN["TORCHELASTIC_RUN_ID"])
    assert job["pids"] == [463]


def test_who_holds_which_gpu(kubelet: Kubelet, agent: NodeAgent) -> None:
    assert metrics(agent, "trilens_node_device_info") == [
        f'trilens_node_device_info{{UUID="{UUID}",resource="nvidia.com/gpu",namespace="llm",pod="train-0",'
        'container="main",Hostname="h200-1"} 1'
    ]
    assert 'container="main",namespace="llm",pod="train-0"' in metrics(agent, "DCGM_FI_DEV_GPU_UTIL")[0]
    kubelet.status = "13"
    agent.look()
    assert "no such luck" in agent.problems()["pod-resources"]
    assert len(metrics(agent, "trilens_node_device_info")) == 1  # the last that was told
    kubelet.status, kubelet.message = "0", b""
    agent.look()
    assert "pod-resources" not in agent.problems()
    assert metrics(agent, "trilens_node_device_info") == []


def test_output_only_of_pods_with_a_gpu(node: Node, agent: NodeAgent) -> None:
    other = node.folder / "log" / "kube-system_dns_0c9d8e7f-1111-2222-3333-444455556666" / "dns" / "0.log"
    other.parent.mkdir(parents=True)
    other.write_text("x", encoding="utf-8")
    agent.look()
    (pod,) = agent.output(None, None)["pods"]
    assert (pod["namespace"], pod["name"]) == ("llm", "train-0")
    assert pod["containers"][0]["runs"] == [{"run": 0, "lines": ["step 1 password=[redacted]"]}]
    assert agent.output("llm", "train-0")["pods"] == [pod]
    assert agent.output("kube-system", "dns")["pods"] == []
    assert agent.output("../..", None)["pods"] == []


@pytest.mark.parametrize(
    ("choice", "exporter", "shown"),
    [("auto", False, True), ("auto", True, False), ("on", True, True), ("off", False, False)],
)
def test_readings_only_where_no_exporter_gives_them(
    node: Node, choice: str, exporter: bool, shown: bool
) -> None:
    if exporter:
        node.proc.add(99, "dcgm-exporter")
    agent = node.agent(gpu_metrics=choice)
    agent.look()
    assert bool(metrics(agent, "DCGM_FI_DEV_GPU_UTIL")) is shown
    assert metrics(agent, "trilens_gpu_process_memory_bytes")  # processes are told in any case


def test_a_driver_that_hangs_does_not_take_the_rest_with_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.collect.node.gpus._TIMEOUT_S", 0.05)
    agent = node.agent()
    agent.start()
    released = threading.Event()
    real = node.nvml.gpus

    def hang() -> Any:
        released.wait(30)
        return real()

    monkeypatch.setattr(node.nvml, "gpus", hang)
    try:
        assert metrics(agent, "DCGM_FI_DEV_GPU_UTIL") == []
        assert "does not answer" in agent.problems()["gpu"]
        log_fault(node)  # faults are still counted
        assert metrics(agent, "trilens_gpu_xid_any_total")[0].endswith("} 1")
        assert 'trilens_agent_problem{part="gpu",Hostname="h200-1"} 1' in metrics(
            agent, "trilens_agent_problem"
        )
    finally:
        released.set()
        agent.stop()


def test_who_is_on_a_gpu_that_tells_nothing_is_still_there(node: Node, agent: NodeAgent) -> None:
    def pids() -> list[int]:
        agent.look()
        return [told["pid"] for told in agent.processes()["processes"]]

    assert pids() == [463]
    node.nvml.recorded["gpus"][0]["lost"] = True
    assert pids() == [463]
    assert metrics(agent, "trilens_gpu_process_memory_bytes") == []  # how much it has is not known
    shutil.rmtree(node.proc.folder / "463")
    node.proc.add(463, "another", ticks=10**9)  # its number, used again
    assert pids() == []


def test_questions_that_are_not_answered_in_time() -> None:
    asker = Asker("test")
    assert asker.ask(lambda: 7, 10) == 7
    with pytest.raises(ValueError, match="of its own"):
        asker.ask(lambda: int("of its own"), 10)
    released = threading.Event()
    with pytest.raises(Overdue):
        asker.ask(lambda: released.wait(30), 0.01)
    with pytest.raises(Overdue, match="earlier question"):
        asker.ask(lambda: 7, 10)  # does not even wait
    released.set()
    while True:  # it answers again as soon as the old question has ended
        try:
            assert asker.ask(lambda: 8, 10) == 8
            break
        except Overdue:
            continue


# Over HTTP


@pytest.fixture
def serve(agent: NodeAgent, node: Node) -> Iterator[Callable[..., str]]:
    started: list[Endpoint] = []

    def start(**more: object) -> str:
        endpoint = Endpoint(agent, node.settings(**more))
        endpoint.start()
        started.append(endpoint)
        return endpoint.url

    yield start
    for endpoint in started:
        endpoint.stop()


def test_every_page(serve: Callable[..., str], node: Node) -> None:
    log_fault(node)
    url = serve()
    with httpx.Client() as client:  # one connection for all
        answer = client.get(f"{url}/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "DCGM_FI_PROF_SM_ACTIVE" in answer.text
        assert client.get(f"{url}/healthz").json() == {"healthy": True, "problems": {}}
        (event,) = client.get(f"{url}/v1/events").json()["events"]
        assert event["code"] == 31
        assert client.get(f"{url}/v1/events?after=1").json()["events"] == []
        assert client.get(f"{url}/v1/processes").json()["processes"][0]["pid"] == 463
        assert client.get(f"{url}/v1/devices").json() == {"node": "h200-1", "devices": []}
        assert client.get(f"{url}/v1/output?pod=train-0").json()["pods"][0]["name"] == "train-0"
        assert client.head(f"{url}/metrics").content == b""
        assert client.post(f"{url}/metrics").status_code == 501


def test_bad_requests(serve: Callable[..., str]) -> None:
    url = serve()
    missing = httpx.get(f"{url}/v1/nothing")
    assert missing.status_code == 404
    assert "/v1/events" in missing.json()["pages"]
    for wait in ("x", "-1", "nan"):
        assert httpx.get(f"{url}/v1/events", params={"wait": wait}).status_code == 400
    for after in ("-1", "x", "1.5", "٣"):
        refused = httpx.get(f"{url}/v1/events", params={"after": after})
        assert refused.status_code == 400
        assert "is not the number of an event" in refused.json()["error"]


def test_a_token_where_there_is_one(serve: Callable[..., str]) -> None:
    url = serve(token="s3cret")
    assert httpx.get(f"{url}/metrics").status_code == 401
    assert httpx.get(f"{url}/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert httpx.get(f"{url}/metrics", headers={"Authorization": "Bearer s3cret"}).status_code == 200
    assert httpx.get(f"{url}/metrics", auth=("prometheus", "s3cret")).status_code == 200
    assert httpx.get(f"{url}/healthz").status_code == 200  # a probe has none


def test_without_a_token_only_this_machine(serve: Callable[..., str]) -> None:
    url = serve(allowed_hosts="agent.example")
    assert httpx.get(f"{url}/metrics", headers={"Host": "evil.example"}).status_code == 403
    assert httpx.get(f"{url}/metrics", headers={"Host": "agent.example"}).status_code == 200


def test_no_listening_to_all_without_a_token(agent: NodeAgent, node: Node) -> None:
    with pytest.raises(ConfigError, match="TRILENS_AGENT_TOKEN"):
        Endpoint(agent, node.settings(listen=":0"))


def test_an_address_in_use(agent: NodeAgent, node: Node, serve: Callable[..., str]) -> None:
    taken = serve().removeprefix("http://")
    with pytest.raises(ConfigError, match="cannot listen"):
        Endpoint(agent, node.settings(listen=taken))


def test_what_fails_inside_is_told_as_such(
    serve: Callable[..., str], agent: NodeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "metrics", lambda: json.loads("no json"))
    answer = httpx.get(f"{serve()}/metrics")
    assert (answer.status_code, answer.json()) == (500, {"error": "the agent failed; its log says how"})


def test_https(serve: Callable[..., str], tmp_path: Path) -> None:
    make_authority(tmp_path)
    sign(tmp_path, "server", hosts="IP:127.0.0.1")
    url = serve(tls_cert_file=tmp_path / "server.pem", tls_key_file=tmp_path / "server.key")
    assert url.startswith("https://")
    trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    with httpx.Client(verify=trust) as client:
        assert client.get(f"{url}/metrics").status_code == 200
        with pytest.raises(httpx.HTTPError):
            client.get(url.replace("https", "http") + "/metrics")
        assert client.get(f"{url}/metrics").status_code == 200  # one bad client does no harm


def test_a_certificate_that_is_renewed(
    serve: Callable[..., str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By cert-manager, and nobody is there to start agents anew. One that cannot be used changes nothing."""
    make_authority(tmp_path)
    sign(tmp_path, "server", hosts="IP:127.0.0.1")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    url = serve(tls_cert_file=certificate, tls_key_file=key)
    place = ("127.0.0.1", httpx.URL(url).port or 0)
    first, usable = ssl.get_server_certificate(place), certificate.read_text()
    assert first == usable
    certificate.write_text("no certificate")
    assert ssl.get_server_certificate(place) == first
    assert "the old certificate stays" in caplog.text
    sign(tmp_path, "server", hosts="IP:127.0.0.1")
    renewed = ssl.get_server_certificate(place)
    assert renewed == certificate.read_text() != usable


def test_a_certificate_that_cannot_be_used(agent: NodeAgent, node: Node, tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate", encoding="utf-8")
    with pytest.raises(ConfigError, match="tls_cert_file"):
        Endpoint(agent, node.settings(tls_cert_file=tmp_path / "bad.pem", tls_key_file=tmp_path / "bad.pem"))

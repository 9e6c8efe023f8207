"""What is seen of a GPU from inside the container: nvidia-smi, the framework, what the program says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.case_file import LEFT_OUT
from trilens.diagnose.cuda import driver_needed, version
from trilens.diagnose.evidence.gpu_access import PODS_UNTOLD, chosen_pod, node_name
from trilens.model.finding import FindingKind, Subject
from trilens.model.verdict import Fact, Missing
from trilens.resolve.accelerators import wants_accelerator
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from trilens.diagnose.case import Case
    from trilens.model.kubernetes import KubeObject

_HIDING: Final = ("", "-1", "none", "void", "NoDevFiles")
_VISIBLE: Final = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
# What nvidia-smi says, and what it means.
_SMI: Final = (
    ("not-found", re.compile(r"not found|no such file|executable file", re.IGNORECASE)),
    ("mismatch", re.compile(r"Driver/library version mismatch", re.IGNORECASE)),
    (
        "no-driver",
        re.compile(r"couldn't communicate with the NVIDIA driver|Driver Not Loaded", re.IGNORECASE),
    ),
    ("lost", re.compile(r"Unknown Error|GPU is lost|Unable to determine the device handle", re.IGNORECASE)),
    ("no-devices", re.compile(r"No devices were found|no devices", re.IGNORECASE)),
)
# What programs say for themselves.
_LOGS: Final = (
    ("too-old", ("CUDA driver version is insufficient", "NVIDIA driver on your system is too old")),
    ("no-driver", ("Found no NVIDIA driver", "Failed to initialize NVML: Driver Not Loaded")),
    (
        "no-device",
        ("no CUDA-capable device is detected", "No CUDA GPUs are available", "CUDA_ERROR_NO_DEVICE"),
    ),
    (
        "not-for-it",
        ("no kernel image is available for execution", "is not compatible with the current PyTorch"),
    ),
    ("cpu-build", ("Torch not compiled with CUDA enabled",)),
)


@evidence("works", "not-found", "mismatch", "no-driver", "lost", "no-devices", "fails", "not-run")
def nvidia_smi_inside(case: Case) -> Answer:
    """Runs nowhere by itself: only what `--exec` brought."""
    remedy = "trilens why --exec, with the permission to create pods/exec"
    missing = (Missing("what nvidia-smi says inside the container", remedy),)
    probes = [one for one in case.file.probes if any("nvidia-smi" in word for word in one.command)]
    if not probes:
        return Answer(("not-run",), missing=missing)
    for probe in sorted(probes, key=lambda one: one.exit_code == 0):
        first = probe.output.strip().splitlines()[:1]
        source = f"nvidia-smi in {probe.pod.namespace}/{probe.pod.name}, container {probe.container}"
        said = first[0] if first else f"exit code {probe.exit_code}"
        fact = Fact(said, source, probe.t_ms)
        told = {"said": said, "pod": f"{probe.pod.namespace}/{probe.pod.name}"}
        subject = Subject(pod=probe.pod)
        for value, sign in _SMI:
            if sign.search(probe.output) and (probe.exit_code != 0 or value == "no-devices"):
                return Answer((value,), (fact,), names=told, subject=subject)
        if probe.exit_code is None:
            return Answer(("not-run",), (fact,), missing=missing)
        if probe.exit_code != 0:
            return Answer(("fails",), (fact,), names=told, subject=subject)
    return Answer(("works",), (fact,))


@evidence("class-absent", "class-unused", "set")
def container_runtime(case: Case) -> Answer:
    """Of a container into which the driver's files were not brought."""
    pod = chosen_pod(case)
    classes = {one.name for one in case.of_kind("node.k8s.io", "RuntimeClass")}
    named = _runtime_class(pod)
    if named and classes and named not in classes:
        fact = Fact(f"it names {named}; there are {', '.join(sorted(classes))}", "RuntimeClasses")
        return Answer(("class-absent",), (fact,), names={"class": named})
    if named:
        fact = Fact(f"runtimeClassName: {named}", f"spec of Pod {pod.name}")
        return Answer(("set",), (fact,), names={"class": named})
    used = {_runtime_class(one) for one in case.of_kind("", "Pod") if wants_accelerator(one)} - {""}
    for name in sorted(used or {one for one in classes if "nvidia" in one}):
        told_by = "other pods with GPUs name it" if used else "it is there"
        fact = Fact(f"it does not name the RuntimeClass {name}; {told_by}", "Pods and RuntimeClasses")
        return Answer(("class-unused",), (fact,), names={"class": name})
    return Answer.unknown(Missing("the RuntimeClasses", 'allow "list" on runtimeclasses of node.k8s.io'))


@evidence("cpu", "cuda", "other")
def framework_build(case: Case) -> Answer:
    told = _log_says(case, "cpu-build")
    if told is not None:
        return Answer(("cpu",), (told,), names={"build": "its PyTorch"})
    for rank in case.file.ranks:
        torch = rank.versions.get("torch")
        if torch is None:
            continue
        source = f"rank {rank.rank}, by the SDK"
        if "+cpu" in torch or "cuda" not in rank.versions:
            if "rocm" in torch or "+xpu" in torch:
                return Answer(("other",), (Fact(f"torch {torch}", source),))
            fact = Fact(f"torch {torch} has no CUDA", source, rank.started_ms)
            return Answer(("cpu",), (fact,), 1.0 if "+cpu" in torch else 0.85, {"build": f"torch {torch}"})
        fact = Fact(f"torch {torch} for CUDA {rank.versions['cuda']}", source, rank.started_ms)
        return Answer(("cuda",), (fact,), names={"build": f"torch {torch}"})
    return Answer.unknown(
        Missing("which build of PyTorch the program has", "call trilens.init() in it: docs/sdk.md")
    )


@evidence("too-old", "compatible")
def cuda_and_driver(case: Case) -> Answer:
    node = node_name(case)
    said = _log_says(case, "too-old")
    cuda = next((rank.versions["cuda"] for rank in case.file.ranks if "cuda" in rank.versions), "")
    driver = (_driver(case.node(node)) if node else "") or _driver_scraped(case)
    needed = driver_needed(cuda) if cuda else None
    told = {
        "cuda": cuda or "its CUDA",
        "driver": driver or "there",
        "needed": needed or "newer",
        "node": node,
    }
    if said is not None:
        return Answer(("too-old",), (said,), names=told)
    if not cuda or not driver or needed is None:
        what = "the program's CUDA version" if not cuda else "the driver's version"
        remedy = (
            "call trilens.init() in it"
            if not cuda
            else "run GPU feature discovery, or the agent, on its node"
        )
        return Answer.unknown(Missing(what, remedy))
    fact = Fact(
        f"CUDA {cuda} needs driver {needed}; {node} has {driver}", f"Node {node}, and its ranks by the SDK"
    )
    return Answer(("too-old",) if version(driver) < version(needed) else ("compatible",), (fact,), names=told)


@evidence("hidden", "shown")
def devices_visible(case: Case) -> Answer:
    if not case.pods:
        return Answer.unknown(PODS_UNTOLD)
    for pod in case.pods:
        for container in items(section(pod.body, "spec"), "containers"):
            for variable in items(container, "env"):
                if _hides(variable):
                    name, value = text(variable, "name"), text(variable, "value")
                    fact = Fact(f'{name}="{value}" in {text(container, "name")}', f"spec of Pod {pod.name}")
                    return Answer(("hidden",), (fact,), names={"variable": name, "value": value})
    return Answer(("shown",))


@evidence("no-driver", "no-device", "not-for-it", "fell-back", "never", "in-use")
def gpu_unused(case: Case) -> Answer:
    """What the program says, and what D005 saw of it."""
    for value in ("no-driver", "no-device", "not-for-it"):
        if (said := _log_says(case, value)) is not None:
            return Answer((value,), (said,), names={"said": said.text})
    for interval in case.file.findings:
        found = interval.finding
        if found.kind is FindingKind.CPU_FALLBACK and interval.ended_ms is None:
            source = f"detector {found.code}"
            told_by = (found.text, *(one.text for one in found.evidence))
            facts = tuple(Fact(one, source, found.onset_ms) for one in told_by)
            value = "never" if found.cause == "never-used" else "fell-back"
            told = {"said": found.text}
            return Answer((value,), facts, found.confidence, told, (), found.subject, found.onset_ms)
    busy = [one for one in case.series("gpu-utilization") if one.values and max(one.values[-5:]) > 0.05]
    if busy:
        fact = Fact(f"{len(busy)} of its GPUs work", "trilens:gpu_utilization:ratio", busy[0].t_ms[-1])
        return Answer(("in-use",), (fact,))
    return Answer.unknown(
        Missing("whether the program uses its GPU", "run dcgm-exporter or the agent on its node")
    )


def log_signs(case: Case) -> Iterator[tuple[str, Fact]]:
    """What programs write that find no GPU, the first of each kind."""
    for value, _ in _LOGS:
        if (fact := _log_says(case, value)) is not None:
            yield value, fact


def _log_says(case: Case, value: str) -> Fact | None:
    for log, whole_log in case.log_texts:
        for phrase in dict(_LOGS)[value]:
            at = whole_log.find(phrase)
            if at >= 0:
                number = whole_log.count("\n", 0, at)
                return Fact(log.lines[number].strip(), f"{log.name}, line {number + 1}")
    return None


def _runtime_class(pod: KubeObject) -> str:
    return text(section(pod.body, "spec"), "runtimeClassName")


def _hides(variable: Mapping[str, Any]) -> bool:
    """An empty value is not written by the API server; one that was left out is marked as such."""
    if text(variable, "name") not in _VISIBLE or "valueFrom" in variable:
        return False
    value = text(variable, "value")
    return value != LEFT_OUT and value in _HIDING


def _driver(node: KubeObject | None) -> str:
    if node is None:
        return ""
    labels = node.labels
    full = labels.get("nvidia.com/cuda.driver-version.full")
    parts = [labels.get(f"nvidia.com/cuda.driver.{part}", "") for part in ("major", "minor", "rev")]
    return full or ".".join(part for part in parts if part)


def _driver_scraped(case: Case) -> str:
    """dcgm-exporter can put it on its series."""
    named = (
        one.labels.get(label)
        for one in case.series("gpu-reported")
        for label in ("DCGM_FI_DRIVER_VERSION", "driver_version")
    )
    return next((one for one in named if one), "")

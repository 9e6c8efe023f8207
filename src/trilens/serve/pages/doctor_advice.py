"""Where findings belong on the page, and what to run or to write against each."""

from __future__ import annotations

from typing import Final, NamedTuple

from trilens.serve.pages.doctor_answers import DoctorElsewhere

_SETTINGS: Final = "trilens.yaml"
_SHELL: Final = "a shell"


class Area(NamedTuple):
    area: str
    title: str
    gives: str
    layers: tuple[str, ...]


class Advice(NamedTuple):
    where: str
    copy: str


AREAS: Final = (
    Area(
        "gpu",
        "GPUs",
        "Use, power, temperature, clocks and faults of every GPU, and the processes on it.",
        ("gpus", "agents", "clocks"),
    ),
    Area(
        "kubernetes",
        "Kubernetes",
        "Which workload, team and pod holds which GPU, why a pod waits, and what happened to it.",
        ("kubernetes",),
    ),
    Area(
        "programs",
        "Programs",
        "Loss, steps, time left, goodput, stragglers by rank, and where a hung rank stands.",
        ("programs", "trackers"),
    ),
    Area(
        "money",
        "Money",
        "What each GPU-hour costs, who spent it and what was wasted, in your prices.",
        ("ledger",),
    ),
    Area(
        "alerts",
        "Alerts",
        "Faults found while they happen, put together to incidents, and told to whom it concerns.",
        ("rules", "detection", "incidents", "delivery"),
    ),
    Area(
        "server",
        "This server",
        "Samples come in, are kept, and are answered from.",
        ("store", "access", "backups", "scrapes"),
    ),
)

_RECEIVERS: Final = Advice(
    _SETTINGS,
    "alerting:\n  receivers:\n    ml: {slack: {url_file: /etc/trilens/slack-url}}\n  routes:\n    - to: [ml]",
)

# By check. Of others the words of the finding have to do.
ADVICE: Final = {
    "gpus": Advice(_SHELL, "trilens gpus --lost\ntrilens events"),
    "no_gpus": Advice("each GPU node", "pip install 'trilens[agent]'\nsudo trilens agent"),
    "agents": Advice("each GPU node", "pip install 'trilens[agent]'\nsudo trilens agent"),
    "clocks": Advice("these nodes", "chronyc tracking || timedatectl status"),
    "told_clocks": Advice("these nodes", "chronyc tracking || timedatectl status"),
    "permissions": Advice(_SHELL, "trilens kubernetes rbac | kubectl apply -f -"),
    "discovery": Advice(_SHELL, "trilens kubernetes rbac"),
    "no_cluster": Advice(
        _SETTINGS,
        "kubernetes:\n  clusters:\n    prod:\n      kubeconfig: ~/.kube/config   # or in_cluster: true",
    ),
    "no_programs": Advice("where it trains", "pip install trilens\ntrilens run -- python train.py"),
    "no_trackers": Advice(_SETTINGS, "mlflow:\n  url: http://mlflow:5000"),
    "list_prices": Advice(_SETTINGS, "prices:\n  file: prices.yaml"),
    "unpriced": Advice(_SETTINGS, "prices:\n  file: prices.yaml"),
    "no_budgets": Advice(
        _SETTINGS, "budgets:\n  limits:\n    - {team: vision, amount: 25000, currency: USD}"
    ),
    "rules": Advice(_SHELL, "trilens rules list --failing"),
    "blind_rules": Advice(_SHELL, "trilens rules list --blind"),
    "receivers": Advice(_SHELL, "trilens receivers"),
    "no_receivers": _RECEIVERS,
    "unheard_incidents": _RECEIVERS,
    "reload": Advice(_SHELL, "trilens config check trilens.yaml"),
    "collection": Advice(
        _SETTINGS,
        "scrape:\n  scrape_configs:\n    - job_name: dcgm\n      static_configs:\n"
        "        - targets: [gpu-node-1:9400]",
    ),
}

ELSEWHERE: Final = [
    DoctorElsewhere(
        "The driver, NVML, the kernel's log, PyTorch without CUDA, the clock and the disk of a machine",
        "on that machine, such as a GPU node",
        "trilens doctor",
    ),
    DoctorElsewhere(
        "Whether this server and its cluster are reached from where you work, and whether clocks agree",
        "on your own machine",
        "trilens doctor --server {server}",
    ),
    DoctorElsewhere(
        "What you may do in the cluster yourself, and what Trilens needs there",
        "where your kubectl works",
        "trilens kubernetes rbac",
    ),
    DoctorElsewhere(
        "What a bundle from elsewhere tells of where it was made", "anywhere", "trilens doctor --bundle FILE"
    ),
]

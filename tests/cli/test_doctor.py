"""`trilens doctor` finds what is wrong, says what to do, and ends with 1."""

from __future__ import annotations

import json
import re
import time
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from command_here import trilens_here
from kubernetes_api import Rule
from memory_api import Api, running
from rules_at_work import groups
from servers import until
from trilens.alert.blindness import blind_rules
from trilens.alert.evaluation import new_states
from trilens.alert.rule import AlertingRule
from trilens.cli.checkup import layers, machine
from trilens.cli.checkup.layers import examine_server
from trilens.cli.checkup.machine import Machine
from trilens.cli.client import Client
from trilens.serve.checkup import samples
from trilens.serve.checkup.evidence import Evidence
from trilens.serve.checkup.layers import OF_A_SERVER
from trilens.serve.checkup.nodes import server_clock
from trilens.serve.checkup.watching import blind_rules as blind_rules_of
from trilens.serve.detection.keeper import DetectionState
from trilens.serve.rules import rule_groups
from trilens.serve.trackers import Status
from trilens.settings.tree import Settings
from trilens_process import server
from workload_records import some_records

if TYPE_CHECKING:
    from kubernetes_api import KubernetesServer

# What a server tells of itself before anything is connected or booked.
OF_A_NEW_SERVER = "process_|trilens_(?!gpu|sdk|stalled|barrier|clock|node|nv|agent|ledger)"
WELL = {"synced": True, "trouble": None, "not_followed": [], "to_grant": []}


@pytest.fixture(autouse=True)
def this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of which nothing is to be said: test_doctor_machine.py has others."""
    made = Machine(tmp_path / "bare", tmp_path / "spool", tmp_path, "http://127.0.0.1:1")
    monkeypatch.setattr(layers, "Machine", lambda: made)
    monkeypatch.setattr(machine, "_LITTLE_BYTES", 0)


def findings(url: str) -> list[dict[str, Any]]:
    said = trilens_here("doctor", "--json", "--server", url)
    found: list[dict[str, Any]] = json.loads(said.stdout)
    assert said.returncode == (1 if any(one["is_problem"] for one in found) else 0), said.stderr
    return found


def well(**parts: Any) -> Api:
    """Detectors have looked already, as they have soon after a start."""
    return Api(**{"detection": DetectionState(looked_ms=1), **parts})


def watching(**health: Any) -> dict[str, Any]:
    return {"kubernetes": {"clusters": {"lab": {**WELL, **health}}}}


def test_nothing_is_wrong() -> None:
    api = well(readiness=watching())
    with running(api.build()) as url:
        said = trilens_here("doctor", "--server", url)
        assert said.returncode == 0
        rows = [line.split("  ")[0] for line in said.stdout.partition("\n\n")[0].splitlines()]
        assert rows == ["layer", "this machine", *(layer.name for layer in OF_A_SERVER)]
        assert "\nnothing is wrong" in said.stdout
        assert findings(url) == []


def test_targets_that_are_not_found_and_monitors_that_cannot_be_used() -> None:
    told = watching()
    told["kubernetes"]["unusable_monitors"] = [
        {
            "cluster": "lab",
            "monitor": "ServiceMonitor serve/web",
            "reason": "the Secret serve/t may not be read",
        }
    ]
    told["discovery"] = ['job pods: cannot follow Pod: forbidden; allow "list" on pods']
    with running(well(readiness=told).build()) as url:
        found = {one["check"]: one["what"] for one in findings(url) if one["is_problem"]}
        assert found == {
            "discovery": told["discovery"][0],
            "monitors": "lab: ServiceMonitor serve/web: the Secret serve/t may not be read",
        }


def test_trackers_that_are_not_read_or_late_or_take_nothing() -> None:
    now_ms = time.time_ns() // 1_000_000
    followed = [
        SimpleNamespace(status=status)
        for status in (
            Status("mlflow", "http://mlflow", trouble="no answer"),
            Status("wandb", "http://wandb", refused="403: read-only key"),
            Status("tensorboard", "/runs"),
            Status("tensorboard", "/late", passed_ms=now_ms - 20 * 60_000, every_s=30.0),
            Status("tensorboard", "/seldom", passed_ms=now_ms - 20 * 60_000, every_s=300.0),
            Status("tensorboard", "/new", passed_ms=now_ms - 14 * 60_000, every_s=30.0),
        )
    ]
    api = well(readiness=watching(), followed=followed)  # type: ignore[arg-type]
    with running(api.build()) as url:
        assert [(one["check"], one["is_problem"], one["what"]) for one in findings(url)] == [
            ("trackers", True, "mlflow http://mlflow: no answer"),
            ("trackers", False, "wandb http://wandb: 403: read-only key"),
            ("trackers", False, "tensorboard /late: last read through 20 minutes ago"),
        ]


def test_a_server_that_does_nothing_is_worth_a_note() -> None:
    with running(well().build()) as url:
        (note,) = findings(url)
        assert not note["is_problem"]
        assert "nothing is scraped, and no cluster is watched" in note["what"]


@pytest.mark.parametrize(
    ("readiness", "what"),
    [
        ({"store": {"read_only_reason": "disk full", "damage": []}}, "writes are refused: disk full"),
        (
            {"store": {"company": "another server works on http://clickhouse:8123/trilens"}},
            "another server works on http://clickhouse:8123/trilens",
        ),
        ({"store": {"damage": ["table samples lost 7 rows"]}}, "table samples lost 7 rows"),
        (
            {"source": {"url": "http://p", "reachable": False, "error": "refused", "since": "noon"}},
            "http://p does not answer since noon: refused",
        ),
        (watching(trouble="no route", synced=False), "lab: no route"),
        (
            watching(not_followed=[{"reason": "timeout", "kinds": ["A", "B", "C", "D", "E"]}]),
            "lab: cannot follow A, B, C and 2 more: timeout",
        ),
        ({"agents": {"known": 1, "complaints": ["n1 does not answer"]}}, "n1 does not answer"),
        ({"ledger": {"troubles": ["no facts of n1"]}}, "no facts of n1"),
        ({"access": {"troubles": ["tokens.yaml:2:1: no"]}}, "tokens.yaml:2:1: no"),
        ({"certificate": {"trouble": "cannot use c.pem"}}, "cannot use c.pem"),
    ],
)
def test_what_the_server_complains_of(readiness: dict[str, Any], what: str) -> None:
    api = well(readiness=readiness, ready=False)
    with running(api.build()) as url:
        problem, *follow = [one for one in findings(url) if one["is_problem"]]
        assert problem["what"] == what
        assert problem["means"]
        assert problem["remedy"]
        unasked = "cannot be checked: http://p, which has the samples, does not answer"
        assert all(one["what"] == unasked for one in follow)


def test_a_proxy_that_the_settings_do_not_name_is_worth_a_note() -> None:
    with running(well(readiness={**watching(), "proxy": {"unnamed": "10.0.0.9"}}).build()) as url:
        (note,) = [one for one in findings(url) if one["check"] == "unnamed_proxy"]
    assert not note["is_problem"]
    assert "through a proxy at 10.0.0.9" in note["what"]
    assert "trusted: [10.0.0.9]" in note["remedy"]


def test_a_proxy_without_the_secret_is_worth_a_note() -> None:
    told = {**watching(), "proxy": {"without_secret": "10.0.0.9"}}
    with running(well(readiness=told).build()) as url:
        (note,) = [one for one in findings(url) if "proxy" in one["check"]]
    assert (note["check"], note["is_problem"]) == ("proxy_without_secret", False)
    assert note["what"].startswith("10.0.0.9, ")
    assert "secret_header" in note["remedy"]


def test_rules_that_fail_and_a_reload_that_did() -> None:
    text = "groups: [{name: g, rules: [{record: a, expr: x}, {record: b, expr: x}, {record: c, expr: x}]}]"
    api = well(rules=new_states(groups(text)), readiness=watching())
    for rule in api.rules[0].rules[:2]:
        rule.health, rule.last_error = "err", "many-to-many"
    api.in_force = api.in_force._replace(is_latest=False)
    with running(api.build()) as url:
        found = {one["check"]: one for one in findings(url)}
        assert found["rules"]["what"] == "rules fail: a, b: many-to-many"
        assert found["reload"]["what"] == "the last reload failed"
        assert all(one["is_problem"] and one["means"] and one["remedy"] for one in found.values())


def test_rules_that_were_left_out_and_rules_that_are_blind() -> None:
    found = groups("groups: [{name: g, rules: [{alert: a, expr: gone}, {alert: b, expr: up}]}]")
    readiness = {**watching(), "rules": {"unread": ["rules.yml:3:5: groups[1]: a group needs a name"]}}
    missing = blind_rules(found, lambda name, _: name == "up")
    api = well(rules=new_states(found), readiness=readiness, blind={(o.group, o.rule): o for o in missing})
    with running(api.build()) as url:
        said = [(one["is_problem"], one["what"]) for one in findings(url)]
    assert sorted(said) == [
        (False, "1 of 2 alerting rules can find nothing: a"),
        (True, "rules were left out: rules.yml:3:5: groups[1]: a group needs a name"),
    ]


def test_rules_that_wait_for_nothing_but_themselves() -> None:
    rule = {"type": "alerting", "name": "a", "blind": {"missing": [], "inputs": []}}
    (found,) = blind_rules_of(SimpleNamespace(rules=[rule]))  # type: ignore[arg-type]
    assert found.means == "nothing is heard of what they look at"


def test_a_new_server_says_in_one_note_that_most_rules_wait() -> None:
    shipped = rule_groups(Settings())
    missing = blind_rules(shipped, lambda name, _: re.match(OF_A_NEW_SERVER, name) is not None)
    api = well(rules=new_states(shipped), readiness=watching(), blind={(o.group, o.rule): o for o in missing})
    with running(api.build()) as url:
        (found,) = findings(url)
        listed = json.loads(trilens_here("rules", "list", "--blind", "--json", "--server", url).stdout)
        shown = trilens_here("doctor", "--server", url).stdout
    alerting = sum(isinstance(rule, AlertingRule) for group in shipped for rule in group.rules)
    assert found["what"].startswith(f"{len(missing)} of {alerting} alerting rules can find nothing: ")
    assert found["means"].startswith("nothing is heard of what they look at: GPUs (")
    for one in ("training programs (", "inference services (", "Kubernetes (", "Kueue (1 rule)"):
        assert one in found["means"]
    assert "this server" not in found["means"]
    assert "trilens rules list --blind" in found["remedy"]
    assert len(listed) == len(missing) > 50, "all of it, by the command that the note names"
    note = shown[shown.index("\nnote ") :]
    assert len(note) < 600, note


def test_gpus_that_are_lost_and_nodes_that_are_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the GPU API says of each state is tested with it; here, what the doctor makes of it."""
    answers = {
        "/readyz": watching(),
        "/api/gpus": {
            "data": [
                {"state": "lost", "node": "n1", "count": 1},
                {"state": "lost", "node": "n1", "count": 2},
                {"state": "blind", "node": "n2", "count": 8},
            ]
        },
        "/api/v1/targets": {"data": {"activeTargets": []}},
        "/api/workloads": {"data": []},
        "/api/trackers": {"data": []},
        "/api/receivers": {"data": []},
        "/api/backups": {"data": {"directory": None, "every_s": None, "failed": None, "backups": []}},
        "/api/v1/rules": {"data": {"groups": []}},
        "/api/v1/status/runtimeinfo": {"data": {"reloadConfigSuccess": True}},
        "/api/findings": {"data": []},
        "/api/incidents": {"data": []},
        "/api/why": {"data": {"verdicts": []}},
    }
    client = Client("http://127.0.0.1:1")
    monkeypatch.setattr(client, "probe", lambda path: answers[path])
    monkeypatch.setattr(client, "get", lambda path, params=None: answers[path])
    monkeypatch.setattr(client, "post", lambda path, **asked: {"data": {"result": []}})
    monkeypatch.setattr(client, "fetch", lambda path: httpx.Response(200, text=""))
    (found,) = [one.found for one in examine_server(client) if one.found]
    assert [(one.is_problem, one.what) for one in found] == [
        (False, "no GPU reports on n2 (8)"),
        (True, "GPUs are lost on n1 (3)"),
    ]


def test_doubts_about_workloads_and_nodes_without_an_agent(tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    with some_records(tmp_path) as records:
        api = well(readiness=watching(), workloads=records)
        for node in ("a", "b"):
            labels = {"__name__": "kube_node_status_capacity", "node": node, "resource": "nvidia_com_gpu"}
            api.source.add(labels, [(now_ms, 8.0)])
        labels = {"__name__": "trilens_agent_build_info", "Hostname": "a", "version": "1"}
        api.source.add(labels, [(now_ms, 1.0)])
        with running(api.build()) as url:
            said = trilens_here("doctor", "--server", url)
    assert said.returncode == 0
    assert "\nnote      agents: no agent on b, which have GPUs\n" in said.stdout
    owner = "note      kubernetes: owner-unreadable: ml/train: PyTorchJobs may not be read\n"
    assert owner in said.stdout
    assert "    do:   grant list on pytorchjobs\n" in said.stdout
    assert "\nnothing is wrong, " in said.stdout


def test_a_prometheus_that_does_not_scrape_this_server(tmp_path: Path) -> None:
    there = {"url": "http://p", "reachable": True, "error": None, "since": None}

    def found(api: Api) -> list[str]:
        with running(api.build()) as url:
            return [one["what"] for one in findings(url) if one["check"] == "unscraped"]

    with some_records(tmp_path) as records:
        api = well(readiness={**watching(), "source": there}, workloads=records)
        (said,) = found(api)
        assert "nobody scrapes /metrics/workloads" in said
        labels = {"__name__": "trilens_workload_pod_info", "pod": "p"}
        api.source.add(labels, [(time.time_ns() // 1_000_000, 1.0)])
        assert found(api) == []
        assert found(well(readiness=watching(), workloads=records)) == [], "it has the samples itself"
    assert found(well(readiness={**watching(), "source": there})) == [], "there is nothing to tell yet"


def test_an_agent_that_cannot_read_a_part_of_its_node() -> None:
    now_ms = time.time_ns() // 1_000_000
    api = well(readiness=watching())
    for node in ("a", "b", "c"):
        for part, value in (("kernel-log", float(node != "c")), ("gpu", 0.0)):
            labels = {"__name__": "trilens_agent_problem", "Hostname": node, "part": part}
            api.source.add(labels, [(now_ms, value)])
    with running(api.build()) as url:
        (found,) = findings(url)
    assert (found["check"], found["is_problem"]) == ("agent_parts", True)
    assert found["what"] == "the agent cannot read its kernel-log on a, b"
    assert "CAP_SYSLOG" in found["remedy"]


def test_clocks_that_are_not_synchronised() -> None:
    now_ms = time.time_ns() // 1_000_000
    api = well(readiness=watching())
    for node, value in (("a", 1.0), ("b", 0.0)):
        api.source.add({"__name__": "trilens:node_clock_synchronized:bool", "node": node}, [(now_ms, value)])
    with running(api.build()) as url:
        (found,) = findings(url)
    assert (found["is_problem"], found["what"]) == (False, "the clocks of b are not synchronised")


def test_pods_that_two_exporters_tell_of() -> None:
    now_ms = time.time_ns() // 1_000_000
    api = well(readiness=watching())

    def tell(uid: str, **by: str) -> None:
        api.source.add({"__name__": "kube_pod_info", "pod": "p", "uid": uid, **by}, [(now_ms, 1.0)])

    tell("1", job="ksm", instance="shard-0:8080")
    tell("2", job="ksm", instance="shard-1:8080")  # a part each, which is no doubling
    with running(api.build()) as url:
        assert findings(url) == []
        tell("2", cluster="lab")
        (found,) = findings(url)
    assert found["check"] == "state_metrics"
    assert found["what"] == (
        "the same pods are told of twice as kube_*: by Trilens itself, job ksm at shard-1:8080"
    )


def test_without_a_server_it_looks_at_this_machine() -> None:
    said = trilens_here("doctor", "--json", "--server", "http://127.0.0.1:1")
    assert said.returncode == 1
    (silent,) = [one for one in json.loads(said.stdout) if one["layer"] == "server"]
    assert silent["is_problem"]
    assert "no answer from http://127.0.0.1:1" in silent["what"]


def test_a_server_that_nobody_named_may_not_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.settings.client.DEFAULT_SERVER", "http://127.0.0.1:1")
    said = trilens_here("doctor")
    assert said.returncode == 0, said.stdout
    rows = [line.split("  ")[0] for line in said.stdout.splitlines()[:3]]
    assert rows == ["layer", "this machine", "server"]
    assert "note      server: no answer from http://127.0.0.1:1" in said.stdout


def test_what_the_servers_own_metrics_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these count is tested where it is counted; here, what the doctor makes of it."""
    own = """# HELP trilens_x x
trilens_detection_failures_total{code="D001"} 1.0
trilens_detection_failures_total{code="D002"} 2.0
trilens_detection_rounds_skipped_total 3.0
trilens_run_records_batches_total{outcome="taken"} 9.0
trilens_run_records_batches_total{outcome="refused"} 1.0
trilens_scrape_samples_total{outcome="too_old"} 7.0
trilens_scrape_samples_total{outcome="too_far_ahead"} 0.0
trilens_rule_group_iterations_missed_total{rule_group="g"} 2.0
trilens_otlp_export_failures_total 4.0
trilens_otlp_export_waiting 5.0
trilens_store_series 1200.0
trilens_store_disk_bytes 2.5e+09
"""
    with running(well(readiness=watching()).build()) as url, Client(url) as client:
        fetch = client.fetch
        told = {"/metrics": httpx.Response(200, text=own)}
        monkeypatch.setattr(client, "fetch", lambda path: told.get(path) or fetch(path))
        examined = {one.layer: one for one in examine_server(client)}
    assert examined["store"].sees == "1,200 series, 2.5 GB on disk"
    assert [(one.check, one.is_problem, one.what) for layer in examined.values() for one in layer.found] == [
        ("left_out", False, "7 scraped samples left out since the start: older than what is taken"),
        ("rules", False, "2 passes over rules left out since the start"),
        ("detection", True, "detectors failed 3 times since the start"),
        ("detection", False, "3 looks at the fleet left out since the start"),
        ("records", False, "1 batch of records of runs refused since the start"),
        ("traces_out", False, "otlp.url did not answer well 4 times since the start"),
    ]


def test_a_disk_that_is_slow_is_named_by_the_threshold_of_its_alert() -> None:
    now_ms = time.time_ns() // 1_000_000
    api = well(readiness=watching())
    for labels, seconds in (
        ({"__name__": "trilens:threshold", "of": "own_disk_sync_seconds"}, 0.05),
        ({"__name__": "trilens:disk_sync:seconds", "host": "ch-1"}, 0.049),
        ({"__name__": "trilens:disk_sync:seconds", "host": "ch-2"}, 0.092),
        ({"__name__": "trilens:disk_sync:seconds", "instance": "embedded:9333"}, 0.051),
    ):
        api.source.add(labels, [(now_ms, seconds)])
    with running(api.build()) as url:
        found = findings(url)
    assert sorted((one["check"], one["what"]) for one in found) == [
        (
            "slow_disk",
            "the disk of Trilens embedded:9333 takes 51 ms to keep something, in the mean of ten minutes",
        ),
        ("slow_disk", "the disk of ch-2 takes 92 ms to keep something, in the mean of ten minutes"),
    ]


@pytest.mark.parametrize(("reach_s", "is_told"), [(None, False), (299.0, True), (300.0, False)])
def test_a_recent_window_that_is_too_small(reach_s: float | None, is_told: bool) -> None:
    told = {"trilens_store_recent_reach_seconds": reach_s, "trilens_store_series": 881_367.0}
    evidence = SimpleNamespace(own=told.get, readiness={})
    found = [*samples.recent_window(evidence)]  # type: ignore[arg-type]
    assert [one.what for one in found] == [
        "the recent window reaches back 299 s, of 881,367 series"
    ] * is_told
    assert [one.remedy for one in found] == ["set storage.recent_memory to 631MiB or more"] * is_told
    elsewhere = SimpleNamespace(own=told.get, readiness={"source": {}})
    assert not [*samples.recent_window(elsewhere)]  # type: ignore[arg-type]


def test_what_detectors_could_not_ask() -> None:
    api = well(readiness=watching(), detection=DetectionState(looked_ms=1, troubles={"steps": "timeout"}))
    with running(api.build()) as url:
        (found,) = findings(url)
    assert (found["layer"], found["what"]) == ("detection", "steps could not be asked: timeout")


def test_incidents_of_which_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(well(readiness=watching()).build()) as url, Client(url) as client:
        get = client.get
        told = {"/api/incidents": {"data": [{"id": "1"}]}}
        monkeypatch.setattr(client, "get", lambda path, params=None: told.get(path) or get(path, params))
        found = [one for layer in examine_server(client) for one in layer.found]
    assert [(one.check, one.what) for one in found] == [
        ("unheard_incidents", "1 incident open, and no receiver is set")
    ]


@pytest.mark.parametrize(("ahead_s", "way"), [(90, "90 s ahead of"), (-90, "90 s behind"), (2, None)])
def test_the_servers_clock(monkeypatch: pytest.MonkeyPatch, ahead_s: float, way: str | None) -> None:
    client = Client("http://127.0.0.1:1")
    date = formatdate(time.time() + ahead_s, usegmt=True)
    monkeypatch.setattr(client, "fetch", lambda path: httpx.Response(200, headers={"date": date}))
    found = list(server_clock(Evidence(client)))
    assert [one.what for one in found] == ([f"the server's clock is {way} this machine's"] if way else [])


def test_clocks_of_nodes_and_of_programs() -> None:
    now_ms = time.time_ns() // 1_000_000
    api = well(readiness=watching())
    for node, off_s in (("a", 0.2), ("b", -30)):
        api.source.add({"__name__": "node_time_seconds", "instance": node}, [(now_ms, now_ms / 1000 + off_s)])
    skew = {"__name__": "trilens:training_clock_skew:seconds", "workload": "llm", "node": "c"}
    api.source.add(skew, [(now_ms, 2.5)])
    with running(api.build()) as url:
        told = [one["what"] for one in findings(url)]
    assert told == [
        "the clocks of b are more than 1 s off the server's",
        "the ranks of llm on c have another clock than its others",
    ]


def test_counters_that_dcgm_exporter_leaves_out() -> None:
    now_ms = time.time_ns() // 1_000_000
    api = well(readiness=watching())
    for name in ("DEV_GPU_UTIL", "DEV_POWER_USAGE", "DEV_GPU_TEMP", "DEV_SM_CLOCK", "DEV_XID_ERRORS"):
        api.source.add({"__name__": f"DCGM_FI_{name}", "gpu": "0"}, [(now_ms, 1.0)])
    for name in ("PROF_DRAM_ACTIVE", "DEV_CLOCK_THROTTLE_REASONS", "PROF_PIPE_TENSOR_ACTIVE"):
        api.source.add({"__name__": f"DCGM_FI_{name}", "gpu": "0"}, [(now_ms, 1.0)])
    with running(api.build()) as url:
        (found,) = findings(url)
        said = trilens_here("doctor", "--server", url)
    assert (found["layer"], found["what"]) == (
        "gpus",
        "counters of DCGM are not told: DCGM_FI_PROF_SM_ACTIVE",
    )
    line = "DCGM_FI_PROF_SM_ACTIVE, gauge, cycles in which an SM had a warp (ratio)"
    assert found["remedy"] == f"add to the counters file of dcgm-exporter:\n{line}"
    assert f"\n            {line}\n" in said.stdout  # as it is, to be copied


def test_a_missing_permission_and_a_target_that_is_down(
    kubernetes: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    """With a real API server, as an account that may see pods only."""
    user = kubernetes.user(f"doctor-{namespace}", Rule("", ["pods"], ["list", "watch"]))
    cluster = {"kubeconfig": str(kubernetes.kubeconfig(user)), "namespaces": [namespace]}
    job = {"job_name": "nodes", "scrape_interval": "1s", "static_configs": [{"targets": ["127.0.0.1:1"]}]}
    config = tmp_path / "trilens.yaml"
    config.write_text(
        yaml.safe_dump({"kubernetes": {"clusters": {"lab": cluster}}, "scrape": {"scrape_configs": [job]}})
    )
    with server(tmp_path, "--config", str(config)) as (url, _):
        until(
            lambda: {"permissions", "scrapes"} <= {one["check"] for one in findings(url)},
            "it does not find what is wrong",
        )
        found = findings(url)
    rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}
    (jobs,) = [one for one in found if one["what"] == "lab: not allowed to list jobs"]
    assert f"add to its Role in namespace {namespace}: {json.dumps(rule)}" in jobs["remedy"]
    assert not any("list pods" in one["what"] for one in found)
    (down,) = [one for one in found if one["check"] == "scrapes"]
    assert down["what"].startswith("nodes: 1 of 1 targets: ")
    assert "http://127.0.0.1:1/metrics" in down["what"]


def test_every_layer_is_in_the_docs() -> None:
    written = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    for layer in (layers.THIS_MACHINE, *OF_A_SERVER):
        assert f"\n| {layer.name} | " in written, layer.name


def test_who_may_not_see_the_whole_fleet_is_told_so_once() -> None:
    def told(token: str, *words: str) -> str:
        return trilens_here(*words, "--server", url, TRILENS_TOKEN=token).stdout

    with running(well(overrides={"server.token": "b0ss"}).build()) as url:
        (unknown,) = json.loads(told("wrong", "doctor", "--json"))
        made = told("b0ss", "token", "create", "ci", "--right", "read", "--team", "nlp").strip()
        (bound,) = json.loads(told(made, "doctor", "--json"))
    assert (unknown["is_problem"], unknown["what"]) == (True, "the server does not know you")
    assert not bound["is_problem"]
    assert bound["what"].startswith("token:ci may not see the whole fleet")

"""Runs of the SDK and of trackers, joined into experiments."""

from __future__ import annotations

from typing import Any

from trilens.lineage.experiments import Experiment, ReportedRun, experiments
from trilens.model.run import RunFacts, RunId, Tracker
from trilens.model.tracked_run import TrackedRun


def reported(
    run: str, created_ms: int = 0, metrics: dict[str, float] | None = None, **facts: Any
) -> ReportedRun:
    return ReportedRun(RunFacts(RunId(run), created_ms, **facts), "running", metrics=metrics or {})


def tracked(system: str, run: str, **told: Any) -> TrackedRun:
    return TrackedRun(Tracker(system, run, "there"), **told)


def shown(found: list[Experiment]) -> list[tuple[str | None, list[tuple[str | None, list[str]]]]]:
    """Of each experiment its runs: the id here, and those in trackers."""
    return [
        (
            one.name,
            [
                (run.reported.facts.run if run.reported else None, [each.tracker.run for each in run.tracked])
                for run in one.runs
            ],
        )
        for one in found
    ]


def test_a_run_is_the_same_by_its_tag_or_by_what_its_program_said() -> None:
    ours = [
        reported("a", experiment="llm"),
        reported("b", experiment="llm", trackers=(Tracker("wandb", "w1", "team/llm"),)),
    ]
    theirs = [tracked("mlflow", "m1", tags={"trilens.run": "a"}), tracked("wandb", "w1")]
    assert shown(experiments(ours, theirs)) == [("llm", [("a", ["m1"]), ("b", ["w1"])])]


def test_by_the_tag_alone_where_programs_are_not_believed() -> None:
    ours = [reported("a", experiment="llm", trackers=(Tracker("wandb", "w1", "team/llm"),))]
    theirs = [tracked("mlflow", "m1", tags={"trilens.run": "a"}), tracked("wandb", "w1", experiment="theirs")]
    assert shown(experiments(ours, theirs, by_tag_alone=True)) == [
        ("llm", [("a", ["m1"])]),
        ("theirs", [(None, ["w1"])]),
    ]


def test_likeness_proves_nothing() -> None:
    ours = [reported("a", experiment="llm", name="first", trackers=(Tracker("wandb", "x", ""),))]
    theirs = [
        tracked("mlflow", "a", experiment="llm", name="first"),
        tracked("mlflow", "x", experiment="llm"),
        tracked("mlflow", "y", experiment="llm", tags={"trilens.run": "gone"}),
    ]
    assert shown(experiments(ours, theirs)) == [
        ("llm", [("a", []), (None, ["a"]), (None, ["x"]), (None, ["y"])])
    ]


def test_one_run_in_two_trackers_is_one_run() -> None:
    ours = [reported("a", trackers=(Tracker("mlflow", "m1", ""), Tracker("wandb", "w1", "")))]
    theirs = [tracked("mlflow", "m1", experiment="llm"), tracked("wandb", "w1", experiment="project")]
    assert shown(experiments(ours, theirs)) == [("llm", [("a", ["m1", "w1"])])]


def test_what_the_run_says_itself_comes_first() -> None:
    ours = [reported("a", 5_000, {"loss": 1.0}, experiment="llm", config={"lr": 0.1})]
    theirs = [
        tracked(
            "mlflow",
            "m1",
            experiment="other",
            started_ms=4_000,
            params={"lr": "0.2", "seed": "7"},
            metrics={"loss": 9.0, "acc": 0.5},
            tags={"trilens.run": "a"},
        )
    ]
    [only] = experiments(ours, theirs)
    [run] = only.runs
    assert (only.name, run.started_ms) == ("llm", 4_000)
    assert run.params == {"lr": "0.1", "seed": "7"}
    assert run.metrics == {"loss": 1.0, "acc": 0.5}


def test_the_latest_come_first_and_those_without_a_time_last() -> None:
    ours = [reported("old", 1_000, experiment="a"), reported("new", 9_000, experiment="b")]
    theirs = [tracked("tensorboard", "t"), tracked("mlflow", "mid", experiment="a", started_ms=5_000)]
    assert shown(experiments(ours, theirs)) == [
        ("b", [("new", [])]),
        ("a", [(None, ["mid"]), ("old", [])]),
        (None, [(None, ["t"])]),
    ]

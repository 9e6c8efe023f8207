"""Run the benchmarks: `python -m bench [--quick] [--only intake,query,... [--write]]`; the tables go to
RESULTS.md."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import trilens
from bench import (
    cluster,
    cordon,
    dataset,
    demo,
    disk,
    growth,
    intake,
    latency,
    ledger,
    one_round,
    report,
    rules,
    runs,
    sdk_step,
    why,
)
from bench.peers import PEERS, Trilens, missing
from bench.queries import ALL
from bench.targets import serving
from bench.web import api as web_api
from bench.web import pages as web_pages
from trilens.cli.progress import waiting
from trilens.simulate.fleet import Fleet

OUT = Path(__file__).parent / "out" / "bench"  # beside what torture keeps, and resumes
NODES_PER_TARGET = 5


def run_intake(args: argparse.Namespace) -> list[str]:
    return [report.intake(intake.run(OUT, series=args.intake_series, seconds=args.intake_seconds))]


def run_queries(args: argparse.Namespace) -> list[str]:
    nodes = -(-args.series // Fleet(1).series_per_node)
    with serving(nodes, NODES_PER_TARGET) as addresses:
        peers = [kind(OUT / f"query-{kind.name.lower()}", targets=[]) for kind in PEERS]
        try:
            for peer in peers:
                peer.start()
            empty = {peer.name: peer.ready_after_s for peer in peers}
            dataset.load(peers, Fleet(nodes), addresses, NODES_PER_TARGET, args.hours)
            for peer in peers:  # again, now on the data and scraping the same series on
                peer.stop()
                peer.targets = addresses
                peer.start()
            starts = [(peer.name, empty[peer.name], peer.ready_after_s) for peer in peers]
            time.sleep(args.settle_seconds)
            answers = latency.run(peers, ALL, args.repeats)
            sizes = []
            for peer in peers:
                if not isinstance(peer, Trilens):
                    sizes.append(disk.measure(peer))
                peer.stop()
                if isinstance(peer, Trilens):
                    sizes.append(disk.measure(peer))
        finally:
            for peer in peers:
                peer.stop()
    return [report.queries(answers), report.disk(sizes), report.start(starts)]


def run_kubernetes(args: argparse.Namespace) -> list[str]:
    found = cluster.run(OUT, gpus=args.gpus, seconds=args.follow_seconds, probes=args.probes)
    return [report.kubernetes(found)]


def run_rules(args: argparse.Namespace) -> list[str]:
    return [report.rules(rules.run(OUT, gpus=args.gpus, passes=args.passes))]


def run_runs(args: argparse.Namespace) -> list[str]:
    taken = runs.intake(OUT, ranks=args.ranks, seconds=args.ranks_seconds)
    asked = runs.lineage(OUT, records=args.step_records, repeats=args.repeats)
    return [report.runs(taken, asked)]


def run_sdk(args: argparse.Namespace) -> list[str]:
    return [report.sdk(sdk_step.run(OUT))]


def run_ledger(args: argparse.Namespace) -> list[str]:
    return [report.ledger(ledger.run(OUT, gpus=args.gpus, repeats=args.repeats))]


def run_round(args: argparse.Namespace) -> list[str]:
    return [report.round_of_all(one_round.run(OUT, gpus=args.gpus))]


def run_why(args: argparse.Namespace) -> list[str]:
    return [report.verdicts(why.run(OUT, ranks=args.case_ranks))]


def run_cordon(args: argparse.Namespace) -> list[str]:
    return [report.cordon(cordon.run(OUT, faults=args.faults))]


def run_web_api(args: argparse.Namespace) -> list[str]:
    return [web_api.shown(web_api.run(OUT, gpus=args.gpus, repeats=args.asked))]


def run_web_pages(args: argparse.Namespace) -> list[str]:
    return [web_pages.shown(web_pages.run(OUT, gpus=args.gpus, repeats=args.opened))]


def run_growth(args: argparse.Namespace) -> list[str]:
    del args
    return [growth.shown(growth.run(OUT))]


def run_demo(args: argparse.Namespace) -> list[str]:
    del args
    return [demo.shown(demo.run(OUT))]


PARTS = {
    "intake": run_intake,
    "query": run_queries,
    "kubernetes": run_kubernetes,
    "rules": run_rules,
    "sdk": run_sdk,
    "runs": run_runs,
    "ledger": run_ledger,
    "round": run_round,
    "why": run_why,
    "cordon": run_cordon,
    "growth": run_growth,
    "demo": run_demo,
    "web-api": run_web_api,
    "web-pages": run_web_pages,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}; all of them unless given"
    )
    parser.add_argument(
        "--write", action="store_true", help="to RESULTS.md, also where these are not all: others stay there"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the data; for trying things out")
    parser.add_argument("--intake-series", type=int, default=300_000)
    parser.add_argument("--intake-seconds", type=int, default=75)
    parser.add_argument("--series", type=int, default=30_000)
    parser.add_argument("--hours", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--settle-seconds", type=int, default=120, help="for merges and compaction to calm down"
    )
    parser.add_argument(
        "--gpus",
        type=int,
        default=10_000,
        help="of the cluster that is watched, and of the fleets that rules go over and that are booked",
    )
    parser.add_argument("--follow-seconds", type=int, default=60)
    parser.add_argument("--probes", type=int, default=50)
    parser.add_argument(
        "--passes", type=int, default=2, help="over the rules, after the one that makes their series"
    )
    parser.add_argument("--ranks", type=int, default=1_024, help="that send step records, two steps a second")
    parser.add_argument("--ranks-seconds", type=int, default=60)
    parser.add_argument("--step-records", type=int, default=100_000_000, help="over which lineage is asked")
    parser.add_argument("--case-ranks", type=int, default=256, help="of the job that `why` is asked of")
    parser.add_argument("--asked", type=int, default=20, help="times that each page's answer is asked for")
    parser.add_argument("--opened", type=int, default=4, help="times that each page is opened again")
    parser.add_argument("--faults", type=int, default=10, help="upon which a node is closed")
    args = parser.parse_args()
    chosen = args.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    if args.quick:
        args.gpus //= 10
        args.intake_series //= 10
        args.series //= 10
        args.intake_seconds = 45
        args.step_records //= 10
    if lacking := missing():
        print(
            f"bench: cannot compare without {', '.join(lacking)}; `make servers` installs them",
            file=sys.stderr,
        )
        return 2
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    sections: list[str] = []
    asked = {name: run for name, run in PARTS.items() if name in chosen}
    for at, (name, run) in enumerate(asked.items(), 1):
        with waiting(f"{name}, {at} of {len(asked)}"):
            sections += run(args)
    head = report.header("python -m bench " + " ".join(sys.argv[1:]), versions())
    print("\n\n".join([head, *sections]))
    is_whole = set(chosen) == set(PARTS)
    if (is_whole or args.write) and not args.quick:
        before = report.RESULTS.read_text()
        report.RESULTS.write_text(report.merged(before, sections, head if is_whole else None))
    shutil.rmtree(OUT, ignore_errors=True)
    return 0


def versions() -> str:
    prometheus = subprocess.run(["prometheus", "--version"], capture_output=True, text=True, check=True)
    first = (prometheus.stdout + prometheus.stderr).splitlines()[0].split("(")[0].strip()
    # The Debian build of VictoriaMetrics does not know its own version.
    package = ["dpkg-query", "--show", "--showformat=${Version}", "victoria-metrics"]
    second = subprocess.run(package, capture_output=True, text=True, check=False).stdout.strip()
    return f"Trilens {trilens.__version__}; {first}; victoria-metrics, version {second or 'unknown'}."


if __name__ == "__main__":
    sys.exit(main())

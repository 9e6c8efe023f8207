"""Run the scoreboard: `python -m bench.detect [--seed N] [--only NAME] [--share X] [--real [TURNS]]
[--write]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.detect import real_faults, report
from bench.detect.episodes import SWEEPS, all_episodes, fault_episodes
from bench.detect.runner import each, main_part, sweep_part

if TYPE_CHECKING:
    from bench.detect.scoring import Outcome

REPORTED_SEED = 60601  # detectors were tuned with seeds below 100, and looked at with 2026 and 4711


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=REPORTED_SEED)
    parser.add_argument("--only", default="", help="classes whose name begins so")
    parser.add_argument("--share", type=float, default=1.0, help="of all episodes: 0.1 is every tenth")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-sweeps", action="store_true")
    parser.add_argument(
        "--real", type=int, nargs="?", const=real_faults.TURNS, default=0, metavar="TURNS",
        help=f"real processes that fail, too: each fault so often, {real_faults.TURNS} times unless given",
    )  # fmt: skip
    parser.add_argument("--verbose", action="store_true", help="tell each episode that went wrong")
    parser.add_argument("--write", action="store_true", help="to bench/RESULTS.md and docs/scoreboard.md")
    args = parser.parse_args()
    began_s = time.monotonic()
    every = max(1, round(1 / args.share))
    episodes = [one for one in all_episodes(args.seed) if one.name.startswith(args.only)][::every]
    if not episodes:
        parser.error(f"--only: there is no class {args.only!r}")
    outcomes = each(main_part, episodes, args.processes)
    swept: list[Outcome] = []
    if not args.no_sweeps:
        chosen = [one for one in fault_episodes(args.seed, SWEEPS) if one.name.startswith(args.only)]
        swept = each(sweep_part, chosen[::every], args.processes)
    sections = [report.main_tables(outcomes, args.seed, every), report.sweep_table(swept)]
    if args.real:
        sections.append(report.real_table(real_faults.run(args.real)))
    if args.verbose:
        print(report.details([*outcomes, *swept]))
    print("\n\n".join(sections))
    print(f"\n{len(episodes) + len(swept)} episodes in {time.monotonic() - began_s:.0f} s")
    if args.write:
        report.write(sections, Path(__file__).parents[2])
    print(report.last_line(outcomes))
    return 0 if len(outcomes) == len(episodes) else 1


if __name__ == "__main__":
    sys.exit(main())

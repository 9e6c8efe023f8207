"""Ask for the cause of a labelled set: `python -m bench.verdicts [--seed N] [--only NAME] [--write]`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Final

from bench.verdicts import corpora, gloo, public, report, simulated
from bench.verdicts.labelled import Mark
from bench.verdicts.runner import live_all

REPORTED_SEED: Final = 60602  # trees were mended with seeds below 100, and looked at with 4711
_RECORDED: Final = (
    corpora.flights,
    corpora.scheduling,
    corpora.xids,
    gloo.flights,
    gloo.logs,
    public.known,
    public.first_looks,
    public.unseen,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=REPORTED_SEED)
    parser.add_argument("--only", default="", help="groups whose name begins so: simulated, gloo")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="tell every case, not only what is not right")
    parser.add_argument("--json", action="store_true", help="every case as JSON, and nothing else")
    parser.add_argument("--write", action="store_true", help="to bench/RESULTS.md")
    args = parser.parse_args()
    if args.write and args.only:
        parser.error("--write: the table is of all groups, not of some")
    if not corpora.CORPORA.exists():
        parser.error(f"there are no corpora at {corpora.CORPORA}: set TRILENS_CORPORA")
    began_s = time.monotonic()
    cases = live_all(list(simulated.turns(args.seed, args.only)), args.processes)
    cases += [one for recorded in _RECORDED for one in recorded()]
    cases = [one for one in cases if one.group.startswith(args.only)]
    if not cases:
        parser.error(f"--only: there is no group {args.only!r}")
    if args.json:
        print(json.dumps(report.as_objects(cases), indent=1))
    else:
        text = report.section(cases, args.seed)
        if args.verbose:
            print("\n".join(report.told(one) for one in cases), end="\n\n")
        print(text)
        print(f"\n{len(cases)} cases in {time.monotonic() - began_s:.0f} s")
        print(report.last_line(cases))
        if args.write:
            report.write(text)
    today = [one for one in cases if not public.is_past(one.group)]
    return 1 if any(one.mark is Mark.SURE_WRONG for one in today) else 0


if __name__ == "__main__":
    sys.exit(main())

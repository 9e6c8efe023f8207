"""Run rows of the torture table: `python -m bench.torture ROW [--for 10m] [--resume]`; without a row, all
that have not been run of the code as it is. The table goes to RESULTS.md after each."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import TYPE_CHECKING, Final

from bench.torture import table
from bench.torture.attempt import run
from bench.torture.code import code_version
from bench.torture.rows import BY_NAME, ROWS
from bench.torture.state import KNOWN, OUT, TRIALS, State
from trilens.settings.duration import duration_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.torture.row import Row

_FUZZ: Final = "fuzz"  # all rows of this kind, or with --target one
_TERMINATED: Final = 128 + signal.SIGTERM


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.torture", description=__doc__)
    parser.add_argument("row", nargs="*", help="some of those that --list tells, or fuzz for all targets")
    parser.add_argument("--list", action="store_true", help="every row, and whether it has been run")
    parser.add_argument("--target", help="of fuzz: one target")
    parser.add_argument(
        "--for", dest="length", help="how long, as 10m, or how many times; as the row has it unless given"
    )
    parser.add_argument("--resume", action="store_true", help="go on where it was interrupted, or add to it")
    parser.add_argument(
        "--no-write", action="store_true", help="a trial: leave RESULTS.md, and what is known, as they are"
    )
    args = parser.parse_args()
    # Servers, mounts and a stopped clock are put right by who is told to end, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    state = State(TRIALS) if args.no_write else State(OUT, KNOWN)
    # As it is now: what changes while rows run, they have not tried.
    versions = {row.name: code_version(row) for row in ROWS}
    if args.list:
        _list(state, versions)
        return 0
    rows = _chosen(parser, args, state, versions)
    missed = {row.name for row in ROWS if not args.row and state.is_missed(row, versions[row.name])}
    _write(state, versions, args)  # also when nothing is left to run
    for row in rows:
        if not _run(row, args, state, versions[row.name]):
            missed.add(row.name)
        _write(state, versions, args)
    if missed:
        print(f"missed: {', '.join(sorted(missed))}", file=sys.stderr)
    return 1 if missed else 0


def _write(state: State, versions: Mapping[str, str], args: argparse.Namespace) -> None:
    if not args.no_write:
        table.write(table.section(ROWS, state.rows, versions))


def _chosen(
    parser: argparse.ArgumentParser, args: argparse.Namespace, state: State, versions: Mapping[str, str]
) -> list[Row]:
    names = [f"fuzz-{args.target}" if args.target and name == _FUZZ else name for name in args.row]
    if not names:
        return [row for row in ROWS if not state.is_done(row, versions[row.name])]
    rows: list[Row] = []
    for name in names:
        if name == _FUZZ:
            rows += [row for row in ROWS if row.name.startswith("fuzz-")]
        elif name in BY_NAME:
            rows.append(BY_NAME[name])
        else:
            parser.error(f"there is no row {name!r}; known are {', '.join(BY_NAME)}")
    return rows


def _run(row: Row, args: argparse.Namespace, state: State, version: str) -> bool:
    length = row.length if args.length is None else _amount(args.length, row)
    print(f"{row.name}: {row.what}, {table.length_text(length, row.unit)}", flush=True)
    outcome = run(row, length, resume=args.resume, state=state, version=version)
    said = "held" if outcome.passed else "missed" if outcome.was_run else "not run"
    print(f"{row.name}: {said}: {outcome.told}", flush=True)
    return outcome.passed


def _amount(length: str, row: Row) -> float:
    return float(length) if row.unit == "times" else duration_ms(length) / 1000


def _list(state: State, versions: Mapping[str, str]) -> None:
    for row in ROWS:
        kept = state.rows.get(row.name)
        known = table.verdict(row, kept)
        if kept is not None:
            known = f"{kept['done']:g} of {row.length:g}, {known}"
        stale = "" if kept is None or kept["version"] == versions[row.name] else ", of other code"
        print(f"{row.name:20} {table.length_text(row.length, row.unit):>10}  {row.what} ({known}{stale})")


if __name__ == "__main__":
    sys.exit(main())

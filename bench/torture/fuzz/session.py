"""One process in which atheris fuzzes one target:
`python -m bench.torture.fuzz.session TARGET FORM FOLDER SECONDS`.

`bytes` has libFuzzer change inputs byte by byte, led by which lines of Trilens they reach; `shaped` has it
change what hypothesis draws inputs of the right shape from.
"""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import atheris

with atheris.instrument_imports(include=["trilens"]):
    from bench.torture.fuzz.targets import BY_NAME
    from bench.torture.fuzz.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.torture.fuzz.target import Target

BYTES: Final = "bytes"
_LONGEST: Final = 1 << 16
_MOST_MB: Final = 4_096
_NEVER_S: Final = 86_400


def shaped(target: Target, try_one: Callable[[bytes], None]) -> Callable[[bytes], Any]:
    """Bytes as what hypothesis draws with."""
    from hypothesis import HealthCheck, given, settings

    @settings(deadline=None, database=None, suppress_health_check=[*HealthCheck])
    @given(target.shaped())
    def drawn(data: bytes) -> None:
        try_one(data)

    fuzz: Callable[[bytes], Any] = drawn.hypothesis.fuzz_one_input  # type: ignore[attr-defined]
    return fuzz


def _to_draw_with() -> Iterator[bytes]:
    """Long enough for something to be drawn: libFuzzer would begin with nothing, which draws nothing."""
    rng = random.Random(0)
    for size in (64, 256, 1_024, 4_096):
        for _ in range(16):
            yield rng.randbytes(size)


def main() -> None:
    name, form, place, seconds = sys.argv[1:5]
    target, folder = BY_NAME[name], Path(place)
    corpus = folder / f"corpus-{form}"
    for each in (corpus, folder / "findings"):
        each.mkdir(parents=True, exist_ok=True)
    trial = Trial(target, folder, form)
    if not any(corpus.iterdir()):
        for data in target.seeds() if form == BYTES else _to_draw_with():
            (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data[:_LONGEST])
    arguments = [
        sys.argv[0],
        str(corpus),
        f"-max_total_time={max(1, round(float(seconds)))}",
        # The clock that counts is the alarm that each input has (target.py); what hangs in C, where Python
        # does not get to look at an alarm, is ended by faulthandler. libFuzzer's own would count what
        # hypothesis takes to begin, too; with 0 it is a second.
        f"-timeout={_NEVER_S}",
        f"-report_slow_units={_NEVER_S}",
        f"-rss_limit_mb={_MOST_MB}",
        f"-artifact_prefix={folder / 'findings'}/",
        f"-max_len={_LONGEST}",
        "-verbosity=0",
        "-print_final_stats=0",
    ]
    atheris.Setup(arguments, trial.try_one if form == BYTES else shaped(target, trial.try_one))
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""One process in which whatever grows is the target's:
`python -m bench.torture.fuzz.soak TARGET FORM FOLDER SECONDS`.

First come the large inputs, which are too slow to be followed. Then inputs of the corpus are changed at
random, without atheris, which remembers what it reached and makes all that it follows several times as slow:
so few inputs would leave caches half empty.
"""

from __future__ import annotations

import random
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Final

from bench.torture.fuzz.mutation import mutations
from bench.torture.fuzz.targets import BY_NAME
from bench.torture.fuzz.trial import Trial

_SOAKED: Final = 2_000  # inputs of the corpus that it changes


def main() -> None:
    name, form, place, seconds = sys.argv[1:5]
    target, folder = BY_NAME[name], Path(place)
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    trial = Trial(target, folder, form)
    learnt = [file.read_bytes() for file in sorted((folder / "corpus-bytes").glob("*"))]
    seeds = [*target.seeds(), *random.Random(0).sample(learnt, min(len(learnt), _SOAKED))]
    ends_s = time.monotonic() + float(seconds)
    for data in chain(target.large(), mutations(seeds, time.time_ns())):
        trial.try_one(data)
        if time.monotonic() > ends_s:
            break
    trial.tell()


if __name__ == "__main__":
    main()

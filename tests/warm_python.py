"""Programs as `python program.py` runs them, in a Python that has loaded PyTorch and its frameworks before.

Loading them takes ten times as long as the programs that tests run. So one process loads them, once, and
forks for every program and rank, which runs as a main module. At its end only what the program can notice
is done: taking all those modules apart takes as long as loading them.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from servers import free_port
from trilens_process import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

_TESTS = Path(__file__).parent


class WarmPython:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, script: Path, *arguments: str, cwd: Path, ranks: int | None = None, **environ: str
    ) -> list[int]:
        """The exit code of each rank; without `ranks`, no launcher is pretended. What they wrote is shown
        when a test fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        programs = [
            {"argv": [str(script), *arguments], "cwd": str(cwd), "environ": {**environ, **one}}
            for one in ([{}] if ranks is None else _as_torchrun(ranks))
        ]
        self._process.stdin.write(json.dumps(programs) + "\n")
        self._process.stdin.flush()
        ended = json.loads(self._process.stdout.readline())
        print(ended["output"])
        codes: list[int] = ended["codes"]
        return codes


@contextmanager
def warm_python(*modules: str) -> Iterator[WarmPython]:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, *modules],
        env=clean_environment(OMP_NUM_THREADS="1", PYTHONPATH=str(_TESTS)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield WarmPython(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()  # it ends when nothing can come any more


def _as_torchrun(ranks: int) -> list[dict[str, str]]:
    """What torchrun puts into the environment of each rank."""
    port = str(free_port())
    return [
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "GROUP_RANK": "0",
            "GROUP_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_RUN_ID": "none",
        }
        for rank in range(ranks)
    ]


class _Started(NamedTuple):
    pid: int
    output: Any


def _serve(modules: list[str]) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # modules print while they are loaded
    for module in modules:
        __import__(module)
    gc.freeze()  # else each child copies all that is loaded, to look for garbage in it
    for line in sys.stdin:
        started = [_start(program) for program in json.loads(line)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(one.pid, 0)[1]) for one in started]
        output = ""
        for one in started:
            one.output.seek(0)
            output += one.output.read().decode(errors="replace")
        print(json.dumps({"codes": codes, "output": output}), file=replies, flush=True)


def _start(program: dict[str, Any]) -> _Started:
    output = tempfile.TemporaryFile()  # noqa: SIM115 - read when the program has ended
    pid = os.fork()
    if pid == 0:
        _become(program, output)
    return _Started(pid, output)


def _become(program: dict[str, Any], output: Any) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.chdir(program["cwd"])
    os.environ.update(program["environ"])
    sys.argv = program["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    _end(_run(sys.argv[0]))


def _run(script: str) -> int:
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(code: int) -> NoReturn:
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1:])
    os._exit(0)

"""The memory of a server of many threads lies in few heaps, and what is large goes back to the system."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of the GNU C library")

# Twelve threads that each ask for memory, blocks of 2 MB after one of 8 MB was freed (which by default makes
# them part of a heap), and then what the C library tells of itself.
_PROGRAM = """
import ctypes, threading
from trilens.serve.c_heap import keep_the_c_heap_small

keep_the_c_heap_small()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
libc.free.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
together = threading.Barrier(12)

def ask():
    libc.malloc(1000)
    together.wait()

threads = [threading.Thread(target=ask) for _ in range(12)]
for one in threads:
    one.start()
for one in threads:
    one.join()
libc.free(libc.malloc(8 << 20))
large = [libc.malloc(2 << 20) for _ in range(8)]
told = libc.fopen(b"/dev/stdout", b"w")
libc.malloc_info(0, told)
libc.fclose(told)
"""


def test_few_heaps_hold_nothing_large() -> None:
    told = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    info = ElementTree.fromstring(told.stdout)
    assert len(info.findall("heap")) == 2
    (held,) = [int(one.attrib["size"]) for one in info.findall("system") if one.attrib["type"] == "current"]
    assert held < 12 << 20, "16 MB of blocks are not of the heaps"

"""A large block that was freed leaves the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from core.settings.memory import return_freed_memory

def resident_mib():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

assert return_freed_memory()
before = resident_mib()
for _ in range(5):
    blocks = [bytearray(19 * 2**20) for _ in range(3)]
    del blocks
print(resident_mib() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc has the thresholds")
def test_freed_memory_is_given_back():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 15

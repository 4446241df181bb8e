"""Answering requests on standard input, and measuring this process."""

import ctypes
import gc
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def serve(actions: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """Answer until the input ends. Whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = actions[request.pop("action")](**request)
        except Exception:
            answer = {"error": traceback.format_exc(limit=-4)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def forget_peak() -> None:
    """Let the peak of memory begin anew, from what is in use now."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back to the system
    Path("/proc/self/clear_refs").write_text("5")


def memory(name: str) -> int:
    """Bytes of this process that are in memory: now ("VmRSS") or at most so far ("VmHWM")."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"this system does not tell {name}")
